"""Which parts of a run a picture shows: all of a short one; beginning, steady state and end of a long one."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np

from hwmodel.analysis.phases import BETTER, Steady, steady_state
from hwmodel.writers.lanes import Lane

MOST_SLICES = 80
"""A row with at most this many slices is drawn whole."""
PANEL_SLICES = 36
"""Most slices of a row in one of three panels, where the period of the run does not ask for fewer."""
LEAST_SLICES = 10
MOST_SEEN = 2 * PANEL_SLICES
"""Most slices of a row in a panel that shows a whole period."""
WITH_MARGINS = 1.06
"""Length of a stretch that shows a whole period, in periods."""
MOST_DRAWN = 0.9
"""A run of which three stretches would show this share is drawn whole."""
LAUNCH_SHARE = 0.25
"""A launch that would take more than this share of the first window is left out of it."""


class Window(NamedTuple):
    """A stretch of a run, in ticks."""

    start: int
    end: int
    name: str
    period: tuple[int, int] | None = None
    """Where the one period lies that the stretch is to show."""
    part_of: int = 0
    """Length of the period that the stretch is a part of, where it is too short for a whole one."""


def choose(lanes: list[Lane], end: int, bound: str = "") -> list[Window]:
    """One window over all, or three of equal length: first tiles, one steady-state stretch, last tiles.

    ``lanes`` are the rows of a core in pipeline order. The length covers about two periods of the last unit (a period
    is an output tile), as far as the busiest row stays readable. The middle one shows a whole period of the steady
    state that `explain` finds, which looks at the unit ``bound`` first, where a period is no longer than can be read.
    A long launch, in which nothing runs, is left out.
    """
    launch = min((lane.begin for lane in lanes if len(lane.starts)), default=0)
    whole = [Window(_origin(launch, end - launch, end), end, "")]
    densest = max(lanes, key=lambda lane: len(lane.starts), default=None)
    if densest is None or len(densest.starts) <= MOST_SLICES:
        return whole
    step = float(np.median(np.diff(densest.starts)))
    last = next((lane for lane in reversed(lanes) if len(lane.starts) > 2), densest)
    period = float(np.median(np.diff(last.starts)))
    length = min(max(2.2 * period, LEAST_SLICES * step), PANEL_SLICES * step)
    reach = 1.3 * (max((lane.begin for lane in lanes[:-1]), default=launch) - launch)
    length = int(max(length, min(reach, 2 * PANEL_SLICES * step), 1))
    steady = repeating(lanes, bound)
    if steady is not None:
        least = ceil(WITH_MARGINS * steady.coverage / steady.periods)
        for shown in dict.fromkeys((max(length, least), least)):
            if found := _with_period(lanes, steady, shown, end):
                return found
    first = _origin(launch, length, length)
    if 3 * length >= MOST_DRAWN * (end - first):
        return whole
    anchor = int(last.starts[np.searchsorted(last.starts, end // 2).clip(max=len(last.starts) - 1)])
    start = min(max(anchor - length // 8, first + length), end - 2 * length)
    three = _three(first, start, length, end)
    whole_period = steady.coverage // steady.periods if steady is not None else 0
    return [three[0], three[1]._replace(part_of=whole_period if whole_period > length else 0), three[2]]


def repeating(lanes: list[Lane], bound: str) -> Steady | None:
    """The steady state that `hwmodel.analysis.phases` finds, with its fill; rows that cannot have a longer one are left
    out.
    """
    best: Steady | None = None
    rows = sorted((one.row for one in lanes), key=lambda row: row.parallel)
    for row in sorted(rows, key=lambda row: row.unit != bound):
        reach = row.starts[-1] - row.starts[0] if len(row.starts) else 0
        if best is None or reach > BETTER * best.coverage:
            found = steady_state(row)
            if found is not None and (best is None or found.coverage > BETTER * best.coverage):
                best = found
    return best


def _with_period(lanes: list[Lane], steady: Steady, length: int, end: int) -> list[Window]:
    """Three windows, a whole period in the second; none where it has too many slices or the run is too short."""
    period = steady.coverage / steady.periods
    launch = min((lane.begin for lane in lanes if len(lane.starts)), default=0)
    first = _origin(launch, length, length)
    if 3 * length >= MOST_DRAWN * (end - first):
        return []
    for number in sorted(range(steady.periods), key=lambda number: abs(number - steady.periods // 2)):
        begin = steady.start + int(number * period)
        start = begin - int(min(period, length / 4) * (WITH_MARGINS - 1) / 2)
        if not first + length <= start <= end - 2 * length:
            continue
        most = max(int(((lane.starts < start + length) & (lane.ends > start)).sum()) for lane in lanes)
        shown = _three(first, start, length, end)
        return (
            [shown[0], shown[1]._replace(period=(begin, begin + int(period))), shown[2]]
            if LEAST_SLICES <= most <= MOST_SEEN
            else []
        )
    return []


def _three(first: int, start: int, length: int, end: int) -> list[Window]:
    return [
        Window(first, first + length, "beginning"),
        Window(start, start + length, "steady state"),
        Window(end - length, end, "end"),
    ]


def _origin(launch: int, shown: int, room: int) -> int:
    """Where a window of ``room`` ticks begins that is to show ``shown`` ticks of work after the launch."""
    return max(launch - shown // 20, 0) if launch > LAUNCH_SHARE * room else 0
