"""Busy cycles that an instruction would not have taken alone: what sharing a link, a server or a power budget costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hwmodel.analysis.flow import Ticks
from hwmodel.arch import Arch, Unit
from hwmodel.program.instructions import Sync
from hwmodel.program.program import CoreProgram
from hwmodel.quantities import ceil_div
from hwmodel.trace import Row, Trace


class Slowdown(NamedTuple):
    """Cycles of a unit's instructions beyond what they take alone, the mean over the cores, and what was shared.

    ``inside`` tells whether they are part of its busy cycles; where instructions overlap they are a sum over them.
    """

    cycles: float
    shared: str
    inside: bool


def alone_ticks(row: Row, arch: Arch) -> Ticks:
    """How long each instruction that ran would have taken with nobody in the way."""
    unit = arch.units[row.engine]
    known: dict[Any, int] = {}
    result = []
    for instruction in row.instructions[: len(row.starts)]:
        params = instruction.params
        ticks = known.get(params)
        if ticks is None:
            ticks = known[params] = _alone(unit, params, arch)
        result.append(ticks)
    return np.array(result, np.int64)


def _alone(unit: Unit, params: Any, arch: Arch) -> int:
    if isinstance(params, Sync):
        return 0
    moves = unit.kind.traffic(unit.spec, params)
    longest = 0
    for move in moves:
        longest = max(longest, ceil_div(move.size, arch.core_link_rates[move.link]))
    ticks: int = unit.kind.cycles(unit.spec, params) * unit.ticks_per_cycle
    return ticks + longest


def slowdown(trace: Trace, cores: Sequence[CoreProgram], arch: Arch) -> dict[str, Slowdown]:
    """By unit, where there is any. Of overlapping instructions each counts for itself."""
    weights = {core.core: core.stands_for for core in cores}
    ticks: dict[str, int] = {}
    shared: dict[str, str] = {}
    overlapping = {row.unit for row in trace.rows if row.parallel}
    for row in trace.rows:
        if not row.starts:
            continue
        taken = np.array(row.ends, np.int64) - np.array(row.starts, np.int64)
        beyond = int((taken - alone_ticks(row, arch)).sum())
        if beyond > 0:
            ticks[row.unit] = ticks.get(row.unit, 0) + beyond * weights[row.core]
            shared.setdefault(row.unit, _what(row, arch))
    every = sum(weights.values()) * trace.ticks_per_cycle
    return {unit: Slowdown(sum_ / every, shared[unit], unit not in overlapping) for unit, sum_ in ticks.items()}


def _what(row: Row, arch: Arch) -> str:
    unit = arch.units[row.engine]
    for instruction in row.instructions:
        if not isinstance(instruction.params, Sync):
            if moves := unit.kind.traffic(unit.spec, instruction.params):
                return f"link {moves[0].link}"
            if unit.kind.pace is not None and unit.kind.pace(unit.spec, unit.ticks_per_cycle, row.engine) is not None:
                return "clock held back"
    return "its engines share it"
