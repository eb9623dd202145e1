"""A trace row as columns: fast enough to draw, merge and sum rows of 100,000 instructions."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwmodel.analysis.flow import Ticks
from hwmodel.trace import BUSY, WAIT_INPUT, WAIT_SPACE, Row

TIMED_KINDS = (BUSY, WAIT_INPUT, WAIT_SPACE)


@dataclass(frozen=True)
class Lane:
    """One row. Slice i is busy from ``starts[i]`` to ``ends[i]`` with instruction ``positions[i]``.

    Wait i lasts from ``wait_starts[i]`` to ``wait_ends[i]``; ``wait_space[i]`` tells its kind, ``stalls[i]`` its place
    in ``row.stalls``. ``queue`` and ``wait_queue`` are their queues in a parallel row, else 0. Waits before the first
    and after the last slice are idle time and left out, as in the statistics.
    """

    row: Row
    starts: Ticks
    ends: Ticks
    positions: Ticks
    queue: Ticks
    wait_starts: Ticks
    wait_ends: Ticks
    wait_queue: Ticks
    wait_space: npt.NDArray[np.bool_]
    stalls: Ticks

    @property
    def begin(self) -> int:
        """Start of the first slice; 0 where there is none."""
        return int(self.starts[0]) if self.starts.size else 0

    @property
    def end(self) -> int:
        """End of the last slice."""
        return int(self.ends.max(initial=0))

    def intervals(self, kind: str) -> tuple[Ticks, Ticks]:
        """(starts, ends) of all stretches of one kind, sorted and disjoint."""
        if kind == BUSY:
            starts, ends = self.starts, self.ends
        else:
            chosen = self.wait_space == (kind == WAIT_SPACE)
            starts, ends = self.wait_starts[chosen], self.wait_ends[chosen]
        return union(starts, ends) if self.row.parallel else (starts, ends)

    def shares(self, edges: Ticks) -> dict[str, Ticks]:
        """Ticks of each kind between neighbouring ``edges``."""
        return {kind: np.diff(covered(*self.intervals(kind), edges)) for kind in TIMED_KINDS}

    def busy_and_waits(self, end: int) -> tuple[int, int]:
        """Ticks up to ``end`` in which anything is busy, and in which something waits and nothing is busy."""
        at = np.array([0, end], np.int64)
        both = union(np.concatenate([self.starts, self.wait_starts]), np.concatenate([self.ends, self.wait_ends]))
        busy = int(np.diff(covered(*union(self.starts, self.ends), at))[0])
        return busy, int(np.diff(covered(*both, at))[0]) - busy


def lane(row: Row) -> Lane:
    """Columns of a row."""
    starts, ends = np.array(row.starts, np.int64), np.array(row.ends, np.int64)
    timed = np.flatnonzero(ends > starts)
    first, last = (int(timed[0]), int(timed[-1])) if timed.size else (0, -1)
    if row.parallel and timed.size:
        timed = timed[np.argsort(starts[timed], kind="stable")]
    stalls = row.stalls
    position = np.array([stall.position for stall in stalls], np.int64)
    inside = np.flatnonzero((position > first) & (position <= last))
    queue = np.array(queues(row), np.int64) if row.parallel else np.zeros(len(starts), np.int64)
    return Lane(
        row,
        starts[timed],
        ends[timed],
        timed.astype(np.int64),
        queue[timed],
        np.array([stall.start for stall in stalls], np.int64)[inside],
        np.array([stall.end for stall in stalls], np.int64)[inside],
        queue[position[inside]],
        np.array([stall.kind == WAIT_SPACE for stall in stalls], np.bool_)[inside],
        inside.astype(np.int64),
    )


def queues(row: Row) -> list[int]:
    """For each instruction of a parallel row, the first queue that is free when it comes; empty for other rows."""
    if not row.parallel:
        return []
    begins = list(row.starts)
    for stall in row.stalls:
        begins[stall.position] = min(begins[stall.position], stall.start)
    result = [0] * len(begins)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    count = 0
    for position in sorted(range(len(begins)), key=begins.__getitem__):
        while busy and busy[0][0] <= begins[position]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            queue = heapq.heappop(free)
        else:
            queue, count = count, count + 1
        result[position] = queue
        heapq.heappush(busy, (row.ends[position], queue))
    return result


def union(starts: Ticks, ends: Ticks) -> tuple[Ticks, Ticks]:
    """Disjoint intervals that cover the same ticks."""
    if starts.size == 0:
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    fresh = np.concatenate(([True], starts[1:] > ends[:-1]))
    first = np.flatnonzero(fresh)
    return starts[first], ends[np.concatenate((first[1:] - 1, [len(ends) - 1]))]


def covered(starts: Ticks, ends: Ticks, at: Ticks) -> Ticks:
    """Ticks that sorted disjoint intervals cover before each of ``at``."""
    if starts.size == 0:
        return np.zeros(len(at), np.int64)
    sums = np.concatenate(([0], np.cumsum(ends - starts)))
    begun = np.searchsorted(starts, at, side="right")
    over = np.where(begun > 0, np.maximum(ends[begun - 1] - at, 0), 0)
    result: Ticks = sums[begun] - over
    return result


def maxima(ticks: Ticks, values: Ticks, edges: Ticks) -> Ticks:
    """Largest value of a step function between neighbouring ``edges``; ``values[i]`` holds from ``ticks[i]`` on."""
    held = values[np.maximum(np.searchsorted(ticks, edges[:-1], side="right") - 1, 0)]
    begin = np.searchsorted(ticks, edges[:-1], side="right")
    stop = np.searchsorted(ticks, edges[1:], side="left")
    result: Ticks = held.copy()
    some = np.flatnonzero(stop > begin)
    if some.size:
        padded = np.append(values, np.iinfo(np.int64).min)
        pairs = np.stack((begin[some], stop[some]), axis=1).reshape(-1)
        result[some] = np.maximum(result[some], np.maximum.reduceat(padded, pairs)[::2])
    return result
