"""Every kind of hazard in a program made by hand, every wait of every generated program, and what proofs rest on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import (
    Script,
    hazards_of,
    limits,
    machine,
    prepared,
    program_of,
    traced,
    waits_of,
    without,
    without_set,
)

from hwmodel.experiment import global_memory, run
from hwmodel.problem import MatmulProblem
from hwmodel.program import Cast, Extract, Load, Matmul, Part, Store, Sync, Tile, Window, whole
from hwmodel.program.hazards import Hazard, find_hazards, first_beyond
from hwmodel.program.instructions import Order

LIMITS = limits(machine())
L1 = Tile("l1", 0, 512, "int8", 16, 32, "NZ", "data", (16, 32))
L0A = Tile("l0a", 0, 512, "int8", 16, 32, "NZ", "data", (16, 32))
L0B = Tile("l0b", 0, 512, "int8", 32, 16, "ZN", "data", (32, 16))
ACC = Tile("l0c", 0, 1024, "int32", 16, 16, "ACC", "acc", (16, 16))
SYNC = Sync("flag")


def found(script: Script) -> list[tuple[str, tuple[int, ...]]]:
    return [(hazard.kind, hazard.instructions) for hazard in hazards(script)]


def hazards(script: Script) -> tuple[Hazard, ...]:
    return find_hazards(script.program(), LIMITS)


def small() -> Script:
    """One tile through the whole pipeline, rightly synchronised."""
    script = Script()
    for name, rows, cols in (("a", 16, 32), ("b", 32, 16), ("out", 16, 16)):
        script.tensor(name, "int8" if name != "out" else "int32", rows, cols)
    second = L1._replace(offset=512)
    script.add("MTE2", Load(512, 16, 32, 0), Window("a", 0, 0, 16, 32), L1)
    script.add("MTE2", Load(512, 32, 16, 0), Window("b", 0, 0, 32, 16), second, sets="loaded")
    script.add("MTE1", Extract(512, "l0a"), whole(L1), L0A, wait="loaded")
    script.add("MTE1", Extract(512, "l0b"), whole(second), L0B, sets="extracted")
    multiply = Matmul(16, 32, 16, "int8", "int8", False)
    script.add("M", multiply, (whole(L0A), whole(L0B)), ACC, wait="extracted", sets="m")
    script.add("FIX", Store(16, 16, 4, 64, 0), whole(ACC), Window("out", 0, 0, 16, 16), wait="m")
    return script


def changed(script: Script, number: int, **fields: Any) -> Script:
    script.instructions[number] = script.instructions[number]._replace(**fields)
    return script


def test_a_good_program_has_none() -> None:
    assert hazards(small()) == ()


# -- each kind ---------------------------------------------------------------------------------------------------------


def test_a_read_without_an_order() -> None:
    script = changed(small(), 2, waits=())
    script.instructions[1] = script.instructions[1]._replace(sets=())
    (first, second) = hazards(script)
    assert (first.kind, first.instructions) == ("race", (0, 2))
    assert (second.kind, second.instructions) == ("race", (1, 3))
    assert first.text == "tload 0 writes and textract 2 reads l1[0:512] int8 16x32 NZ, with no order between them"


def test_an_overwrite_without_an_order() -> None:
    script = small()
    script.add("MTE2", Load(512, 16, 32, 0), Window("a", 0, 0, 16, 32), L1)  # while TEXTRACT may still read
    assert found(script) == [("race", (2, 6))]
    (hazard,) = hazards(script)
    assert hazard.text == "textract 2 reads and tload 6 overwrites l1[0:512] int8 16x32 NZ, with no order between them"
    assert str(hazard) == f"race: {hazard.text}"


def test_two_writers_without_an_order() -> None:
    script = Script()
    script.tensor("out", "int32", 16, 16)
    script.tensor("a", "int8", 16, 32)
    script.add("MTE2", Load(512, 16, 32, 0), Window("a", 0, 0, 16, 32), L0A)
    script.add("MTE1", Extract(512, "l0a"), (), L0A)
    assert found(script) == [("race", (0, 1))]


def test_an_accumulating_matmul_reads_what_it_adds_to() -> None:
    script = small()
    script.instructions[4] = script.instructions[4]._replace(params=Matmul(16, 32, 16, "int8", "int8", True))
    assert found(script) == [("unwritten", (4,))]


def test_a_race_in_global_memory() -> None:
    script = small()
    third = L1._replace(offset=1024)
    script.tensor("out", "int8", 16, 64)
    script.add("MTE2", Load(512, 16, 32, 0), Window("out", 0, 8, 16, 32), third)
    assert found(script) == [("race", (5, 6))]
    script = small()
    script.tensor("out", "int8", 16, 64)
    script.add("MTE2", Load(512, 16, 32, 0), Window("out", 0, 16, 16, 32), third)  # beside what is stored
    assert found(script) == []


def test_a_read_of_what_nobody_wrote() -> None:
    script = Script()
    script.add("MTE1", Extract(512, "l0a"), whole(L1), L0A)
    (hazard,) = hazards(script)
    assert hazard.kind == "unwritten"
    assert hazard.text == "textract 0 reads l1[0:512] int8 16x32 NZ, which nobody wrote"


def test_a_read_that_goes_one_byte_beyond_what_was_written() -> None:
    script = small()
    part = Part(L1, 0, 0, 16, 32, 0, 1025)
    script.instructions[2] = script.instructions[2]._replace(reads=(part,))
    assert found(script) == [("unwritten", (2,))]


def test_a_wait_that_nothing_sets() -> None:
    script = small()
    script.instructions[1] = script.instructions[1]._replace(sets=())
    kinds = found(script)
    assert ("unset wait", (2,)) in kinds
    assert "waits for loaded, which nothing sets" in next(h.text for h in hazards(script) if h.kind == "unset wait")


def test_a_flag_that_is_set_once_and_waited_for_twice() -> None:
    script = changed(small(), 3, waits=small().instructions[2].waits)
    assert ("unset wait", (3,)) in found(script)


def test_a_semaphore_that_never_gets_so_far() -> None:
    script = Script()
    script.add("MTE2", SYNC, sets="s+2")
    script.add("M", SYNC, wait="s>=3")
    assert found(script) == [("unset wait", (1,))]


def test_two_engines_that_wait_for_each_other() -> None:
    script = Script()
    script.add("MTE2", SYNC, wait="b", sets="a")
    script.add("MTE1", SYNC, wait="a", sets="b")
    assert found(script) == [("deadlock", (0,)), ("deadlock", (1,))]
    assert hazards(script)[0].text == "set_flag 0 waits for b, which is only set by an instruction that waits itself"


@pytest.mark.parametrize("kind", ["tile", "part", "window", "buffer", "tensor", "negative"])
def test_a_region_beyond_its_buffer_or_tensor(kind: str) -> None:
    script = small()
    last = L1._replace(offset=524288 - 480)
    regions: dict[str, dict[str, Any]] = {
        "tile": {"writes": (last,)},
        "part": {"reads": (Part(L1, 0, 0, 16, 32, 524288 - 511, 512),)},
        "window": {"reads": (Window("a", 1, 0, 16, 32),)},
        "buffer": {"writes": (L1._replace(space="ub"),)},
        "tensor": {"reads": (Window("c", 0, 0, 16, 32),)},
        "negative": {"reads": (Window("a", 0, -1, 16, 32),)},
    }
    number = 2 if kind == "part" else 0
    changed(script, number, **regions[kind])
    beyond = first_beyond(hazards(script))
    assert beyond is not None
    assert beyond.instructions == (number,)
    assert beyond.kind == "beyond"


def test_a_scale_buffer_overrun_a31() -> None:
    """4,096 bytes of L0A_MX: a tile that ends there is right, one that ends a cell later is an overrun."""
    for size, expected in ((4096, []), (4160, ["scale overrun"])):
        script = Script()
        scales = Tile("l1", 0, size, "hif4", 16, size, "ZZ", "scale", (16, size))
        script.tensor("s", "hif4", 16, size, kind="scale")
        script.add("MTE2", Load(size, 1, size, 0), Window("s", 0, 0, 16, size), scales, sets="f")
        script.add("MTE1", Extract(size, "l0a_mx"), whole(scales), scales._replace(space="l0a_mx"), wait="f")
        assert [hazard.kind for hazard in hazards(script)] == expected
    assert hazards(script)[0].text.endswith("l0a_mx ends at 4096")


def test_a_tile_that_does_not_start_on_an_allocation_unit() -> None:
    script = small()
    for number, field in ((0, "writes"), (2, "reads")):
        odd = L1._replace(offset=1040)
        changed(script, number, **{field: (odd if field == "writes" else whole(odd),)})
    assert ("misaligned", (0,)) in found(script)
    assert "32 bytes" in hazards(script)[0].text


def test_scales_that_are_not_where_the_cube_looks() -> None:
    """The Cube finds scales at the operand's address / 16: A at 32 KiB has them at 2 KiB."""
    for offset, expected in ((2048, []), (0, [("scale address", (0,))])):
        script = Script()
        data = L0A._replace(offset=32768, dtype="hif4")
        scales = Tile("l0a_mx", offset, 64, "hif4", 16, 64, "ZZ", "scale", (16, 64))
        script.add("M", Matmul(16, 64, 16, "hif4", "hif4", False), (whole(data), whole(L0B), whole(scales)), ACC)
        assert [h for h in found(script) if h[0] == "scale address"] == expected


def test_a_flag_that_stays_set() -> None:
    script = small()
    script.add("FIX", SYNC, sets="left")
    (hazard,) = hazards(script)
    assert (hazard.kind, hazard.instructions) == ("left set", (6,))
    assert hazard.text == "set_flag 6 sets left, which nothing waits for any more: it stays set"


def test_a_semaphore_may_stay_where_it_is() -> None:
    script = Script()
    script.add("MTE2", Load(1, 1, 1, 0), op="tload", sets="s+4")
    script.add("M", SYNC, op="wait", wait="s>=2")
    assert found(script) == []


def test_a_flag_that_two_engines_wait_for() -> None:
    script = Script()
    script.add("MTE2", SYNC, sets="f")
    script.add("MTE2", SYNC, sets="f")
    script.add("MTE1", SYNC, wait="f")
    script.add("M", SYNC, wait="f")
    (hazard,) = hazards(script)
    assert (hazard.kind, hazard.instructions) == ("shared flag", (2, 3))


# -- what a proof may rest on ------------------------------------------------------------------------------------------


def test_a_flag_that_two_engines_set_proves_nothing_of_either() -> None:
    """MTE2 and FIX both set f. The first wait may be satisfied by FIX: it does not prove that the load has ended."""
    script = Script()
    script.tensor("a", "int8", 16, 32)
    script.add("MTE2", Load(512, 16, 32, 0), Window("a", 0, 0, 16, 32), L1, sets="f")
    script.add("MTE1", Extract(512, "l0a"), whole(L1), L0A, wait="f")
    script.add("FIX", SYNC, sets="f")
    script.add("MTE1", SYNC, wait="f")
    assert found(script) == [("race", (0, 1))]
    both = Script(script.tensors)
    both.add("MTE2", Load(512, 16, 32, 0), Window("a", 0, 0, 16, 32), L1, sets="f")
    both.add("FIX", SYNC, sets="f")
    both.add("MTE1", Extract(512, "l0a"), whole(L1), L0A, wait="f f")
    assert found(both) == []


def test_a_semaphore_proves_what_the_others_cannot_have_done() -> None:
    """MTE2 adds 3 times 1, FIX once 1. Reaching 3 means that MTE2 has added at least 2: the second load has ended."""
    script = Script()
    script.tensor("a", "int8", 16, 32)
    for index in range(3):
        script.add("MTE2", Load(512, 16, 32, 0), Window("a", 0, 0, 16, 32), L1._replace(offset=512 * index), sets="s")
    script.add("FIX", SYNC, op="semaphore", sets="s")
    script.add("MTE1", Extract(512, "l0a"), whole(L1._replace(offset=512)), L0A, wait="s>=3")
    script.add("MTE1", Extract(512, "l0a"), whole(L1._replace(offset=1024)), L0A)
    assert found(script) == [("race", (2, 5))]


def test_order_through_a_third_engine() -> None:
    script = Script()
    script.tensor("a", "int8", 16, 32)
    script.add("MTE2", Load(512, 16, 32, 0), Window("a", 0, 0, 16, 32), L1, sets="f")
    script.add("M", SYNC, wait="f", sets="g")
    script.add("MTE1", Extract(512, "l0a"), whole(L1), L0A, wait="g")
    assert found(script) == []


def test_hazards_are_limited_and_sorted() -> None:
    script = Script()
    for index in range(80):
        script.add("MTE1", Extract(512, "l0a"), whole(L1._replace(offset=512 * index)), L0A)
    assert len(hazards(script)) == 50
    assert [h.instructions for h in hazards(script)] == [(i,) for i in range(50)]


# -- generated programs ------------------------------------------------------------------------------------------------

GENERATED: list[dict[str, Any]] = [
    {"extents": (64, 128, 192), "tiling": {"kind": "n_split", "tile_n": 64}},
    {"extents": (64, 128, 320), "tiling": {"kind": "n_split", "tile_n": 64, "buffers": {"l0": 2, "l0c": 2}}},
    {"extents": (64, 128, 320), "tiling": {"kind": "n_split", "tile_n": 64, "buffers": {"l0": 1, "l0c": 2}}},
    {"extents": (16, 256, 64), "a": "bf16", "tiling": {"kind": "n_split"}},
    {"extents": (40, 320, 100), "tiling": {"kind": "blocked", "base": [32, 64, 64], "panel_slices": 2}},
    {"extents": (40, 448, 100), "tiling": {"kind": "blocked", "base": [32, 64, 64], "panel_slices": 2,
                                          "scale_panels": 2, "buffers": {"l0c": 2}}},
    {"extents": (40, 320, 100), "tiling": {"kind": "blocked", "base": [32, 64, 64], "panel_slices": 2,
                                          "buffers": {"l1": 1, "l0": 1, "l0c": 1}}},
    {"extents": (40, 100, 100), "a": "bf16", "b": "bf16", "tiling": {"kind": "blocked", "base": [32, 32, 64]}},
]  # fmt: skip


def generated(case: dict[str, Any]) -> Any:
    return prepared(*case["extents"], **{key: value for key, value in case.items() if key != "extents"})


@pytest.mark.parametrize("case", GENERATED, ids=str)
def test_removing_any_single_wait_is_found(case: dict[str, Any]) -> None:
    ready = generated(case)
    program = program_of(ready)
    assert hazards_of(ready) == ()
    waits = list(waits_of(program))
    assert len(waits) > 3
    for number, wait in waits:
        assert hazards_of(ready, without(program, number, wait)), (number, wait)


@pytest.mark.parametrize("case", GENERATED, ids=str)
def test_removing_any_single_set_is_found(case: dict[str, Any]) -> None:
    ready = generated(case)
    program = program_of(ready)
    for instruction in program.cores[0].instructions:
        for signal in instruction.sets:
            kinds = {hazard.kind for hazard in hazards_of(ready, without_set(program, instruction.number, signal))}
            assert kinds & {"unset wait", "deadlock"}, (instruction.number, signal)


def outputs(ready: Any, program: Any) -> Any:
    problem = ready.scenario.problem
    assert isinstance(problem, MatmulProblem)
    gm = global_memory(problem, ready.operands)
    traced(ready.scenario.arch, program, gm)
    return gm["out"]


@pytest.mark.parametrize("case", GENERATED[:6], ids=str)
def test_a_race_that_really_happens_gives_a_hazard_and_wrong_values(case: dict[str, Any]) -> None:
    """Without a wait the program still ends; where the race is lost, the bits are wrong, and it was named before."""
    ready = generated(case)
    program = program_of(ready)
    right = outputs(ready, program)
    lost = []
    for number, wait in waits_of(program):
        if wait.signal in ("MTE1>M:0", "MTE2>MTE1:0", "MTE2>MTE1:1", "M>FIX:0"):
            racy = without(program, number, wait)
            if not (outputs(ready, racy) == right).all():
                lost.append((number, wait))
                assert "race" in {hazard.kind for hazard in hazards_of(ready, racy)}
    assert len(lost) >= 2


rates = st.fixed_dictionaries(
    {
        "arch__units__tload__startup_cycles": st.integers(0, 500),
        "arch__links__hbm__bytes_per_cycle": st.sampled_from([1, 7, 64, 4096]),
        "arch__units__textract__startup_cycles": st.integers(0, 500),
        "arch__units__cube__startup_cycles": st.integers(0, 2000),
        "arch__units__fixpipe__startup_cycles": st.integers(0, 2000),
        "arch__units__fixpipe__bytes_per_cycle": st.sampled_from([1, 64, 4096]),
        "arch__units__fixpipe__row_floor_cycles": st.sampled_from([0.001, 30]),
    }
)


@settings(max_examples=25)
@given(st.sampled_from(GENERATED), rates)
def test_without_hazards_no_timing_changes_a_bit(case: dict[str, Any], speeds: dict[str, Any]) -> None:
    ready = generated({**case, **speeds})
    assert hazards_of(ready) == ()
    assert run(ready).values.status == "bit_exact"


def test_cores_that_share_instructions_are_checked_once_and_others_each() -> None:
    script = Script()
    script.add("MTE1", Extract(512, "l0a"), whole(L1), L0A)
    assert [hazard.core for hazard in find_hazards(script.program(cores=3), LIMITS)] == [0]


def test_values_of_instructions_are_no_part_of_the_check() -> None:
    script = small()
    changed(script, 4, values=Order("group", 32))
    changed(script, 5, values=Cast("int32"))
    assert hazards(script) == ()
