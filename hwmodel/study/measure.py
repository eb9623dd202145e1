"""What one scenario gives, as one flat record: the row of a table, small enough to send between processes."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hwmodel.analysis.statistics import Statistics, statistics
from hwmodel.arch import Arch
from hwmodel.config.positions import NOWHERE
from hwmodel.errors import HwmodelError, InputError
from hwmodel.program.memory import Part, Window
from hwmodel.program.program import Program
from hwmodel.scenario import Scenario

ValueMode = Literal["check", "skip"]


@dataclass(frozen=True)
class Task:
    """One scenario to simulate; ``key`` names it in journals: equal keys give equal records."""

    key: str
    scenario: Scenario
    values: ValueMode = "skip"


@dataclass(frozen=True)
class Record:
    """What came out: ``columns`` of a scenario that ran, or ``problem`` and the exit code it stands for."""

    columns: dict[str, Any] = field(default_factory=dict)
    problem: str = ""
    code: int = 0

    @property
    def cycles(self) -> int | None:
        """Cycles; None where it did not run, or has no timing."""
        return self.columns.get("cycles")


def task_of(scenario: Scenario, values: ValueMode) -> Task:
    """A task, keyed by all that decides its record. Raises InputError for an input file that cannot be read."""
    return Task(f"{scenario.hash()}-{values}", without_positions(scenario), values)


def without_positions(scenario: Scenario) -> Scenario:
    """Fit to be sent: errors name the field without its line, and the machine has nothing worked out yet."""
    arch = Arch(scenario.arch.spec, scenario.arch.sources)
    return replace(scenario, arch=arch, positions=NOWHERE)


def measure(task: Task) -> Record:
    """Simulate a task. What goes wrong is in the record, not raised."""
    collects = gc.isenabled()
    gc.disable()  # programs and traces are many small records that all stay alive until the end
    try:
        return _checked(task.scenario) if task.values == "check" else _timed(task.scenario)
    except HwmodelError as error:
        problem = task.scenario.locate(error, "tiling") if isinstance(error, InputError) else error
        return Record(problem=" ".join(str(problem).split()), code=error.exit_code)
    finally:
        if collects:
            gc.enable()


def _timed(scenario: Scenario) -> Record:
    """Timing alone: no inputs are made, and nothing is looked for that only values can show."""
    from hwmodel.experiment import simulate
    from hwmodel.machine import Machine
    from hwmodel.problem import MatmulProblem
    from hwmodel.tiling import TILINGS

    problem = scenario.problem
    if not isinstance(problem, MatmulProblem) or TILINGS[scenario.tiling.kind].family != scenario.arch.spec.family:
        result = simulate(scenario, values="skip")  # or its error
        return Record({"cycles": result.cycles, "values": "skipped", "sha256": None})
    plan = TILINGS[scenario.tiling.kind].plan(problem, scenario.accumulate, scenario.arch, scenario.tiling)
    program = plan.program()
    trace = Machine(scenario.arch, program).run()
    peak = scenario.arch.peak_macs_per_cycle(problem.a, problem.b)
    stats = statistics(trace, program, scenario.arch, peak)
    return Record({**columns_of(stats, program, plan.summary()), "values": "skipped", "sha256": None})


def _checked(scenario: Scenario) -> Record:
    from hwmodel.experiment import simulate

    result = simulate(scenario)
    columns: dict[str, Any] = {"cycles": result.cycles}
    if result.stats is not None and result.program is not None:
        columns = columns_of(result.stats, result.program, result.tiling)
    columns |= {"values": result.values.status, "sha256": result.values.sha256}
    return Record(columns, code=result.exit_code)


def columns_of(stats: Statistics, program: Program, tiling: dict[str, Any]) -> dict[str, Any]:
    """The columns of a run, units in their names."""
    return {
        "cycles": stats.cycles,
        "time_us": stats.time_us,
        "bound": stats.bound,
        "tflops": stats.tflops,
        "peak_fraction": stats.peak_fraction,
        "cores": stats.cores,
        "gm_read_bytes": stats.gm_read_bytes,
        "gm_write_bytes": stats.gm_write_bytes,
        **{f"{name}_utilization": unit.utilization for name, unit in stats.units.items()},
        **{f"{name}_bytes": size for name, size in footprint(program).items()},
        "plan": tiling_text(tiling),
    }


def footprint(program: Program) -> dict[str, int]:
    """Bytes of each on-chip buffer that a core's program ever writes; the largest over the cores."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    for core in program.cores:
        if id(core.instructions) in seen:
            continue
        seen.add(id(core.instructions))
        ranges: dict[str, set[tuple[int, int]]] = {}
        for instruction in core.instructions:
            for operand in instruction.writes:
                if not isinstance(operand, Window):
                    space = operand.tile.space if isinstance(operand, Part) else operand.space
                    ranges.setdefault(space, set()).add((operand.offset, operand.offset + operand.size))
        for space, spans in ranges.items():
            found[space] = max(found.get(space, 0), _covered(spans))
    return found


def _covered(spans: set[tuple[int, int]]) -> int:
    total = reach = 0
    for start, stop in sorted(spans):
        total += max(0, stop - max(start, reach))
        reach = max(reach, stop)
    return total


def tiling_text(tiling: dict[str, Any]) -> str:
    """``blocked grid 4x6 base 128x64x256 panel 4 ...``: a tiling in one line."""
    hidden = ("kind", "cores", "active_cores", "simulated_cores", "tiles_per_core", "picked_by")
    parts = [str(tiling.get("kind", "none"))]
    for name, value in tiling.items():
        if name in hidden or value is None:
            continue
        if isinstance(value, dict):
            parts.append(" ".join(f"{part}:{size}" for part, size in value.items()))
        elif isinstance(value, list | tuple):
            parts.append(f"{name} {'x'.join(str(part) for part in value)}")
        else:
            parts.append(f"{name} {value}")
    return ", ".join(parts)
