"""What each unit did with its time, what was moved, and what limits: from trace, program and arch alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwmodel.arch import Arch
from hwmodel.program.instructions import Sync
from hwmodel.program.program import Program
from hwmodel.quantities import ceil_div, exact_means
from hwmodel.trace import BUSY, WAIT_INPUT, WAIT_SPACE, Row, Trace

SERVER = "(server)"
"""Stands for what a unit's engines share, among the names of its engines."""


@dataclass(frozen=True)
class UnitStatistics:
    """Cycles of one unit, the mean over the cores; the four kinds sum to the cycles of the run, exactly."""

    busy_cycles: float
    wait_input_cycles: float
    wait_space_cycles: float
    idle_cycles: float
    utilization: float
    alone_cycles: float
    instructions: int


@dataclass(frozen=True)
class Statistics:
    """Everything result.json says about a run's time."""

    cycles: int
    time_us: float
    bound: str
    units: dict[str, UnitStatistics]
    gm_read_bytes: int
    gm_write_bytes: int
    macs: int
    cores: int
    peak_macs_per_cycle: int

    @property
    def peak_fraction(self) -> float:
        """Multiply-adds done, as a share of what the cores could have done in the time."""
        possible = self.cycles * self.peak_macs_per_cycle * self.cores
        return self.macs / possible if possible else 0.0

    @property
    def tflops(self) -> float:
        """10**12 operations a second, a multiply-add counting two."""
        return 2 * self.macs / self.time_us / 1e6 if self.time_us else 0.0


def statistics(trace: Trace, program: Program, arch: Arch, peak_macs_per_cycle: int = 0) -> Statistics:
    """Derive the statistics of a run. Times are cycles of the reference clock, boundaries rounded up."""
    cycles = ceil_div(trace.end, trace.ticks_per_cycle)
    weights = {core.core: core.stands_for for core in program.cores}
    alone = alone_cycles(program, arch)
    units: dict[str, UnitStatistics] = {}
    rows: dict[str, dict[int, list[Row]]] = {}
    for row in trace.rows:
        rows.setdefault(row.unit, {}).setdefault(row.core, []).append(row)
    stages = {unit.name: min(unit.kind.operations.values()) for unit in arch.units.values()}
    names = sorted(rows, key=stages.__getitem__)
    cores = sum(weights.values())
    for name in names:
        by_core = rows[name]
        total = np.zeros(4, np.int64)
        count = 0
        for core, own in by_core.items():
            total += weights[core] * np.array(unit_cycles(own, cycles, trace.ticks_per_cycle), np.int64)
            count += sum(len(row.starts) for row in own) * weights[core]
        busy, wait_input, wait_space, idle = exact_means(total.tolist(), cores)
        units[name] = UnitStatistics(
            busy,
            wait_input,
            wait_space,
            idle,
            busy / cycles if cycles else 0.0,
            exact_means([alone.get(name, 0)], cores)[0],
            count,
        )
    read, written, macs = _moved(program, arch)
    bound = max(names, key=lambda name: units[name].alone_cycles, default="")
    return Statistics(
        cycles=cycles,
        time_us=arch.microseconds(cycles),
        bound=bound,
        units=units,
        gm_read_bytes=read,
        gm_write_bytes=written,
        macs=macs,
        cores=sum(weights.values()),
        peak_macs_per_cycle=peak_macs_per_cycle,
    )


def unit_cycles(rows: list[Row], cycles: int, ticks_per_cycle: int) -> tuple[int, int, int, int]:
    """(busy, wait_input, wait_space, idle) of a unit, padded to ``cycles``.

    A unit with several engines, or with overlapping instructions, is busy when any of them is; it waits for input when
    it is not busy and any engine does, and for space when none waits for input.
    """
    if len(rows) == 1 and not rows[0].parallel:
        return row_cycles(rows[0], cycles, ticks_per_cycle)
    found: dict[str, list[tuple[Any, Any]]] = {BUSY: [], WAIT_INPUT: [], WAIT_SPACE: []}
    for row in rows:
        starts, ends = _rounded(row.starts, ticks_per_cycle), _rounded(row.ends, ticks_per_cycle)
        timed = _timed(row)
        if timed.size == 0:
            continue
        found[BUSY].append((starts[timed], ends[timed]))
        stalls = [stall for stall in row.stalls if timed[0] < stall.position <= timed[-1]]
        for kind in (WAIT_INPUT, WAIT_SPACE):
            waits = np.array([(s.start, s.end) for s in stalls if s.kind == kind], np.int64).reshape(-1, 2)
            waits = _round_up(waits, ticks_per_cycle)
            found[kind].append((waits[:, 0], waits[:, 1]))
    covered, parts = [], []
    total = 0
    for kind in (BUSY, WAIT_INPUT, WAIT_SPACE):
        covered += found[kind]
        starts = np.concatenate([pair[0] for pair in covered]) if covered else np.zeros(0, np.int64)
        ends = np.concatenate([pair[1] for pair in covered]) if covered else np.zeros(0, np.int64)
        with_it = _union(starts, ends) if starts.size else 0
        parts.append(with_it - total)
        total = with_it
    return parts[0], parts[1], parts[2], cycles - total


def _timed(row: Row) -> Any:
    """Positions of the instructions that take time, however little of a cycle it is."""
    return np.flatnonzero(_rounded(row.ends, 1) > _rounded(row.starts, 1))


def _rounded(ticks: Any, ticks_per_cycle: int) -> Any:
    return _round_up(np.frombuffer(ticks, np.int64), ticks_per_cycle) if ticks else np.zeros(0, np.int64)


def row_cycles(row: Row, cycles: int, ticks_per_cycle: int) -> tuple[int, int, int, int]:
    """(busy, wait_input, wait_space, idle) of a row, padded to ``cycles``; waits of a parallel row may overlap busy.

    Waits before the first and after the last instruction that takes time are idle: nothing issued yet, or finished.
    """
    starts, ends = _rounded(row.starts, ticks_per_cycle), _rounded(row.ends, ticks_per_cycle)
    timed = _timed(row)
    if timed.size == 0:
        return 0, 0, 0, cycles
    busy = _union(starts, ends) if row.parallel else int((ends - starts).sum())
    waits = {WAIT_INPUT: 0, WAIT_SPACE: 0}
    first, last = int(timed[0]), int(timed[-1])
    for stall in row.stalls:
        if first < stall.position <= last:
            waits[stall.kind] += -(-stall.end // ticks_per_cycle) + (-stall.start // ticks_per_cycle)
    idle = cycles - busy - waits[WAIT_INPUT] - waits[WAIT_SPACE]
    return busy, waits[WAIT_INPUT], waits[WAIT_SPACE], idle


def _round_up(ticks: Any, ticks_per_cycle: int) -> Any:
    return ticks if ticks_per_cycle == 1 else -(-ticks // ticks_per_cycle)


def _union(starts: Any, ends: Any) -> int:
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    begins = np.maximum(starts[1:], ends[:-1])
    return int(ends[0] - starts[0] + (ends[1:] - begins).sum())


def alone_cycles(program: Program, arch: Arch) -> dict[str, int]:
    """Sum over all cores of each unit's instructions, as if nobody shared anything with it.

    Where instructions overlap, each counts for as long as it keeps its engine from the next one. Of a unit with
    several engines the one with most to do counts, or what they do on the server that they share.
    """
    units = arch.units
    ticks: dict[str, Counter[str]] = {}
    for (engine, params), count in _census(program).items():
        unit = units[engine]
        own = ticks.setdefault(unit.name, Counter())
        if unit.kind.timing is not None:
            timing = unit.kind.timing(unit.spec, params)
            own[engine] += max(timing.issue, timing.work) * unit.ticks_per_cycle * count
            own[SERVER] += timing.work * unit.ticks_per_cycle * count
            continue
        own[engine] += unit.kind.cycles(unit.spec, params) * unit.ticks_per_cycle * count
        for move in unit.kind.traffic(unit.spec, params):
            own[engine] += ceil_div(move.size, arch.core_link_rates[move.link]) * count
    return {name: ceil_div(max(own.values()), arch.ticks_per_cycle) for name, own in ticks.items()}


def _census(program: Program) -> Counter[tuple[str, Any]]:
    """How often each engine runs an instruction with each set of parameters, over all cores."""
    seen: dict[int, Counter[tuple[str, Any]]] = {}
    result: Counter[tuple[str, Any]] = Counter()
    for core in program.cores:
        key = id(core.instructions)
        if key not in seen:
            seen[key] = Counter((i.engine, i.params) for i in core.instructions if not isinstance(i.params, Sync))
        for pair, count in seen[key].items():
            result[pair] += count * core.stands_for
    return result


def _moved(program: Program, arch: Arch) -> tuple[int, int, int]:
    units = arch.units
    read = written = macs = 0
    for (engine, params), count in _census(program).items():
        kind = units[engine].kind
        r, w = kind.gm_bytes(params)
        read += r * count
        written += w * count
        macs += kind.macs(params) * count
    return read, written, macs
