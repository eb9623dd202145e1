"""Random programs: where the check finds no hazard, no timing changes a bit; where a race is lost, it had been named.

Each program is a pipeline of loads, extracts, matmuls and stores over few places in each buffer, ordered by flags of
which some are left out. It is run with several machines, slow and fast in different places, and compared with the same
instructions run one after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from support import Script, limits, machine, signals, traced, waits

from hwmodel.arch import Arch
from hwmodel.errors import DeadlockError
from hwmodel.program import Cast, Extract, Load, Matmul, Order, Program, Store, Tile, Window, whole
from hwmodel.program.hazards import find_hazards
from hwmodel.units import UNITS
from hwmodel.units.storage import Storage

STEPS = 5
MACHINES = [
    machine({f"units.{unit}.startup_cycles": 5000, "links.hbm.core_bytes_per_cycle": rate})
    for unit in ("tload", "textract", "cube", "fixpipe")
    for rate in (1, 64)
] + [machine()]
LIMITS = limits(machine())
Array = np.ndarray[Any, Any]


def tile(space: str, place: int) -> Tile:
    if space == "l0c":
        return Tile(space, 1024 * place, 1024, "int32", 16, 16, "ACC", "acc", (16, 16))
    shape = (32, 16) if space in ("l0b", "l1b") else (16, 32)
    layout = "ZN" if space == "l0b" else "NZ"
    padded = (32, 32) if space == "l1b" else shape
    offset = 512 * place if space != "l1b" else 16384 + 1024 * place
    return Tile(space[:3].removesuffix("b") if space == "l1b" else space, offset, padded[0] * padded[1], "int8", *shape,
                layout, "data", padded)  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A pipeline; ``kept`` says which of its orderings (a set and a wait) are there."""
    places = {space: draw(st.integers(1, 3)) for space in ("l1", "l0", "l0c")}
    rare = draw(st.sampled_from([0, 0, 0.05, 0.2]))
    drop = lambda: draw(st.floats(0, 1)) < rare  # noqa: E731
    script = Script()
    for name, shape in (("a", (16, 32 * STEPS)), ("b", (32 * STEPS, 16)), ("out", (16, 16 * STEPS))):
        script.tensor(name, "int32" if name == "out" else "int8", *shape)
    last: dict[tuple[str, int], int] = {}
    waiting: dict[int, list[str]] = {}
    raised: dict[int, list[str]] = {}

    def order(before: int | None, after: int, name: str) -> None:
        if before is not None and not drop():
            raised.setdefault(before, []).append(name)
            waiting.setdefault(after, []).append(name)

    for step in range(STEPS):
        p, q, c = step % places["l1"], step % places["l0"], step % places["l0c"]
        adds = step > 0 and c == (step - 1) % places["l0c"] and draw(st.booleans())
        load_a = script.add("MTE2", Load(512, 16, 32, 0), Window("a", 0, 32 * step, 16, 32), tile("l1", p)).number
        load_b = script.add("MTE2", Load(512, 32, 16, 0), Window("b", 32 * step, 0, 32, 16), tile("l1b", p)).number
        order(last.get(("extracted", p)), load_a, f"MTE1>MTE2:{p}")
        cut_a = script.add("MTE1", Extract(512, "l0a"), whole(tile("l1", p)), tile("l0a", q)).number
        order(load_b, cut_a, f"MTE2>MTE1:{p}")
        order(last.get(("multiplied", q)), cut_a, f"M>MTE1:{q}")
        cut_b = script.add("MTE1", Extract(512, "l0b"), whole(tile("l1b", p)), tile("l0b", q)).number
        last["extracted", p] = cut_b
        reads = (whole(tile("l0a", q)), whole(tile("l0b", q)))
        params = Matmul(16, 32, 16, "int8", "int8", bool(adds))
        multiply = script.add("M", params, reads, tile("l0c", c), op="tmatmul", values=Order()).number
        order(cut_b, multiply, f"MTE1>M:{q}")
        order(last.get(("stored", c)), multiply, f"FIX>M:{c}")
        last["multiplied", q] = multiply
        window = Window("out", 0, 16 * step, 16, 16)
        store = script.add("FIX", Store(16, 16, 4, 320, 0), whole(tile("l0c", c)), window, values=Cast("int32")).number
        order(multiply, store, f"M>FIX:{c}")
        last["stored", c] = store
    for number, instruction in enumerate(script.instructions):
        flags = (" ".join(names.get(number, [])) for names in (waiting, raised))
        script.instructions[number] = instruction._replace(waits=waits(next(flags)), sets=signals(next(flags)))
    return script.program()


def memory() -> dict[str, Array]:
    stream = np.random.RandomState(1)
    return {
        "a": stream.randint(0, 256, (16, 32 * STEPS)).astype(np.uint8),
        "b": stream.randint(0, 256, (32 * STEPS, 16)).astype(np.uint8),
        "out": np.full((16, 16 * STEPS), 0xFFFFFFFF, np.uint32),
    }


def in_order(program: Program, arch: Arch) -> Array:
    """The output of the same instructions one after the other."""
    gm = memory()
    capacities = {name: buffer.capacity_bytes for name, buffer in arch.spec.buffers.items()}
    storage = Storage(capacities, gm, program.tensors, {})
    kinds = {kind.engine: kind for kind in UNITS.values()}
    for instruction in program.cores[0].instructions:
        kind = kinds[instruction.engine]
        kind.commit(instruction, storage, kind.capture(instruction, storage))
    return gm["out"]


def raced(program: Program) -> bool:
    """Whether any of the machines gives other bits."""
    right = in_order(program, MACHINES[0])
    wrong = False
    for arch in MACHINES:
        gm = memory()
        traced(arch, program, gm)
        wrong |= not np.array_equal(gm["out"], right)
    return wrong


@settings(max_examples=120)
@given(programs())
def test_no_hazard_no_surprise_and_no_lost_race_without_a_hazard(program: Program) -> None:
    hazards = find_hazards(program, LIMITS)
    try:
        wrong = raced(program)
    except DeadlockError:
        event("deadlock")
        assert {hazard.kind for hazard in hazards} & {"unset wait", "deadlock"}
        return
    event(f"{'hazards' if hazards else 'none'}, {'wrong' if wrong else 'right'}")
    assert hazards or not wrong
