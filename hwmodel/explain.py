"""Why a run takes as long as it does: stalls, phases, critical path, roofs, and what-if answers that were simulated."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hwmodel.analysis.constraints import constraints
from hwmodel.analysis.contention import slowdown
from hwmodel.analysis.critical_path import CriticalPath, critical_path, last_core
from hwmodel.analysis.flow import Lives, lives, times
from hwmodel.analysis.phases import Phases, phases
from hwmodel.analysis.roofline import Roofline, census, roofline
from hwmodel.analysis.stalls import CoreFacts, Stalls, core_facts, stalls
from hwmodel.analysis.whatif import Change, Outcome, WhatIf, changes, ranked
from hwmodel.arch import Arch
from hwmodel.config.arch import load_arch
from hwmodel.config.overrides import parse_overrides
from hwmodel.config.plain import plain
from hwmodel.config.sourced import put_together
from hwmodel.errors import HwmodelError, InputError
from hwmodel.problem import MatmulProblem
from hwmodel.program.instructions import Instruction
from hwmodel.program.program import Program
from hwmodel.quantities import ceil_div
from hwmodel.result import SCHEMA_VERSION, Result
from hwmodel.scenario import Scenario
from hwmodel.tiling import TILINGS

BUDGET = 1_000_000
"""Instructions that what-if answers simulate in all; what does not fit is left out and named."""


@dataclass(frozen=True)
class Explanation:
    """Everything `explain` says about a run; ``whatif`` is None where it was not asked for."""

    result: Result
    cores: tuple[CoreFacts, ...]
    stalls: Stalls
    phases: Phases
    path: CriticalPath
    roofline: Roofline | None
    whatif: WhatIf | None

    @cached_property
    def slack(self) -> dict[str, dict[str, float]]:
        """By unit of the path's core: instructions that take time, those without slack, and the median in cycles."""
        graph = self.path.graph
        assert self.result.trace is not None
        free = graph.slack(self.result.trace.end)
        found: dict[str, list[int]] = {}
        for first, row in zip(graph.first, graph.rows, strict=True):
            for position, (start, end) in enumerate(zip(row.starts, row.ends, strict=True)):
                if end > start:
                    found.setdefault(row.unit, []).append(int(free[first + position]))
        scale = self.path.ticks_per_cycle
        result = {}
        for unit, values in found.items():
            values.sort()
            median = values[len(values) // 2] / scale
            tight = sum(1 for value in values if value == 0)
            result[unit] = {"instructions": len(values), "without_slack": tight, "median_cycles": median}
        return result

    def to_dict(self) -> dict[str, Any]:
        """``explain --json``."""
        result, stats = self.result, self.result.stats
        assert stats is not None
        return {
            "schema_version": SCHEMA_VERSION,
            "name": result.name,
            "arch": result.arch.name,
            "calibrated": result.to_dict()["calibrated"],
            "cycles": stats.cycles,
            "time_us": stats.time_us,
            "bound": stats.bound,
            "alone_cycles": {unit: figures.alone_cycles for unit, figures in stats.units.items()},
            "stalls": self.stalls.to_dict(),
            "phases": self.phases.to_dict(),
            "critical_path": {**self.path.to_dict(), "slack": self.slack},
            "roofline": self.roofline.to_dict() if self.roofline else None,
            "what_if": self.whatif.to_dict() if self.whatif else None,
        }


def explain(
    result: Result,
    *,
    whatif: bool = True,
    budget: int = BUDGET,
    progress: Callable[[str], None] = lambda _text: None,
) -> Explanation:
    """Explain a run. ``budget`` is how many instructions the what-if answers may simulate in all.

    Raises InputError for an operation that has no timing model.
    """
    trace, program, stats = result.trace, result.program, result.stats
    if trace is None or program is None or stats is None:
        raise InputError(f"{result.name}: this operation has no timing model, so there is no trace to explain")
    banks_of = bank_finder(result.arch)
    known: dict[int, Lives] = {}
    cores = []
    for core in program.cores:
        rows = [row for row in trace.rows if row.core == core.core]
        if id(core.instructions) not in known:
            known[id(core.instructions)] = lives(core.instructions)
        graph = constraints(rows, trace, result.arch, banks_of)
        cores.append(core_facts(core, graph, known[id(core.instructions)], *times(core, trace)))
    found = stalls(trace, cores, slowdown(trace, program.cores, result.arch))
    last = last_core([facts.graph for facts in cores])
    graph = cores[last].graph if cores else constraints((), trace, result.arch)
    path = critical_path(cores[last].core.core if cores else 0, graph, trace.end, trace.ticks_per_cycle)
    return Explanation(
        result,
        tuple(cores),
        found,
        phases(trace, found, stats.bound, path.core),
        path,
        roofline(stats, program, result.arch),
        answer(result, path, budget=budget, progress=progress) if whatif else None,
    )


def bank_finder(arch: Arch) -> Callable[[str, Instruction], Sequence[Hashable]]:
    """Which banks an instruction holds, as the machine has it."""
    from hwmodel.machine import Executor

    banked = {name: buffer for name, buffer in arch.spec.buffers.items() if buffer.banks != "none"}
    executors = {engine: Executor(unit, {}, banked, None, engine) for engine, unit in arch.units.items()}
    known = {engine: executor.banks for engine, executor in executors.items() if executor.banks is not None}

    def banks_of(engine: str, instruction: Instruction) -> Sequence[Hashable]:
        find = known.get(engine)
        return () if find is None else find(instruction)

    return banks_of


# -- what if -----------------------------------------------------------------------------------------------------------


def answer(
    result: Result,
    path: CriticalPath,
    *,
    budget: int = BUDGET,
    progress: Callable[[str], None] = lambda _text: None,
) -> WhatIf | None:
    """Simulate the run again, then with each change; None where nothing tells what was simulated."""
    scenario, program, stats = result.scenario, result.program, result.stats
    if scenario is None or program is None or stats is None:
        return None
    questions = changes(result.arch, scenario.tiling, _weights(path), _links(program, result.arch))
    progress("what if: baseline")
    again = simulated(scenario)
    baseline, _ = again
    if baseline != stats.cycles:
        return WhatIf(baseline, False, (), (), tuple(questions))
    plan = _plan(scenario)
    affordable = max(0, budget // max(program.count, 1) - 1)
    outcomes, impossible = [], []
    for number, change in enumerate(questions[:affordable], start=1):
        progress(f"what if: [{number}/{len(questions[:affordable])}] {change.target} {change.text}")
        try:
            cycles, time_us = ask(scenario, program, plan, change)
        except HwmodelError as error:
            impossible.append(Outcome(change, 0, 0.0, 0.0, 0.0, str(error)))
            continue
        gain = stats.time_us - time_us
        outcomes.append(Outcome(change, cycles, time_us, gain, gain / stats.time_us if stats.time_us else 0.0))
    progress("")
    return WhatIf(baseline, True, ranked(outcomes), tuple(impossible), tuple(questions[affordable:]))


def _weights(path: CriticalPath) -> Mapping[str, float]:
    by_unit = path.by_unit()
    total = sum(by_unit.values())
    return {unit: cycles / total for unit, cycles in by_unit.items()} if total else {}


def _links(program: Program, arch: Arch) -> set[str]:
    return {
        move.link
        for engine, params in census(program)
        for move in arch.units[engine].kind.traffic(arch.units[engine].spec, params)
    }


def ask(scenario: Scenario, program: Program, plan: object, change: Change) -> tuple[int, float]:
    """(cycles, microseconds) with one change. ``program`` and ``plan`` are those of the scenario as it is.

    A faster machine runs the same program, unless its tiling looks at the machine and now chooses another one.
    Raises HwmodelError where the changed kernel does not fit or does not end.
    """
    changed = with_overrides(scenario, change.overrides)
    if change.replans or _plan(changed) != plan:
        return simulated(changed)
    return _run(changed.arch, program)


def simulated(scenario: Scenario) -> tuple[int, float]:
    """(cycles, microseconds) of a scenario, without values."""
    from hwmodel.experiment import prepare

    program = prepare(scenario).program
    assert program is not None
    return _run(scenario.arch, program)


def _run(arch: Arch, program: Program) -> tuple[int, float]:
    from hwmodel.machine import Machine

    trace = Machine(arch, program).run()
    cycles = ceil_div(trace.end, trace.ticks_per_cycle)
    return cycles, arch.microseconds(cycles)


def with_overrides(scenario: Scenario, overrides: Mapping[str, Any]) -> Scenario:
    """The same scenario with fields of its machine (``arch.``) or of its tiling replaced."""
    given = parse_overrides(overrides)
    of_arch = [override for override in given if override.path[0] == "arch"]
    arch = scenario.arch
    if of_arch:
        arch = load_arch(put_together(plain(arch.spec), arch.sources), scenario.base, overrides=of_arch)
    model = scenario.model
    tiling = [override for override in given if override.path[0] == "tiling"]
    if tiling:
        fields = plain(model.tiling)
        for override in tiling:
            node = fields
            for step in override.path[1:-1]:
                node = node[step]
            node[override.path[-1]] = override.value
        model = model.model_copy(update={"tiling": type(scenario.tiling).model_validate(fields)})
    return replace(scenario, arch=arch, model=model)


def _plan(scenario: Scenario) -> object:
    """What the tiling of a scenario comes to; None where it has none."""
    problem = scenario.problem
    if not isinstance(problem, MatmulProblem):
        return None
    return TILINGS[scenario.tiling.kind].plan(problem, scenario.accumulate, scenario.arch, scenario.tiling).summary()
