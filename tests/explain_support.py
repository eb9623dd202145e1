"""What the tests of explanations share: shipped scenarios at a size that is quick, programs at random, and a nudge."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from hwmodel.analysis.constraints import constraints
from hwmodel.analysis.critical_path import CriticalPath, critical_path
from hwmodel.analysis.flow import lives, times
from hwmodel.analysis.stalls import CoreFacts, core_facts
from hwmodel.arch import Arch
from hwmodel.experiment import prepare, run
from hwmodel.explain import bank_finder
from hwmodel.machine import Machine
from hwmodel.program.instructions import Extract, Instruction, Load, Matmul, Signal, Store, Sync, Wait
from hwmodel.program.memory import Tile
from hwmodel.program.program import CoreProgram, Program
from hwmodel.result import Result
from hwmodel.scenario import load
from hwmodel.trace import Trace

ROOT = Path(__file__).resolve().parent.parent
SCENARIOS = sorted((ROOT / "scenarios").rglob("*.yaml"))
QUICK = 20_000
"""Scenarios with more instructions are simulated with a smaller problem."""


@cache
def shipped(path: Path) -> Result | None:
    """The result of a shipped scenario, without values; None for an operation that has no timing."""
    scenario = load(path)
    if scenario.arch.spec.family == "neuron" and scenario.problem is not None and "m" in scenario.problem.model_dump():
        scenario = load(path, {"problem.m": 512, "problem.n": 1024, "problem.k": 1024, "expect": {}})
    ready = prepare(scenario)
    return None if ready.program is None else run(ready, values="skip")


def timed_scenarios() -> list[Path]:
    """Every shipped scenario that has a timing, silicon ones included."""
    return [path for path in SCENARIOS if "quantize" not in path.stem]


def facts_of(trace: Trace, program: Program, arch: Arch) -> list[CoreFacts]:
    """What is known about each core of a run."""
    banks_of = bank_finder(arch)
    found = []
    for core in program.cores:
        rows = [row for row in trace.rows if row.core == core.core]
        graph = constraints(rows, trace, arch, banks_of)
        found.append(core_facts(core, graph, lives(core.instructions), *times(core, trace)))
    return found


def path_of(trace: Trace, facts: CoreFacts) -> CriticalPath:
    """The critical path of one core."""
    return critical_path(facts.core.core, facts.graph, trace.end, trace.ticks_per_cycle)


def nudged(arch: Arch, program: Program, core: int, engine: str, position: int, ticks: int) -> Trace:
    """The run with one instruction that takes ``ticks`` longer (in a parallel row: ends so much later)."""
    machine = Machine(arch, program)
    place = next(place for place, each in enumerate(program.cores) if each.core == core)
    executor: Any = machine.engines[place][engine].executor
    name = "cost" if arch.units[engine].kind.timing is None else "overlap"
    usual: Callable[[Any], Any] = getattr(executor, name)
    calls = iter(range(10**9))

    def longer(params: Any) -> Any:
        found = usual(params)
        if next(calls) != position:
            return found
        return (
            found._replace(ticks=found.ticks + ticks) if name == "cost" else found._replace(after=found.after + ticks)
        )

    setattr(executor, name, longer)
    return machine.run()


@st.composite
def programs(draw: st.DrawFn, banks: bool = True, shared: bool = True) -> Program:
    """Programs that end: every flag is set by an earlier instruction and waited for at most once.

    ``banks``: engines meet in banks of L0C. ``shared``: several engines raise one semaphore.
    """
    free: dict[str, list[str]] = {}
    instructions: list[Instruction] = []
    semaphore = 0
    for number in range(draw(st.integers(1, 24))):
        engine = draw(st.sampled_from(("MTE2", "MTE1", "M", "FIX")))
        waits: list[Wait] = []
        for other, flags in free.items():
            if other != engine and flags and draw(st.booleans()):
                waits.append(Wait(flags.pop(draw(st.integers(0, len(flags) - 1)))))
        if semaphore and draw(st.integers(0, 4)) == 0:
            waits.append(Wait("count", draw(st.integers(1, semaphore))))
        sets = [Signal(f"f{number}.{which}") for which in range(draw(st.integers(0, 2)))]
        free.setdefault(engine, []).extend(signal.signal for signal in sets)
        if draw(st.integers(0, 5)) == 0 and (shared or engine == "MTE2"):
            sets.append(Signal("count", 2))
            semaphore += 2
        op, params, reads, writes = draw(_work(engine, banks))
        label = (("n", number),)
        instructions.append(
            Instruction(number, op, engine, params, reads, writes, tuple(waits), tuple(sets), None, label)
        )
    return Program({}, (CoreProgram(0, tuple(instructions)),))


def _tile(space: str, which: int) -> Tile:
    return Tile(space, 64 * which, 64, "bf16", 1, 32, "ND", "acc" if space == "l0c" else "data", (1, 32))


@st.composite
def _work(draw: st.DrawFn, engine: str, banks: bool) -> tuple[str, Any, tuple[Tile, ...], tuple[Tile, ...]]:
    if draw(st.integers(0, 6)) == 0:
        return "set_flag", Sync("flag"), (), ()
    size = 64 * draw(st.integers(1, 40))
    which, other = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    if engine == "MTE2":
        return "tload", Load(size, 1, size, draw(st.sampled_from((0, size)))), (), (_tile("l1", which),)
    if engine == "MTE1":
        return "textract", Extract(size, "l0a"), (_tile("l1", which),), (_tile("l0a", other),)
    sums = (_tile("l0c", which),) if banks else ()
    if engine == "M":
        return "tmatmul", Matmul(16, 64, size, "bf16", "bf16", False), (_tile("l0a", other),), sums
    return "tstore", Store(1, size, 2, 2 * size, 0), sums, ()
