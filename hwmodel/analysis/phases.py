"""Beginning, steady state and end of a run, found in the trace: where an engine does the same again and again.

The steady state is the longest stretch in which instructions of one engine repeat with a constant distance: the same
work ``period`` instructions later starts the same time later. It does not begin while the pipeline still fills: units
that begin their work in its first half begin it before. Not every run has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hwmodel.analysis.naming import subject
from hwmodel.analysis.stalls import KIND_NUMBERS, Stalls
from hwmodel.quantities import ceil_div
from hwmodel.trace import Row, Trace

TOLERANCE = 0.02
"""Distances in a steady state differ by at most this share."""
BETTER = 1.05
"""A longer period has to cover so much more time than a shorter one."""
MOST_INSTRUCTIONS = 2000
"""Longest period that is looked for, in instructions of one engine."""


class Steady(NamedTuple):
    """A steady state, in ticks: ``periods`` whole periods of ``period`` instructions of an engine."""

    start: int
    end: int
    periods: int
    instructions: int
    engine: str
    unit: str
    first: int
    """Place of its first instruction among those of the engine that take time."""

    @property
    def coverage(self) -> int:
        """Ticks from its start to its end."""
        return self.end - self.start


@dataclass(frozen=True)
class Phase:
    """One part of the run: cycles of each unit by kind, means over the cores; each unit's sum to ``cycles``."""

    name: str
    start_cycle: int
    cycles: int
    units: dict[str, dict[str, float]]
    top: dict[str, tuple[str, float]]
    """By unit: what it waited for longest, and for how many cycles; left out where it never did."""

    def share(self, unit: str, kind: str) -> float:
        """Share of one kind of a unit's time."""
        return self.units[unit][kind] / self.cycles if self.cycles else 0.0


@dataclass(frozen=True)
class Phases:
    """Prologue, steady state and epilogue; one phase called ``run`` where nothing repeats."""

    phases: tuple[Phase, ...]
    steady: Steady | None
    period_cycles: float
    limit: str
    """The unit that is busiest in the steady state, or in the run."""

    def to_dict(self) -> dict[str, Any]:
        """For ``explain --json``."""
        steady = None
        if self.steady is not None:
            steady = {
                "periods": self.steady.periods,
                "period_cycles": self.period_cycles,
                "instructions": self.steady.instructions,
                "engine": self.steady.engine,
            }
        return {
            "steady_state": steady,
            "busiest": self.limit,
            "phases": [
                {
                    "name": phase.name,
                    "start_cycle": phase.start_cycle,
                    "cycles": phase.cycles,
                    "units": {
                        unit: {f"{kind}_cycles": value for kind, value in kinds.items()}
                        for unit, kinds in phase.units.items()
                    },
                    "longest_wait": {
                        unit: {"text": text, "cycles": cycles} for unit, (text, cycles) in phase.top.items()
                    },
                }
                for phase in self.phases
            ],
        }


def phases(trace: Trace, stalls: Stalls, bound: str, core: int) -> Phases:
    """Find the steady state of one core, that of the unit ``bound`` first, and say what units do in each phase."""
    rows = [row for row in trace.rows if row.core == core and not row.parallel]
    rows += [row for row in trace.rows if row.core == core and row.parallel]
    rows.sort(key=lambda row: row.unit != bound)
    best: Steady | None = None
    for row in rows:
        found = steady_state(row)
        if found is not None and (best is None or found.coverage > BETTER * best.coverage):
            best = _once_filled(found, row, rows)
    weights = dict(zip(dict.fromkeys(row.core for row in trace.rows), trace.folded, strict=True))
    scale = trace.ticks_per_cycle
    if best is None:
        parts = [("run", 0, stalls.cycles)]
    else:
        start, end = ceil_div(best.start, scale), ceil_div(best.end, scale)
        parts = [("prologue", 0, start), ("steady state", start, end), ("epilogue", end, stalls.cycles)]
    described = tuple(_phase(name, start, end, stalls, weights) for name, start, end in parts if end > start)
    main = next((phase for phase in described if phase.name == "steady state"), described[0] if described else None)
    limit = ""
    if main is not None:
        limit = max(main.units, key=lambda unit: main.units[unit]["busy"], default="")
    period = best.coverage / best.periods / scale if best else 0.0
    return Phases(described, best, period, limit)


def steady_state(row: Row) -> Steady | None:
    """The longest steady state of one engine with at least two whole periods; None where nothing repeats."""
    working, starts = _working(row)
    kinds: dict[tuple[str, str], int] = {}
    names = [(row.instructions[i].op, subject(row.instructions[i])) for i in working.tolist()]
    same = np.array([kinds.setdefault(name, len(kinds)) for name in names], np.int64)
    best: Steady | None = None
    for period in range(1, min(len(starts) // 2, MOST_INSTRUCTIONS) + 1):
        alike = same[period:] == same[:-period]
        distance = starts[period:] - starts[:-period]
        if len(distance) < period + 1 or not alike.any():
            continue
        usual = float(np.median(distance[alike]))
        first, count = _longest(alike & (np.abs(distance - usual) <= TOLERANCE * usual))
        periods = count // period
        if periods < 2:
            continue
        start, end = int(starts[first]), int(starts[first + periods * period])
        if best is None or end - start > BETTER * best.coverage:
            best = Steady(start, end, periods, period, row.engine, row.unit, first)
            if best.coverage * BETTER >= starts[-1] - starts[0]:
                break  # no longer period can cover so much more
    return best


def _working(row: Row) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]]]:
    """Places and starts of the instructions that take time."""
    starts, ends = np.array(row.starts, np.int64), np.array(row.ends, np.int64)
    working = np.flatnonzero(ends > starts)
    return working, starts[working]


def _once_filled(steady: Steady, row: Row, rows: list[Row]) -> Steady:
    """The rest of a steady state, whole periods, after the first work of every unit that begins in its first half."""
    begins = [starts[0] for _, starts in map(_working, rows) if len(starts)]
    filled = max((begin for begin in begins if begin <= steady.start + steady.coverage // 2), default=0)
    marks = _working(row)[1][steady.first :: steady.instructions][: steady.periods + 1]
    skipped = int(np.searchsorted(marks, filled))
    if filled <= steady.start or steady.periods - skipped < 2:
        return steady
    return steady._replace(
        start=int(marks[skipped]),
        periods=steady.periods - skipped,
        first=steady.first + skipped * steady.instructions,
    )


def _longest(mask: np.ndarray[Any, np.dtype[np.bool_]]) -> tuple[int, int]:
    """(first, length) of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.view(np.int8), [0]))))
    begins, lengths = edges[::2], edges[1::2] - edges[::2]
    if not len(begins):
        return 0, 0
    longest = int(np.argmax(lengths))
    return int(begins[longest]), int(lengths[longest])


def _phase(name: str, start: int, end: int, stalls: Stalls, weights: dict[int, int]) -> Phase:
    units: dict[str, dict[str, float]] = {}
    waits: dict[str, dict[int, float]] = {}
    cores = sum(weights.values())
    for stretch in stalls.stretches:
        length = np.clip(stretch.ends, start, end) - np.clip(stretch.starts, start, end)
        sums = np.bincount(stretch.kinds, length, len(KIND_NUMBERS)) * weights[stretch.core] / cores
        kinds = units.setdefault(stretch.unit, dict.fromkeys(KIND_NUMBERS, 0.0))
        for kind, number in KIND_NUMBERS.items():
            kinds[kind] += float(sums[number])
        idle = stretch.cause >= 0
        by_cause = np.bincount(stretch.cause[idle], length[idle])
        total = waits.setdefault(stretch.unit, {})
        for cause in np.flatnonzero(by_cause).tolist():
            total[cause] = total.get(cause, 0.0) + float(by_cause[cause]) * weights[stretch.core] / cores
    top = {}
    for unit, causes in waits.items():
        if causes:
            cause = max(causes, key=lambda number: causes[number])
            top[unit] = (stalls.causes[cause].text, causes[cause])
    return Phase(name, start, end - start, units, top)
