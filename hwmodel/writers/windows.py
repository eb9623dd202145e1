"""Which parts of a run a picture shows: all of a short one; beginning, steady state and end of a long one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hwmodel.writers.lanes import Lane

MOST_SLICES = 80
"""A row with at most this many slices is drawn whole."""
PANEL_SLICES = 36
"""Most slices of a row in one of three panels, where the period of the run does not ask for fewer."""
LEAST_SLICES = 10
LAUNCH_SHARE = 0.25
"""A launch that would take more than this share of the first window is left out of it."""


class Window(NamedTuple):
    """A stretch of a run, in ticks."""

    start: int
    end: int
    name: str


def choose(lanes: list[Lane], end: int) -> list[Window]:
    """One window over all, or three of equal length: first tiles, one steady-state stretch, last tiles.

    ``lanes`` are the rows of a core in pipeline order. The length covers about two periods of the last unit (a period
    is an output tile), as far as the busiest row stays readable. A long launch, in which nothing runs, is left out.
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
    first = _origin(launch, length, length)
    if 3 * length >= 0.9 * (end - first):
        return whole
    anchor = int(last.starts[np.searchsorted(last.starts, end // 2).clip(max=len(last.starts) - 1)])
    start = min(max(anchor - length // 8, first + length), end - 2 * length)
    return [
        Window(first, first + length, "beginning"),
        Window(start, start + length, "steady state"),
        Window(end - length, end, "end"),
    ]


def _origin(launch: int, shown: int, room: int) -> int:
    """Where a window of ``room`` ticks begins that is to show ``shown`` ticks of work after the launch."""
    return max(launch - shown // 20, 0) if launch > LAUNCH_SHARE * room else 0
