"""What every instruction of a core had to wait for: its constraints, as edges between instructions.

An instruction starts when the launch is over, its engine is free, its flags and semaphores have been raised and its
banks have been given back: at the latest of these times, to the tick. `Constraints` holds all of them as they were in
one run (the n-th wait on a flag belongs to the n-th set in time), so longest paths and slack are graph problems.

Nodes are numbered row by row: ``first[row] + position``. Columns are numpy arrays, one entry for each node or edge.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hwmodel.analysis.flow import Ticks
from hwmodel.arch import Arch, Unit
from hwmodel.program.instructions import Instruction, Sync
from hwmodel.trace import Row, Trace

BanksOf = Callable[[str, Instruction], Sequence[Hashable]]
"""Banks that an instruction of an engine holds alone."""

LAUNCH, ENGINE, FLAG, BANK, QUEUE, ORDER = range(6)
"""Why an instruction starts when it does: launch over, engine free, flag or semaphore raised, bank given back.

Two are about ends: in a parallel row a transfer is served behind the one before it (``QUEUE``), and nothing ends
before what started before it (``ORDER``)."""
HOW = ("launch", "engine", "flag", "bank", "queue", "order")


class Place(NamedTuple):
    """A node as row and position."""

    row: int
    position: int


@dataclass(frozen=True)
class Constraints:
    """All constraints between the instructions of one core in one run, in ticks.

    ``free[node]`` is when the engine could take its next instruction: the end, or the issue where they overlap.
    Edge i says that ``target[i]`` could not start (``QUEUE``, ``ORDER``: end) before ``source[i]`` had ended, or was
    free where ``early[i]``; ``how[i]`` is one of the reasons above, but not ``LAUNCH``.
    """

    rows: tuple[Row, ...]
    first: tuple[int, ...]
    launch: int
    starts: Ticks
    ends: Ticks
    free: Ticks
    source: Ticks
    target: Ticks
    how: npt.NDArray[np.int8]
    early: npt.NDArray[np.bool_]

    @property
    def count(self) -> int:
        """Number of instructions that ran."""
        return len(self.starts)

    def place(self, node: int) -> Place:
        """Row and position of a node."""
        row = next(index for index in reversed(range(len(self.first))) if self.first[index] <= node)
        return Place(row, node - self.first[row])

    def instruction(self, node: int) -> Instruction:
        """The instruction of a node."""
        row, position = self.place(node)
        return self.rows[row].instructions[position]

    @cached_property
    def times(self) -> Ticks:
        """When each edge lets its target go."""
        return np.where(self.early, self.free[self.source], self.ends[self.source])

    @cached_property
    def earliest(self) -> Ticks:
        """The earliest start that all constraints allow; without contention beyond them, the start itself."""
        result = np.full(self.count, self.launch, np.int64)
        starts = self.how < QUEUE
        np.maximum.at(result, self.target[starts], self.times[starts])
        return result

    @cached_property
    def binding(self) -> tuple[Ticks, npt.NDArray[np.int8]]:
        """(node, how) that decided each start; node -1 for the launch.

        Of the constraints that let it go at that very tick it is what ended the last recorded wait; an instruction
        that did not wait followed the one before it.
        """
        node = np.arange(-1, self.count - 1, dtype=np.int64)
        how = np.full(self.count, ENGINE, np.int8)
        for first in self.first:
            if first < self.count:
                node[first] = -1
                how[first] = LAUNCH
        waited = self._waited
        met = np.flatnonzero((self.how < QUEUE) & (self.times == self.starts[self.target]))
        source, target, kind = self.source[met], self.target[met], self.how[met]
        # The best of the constraints that are met comes last, and the last assignment to a target stays.
        worth = np.where(waited[target] >= -1, (kind != ENGINE) + (source == waited[target]), 2 * (kind == ENGINE))
        order = np.argsort(worth, kind="stable")
        node[target[order]] = source[order]
        how[target[order]] = kind[order]
        return node, how

    def met(self, node: int) -> list[int]:
        """All nodes that let this one start, at the very tick at which it did."""
        edges = np.flatnonzero((self.target == node) & (self.how < QUEUE) & (self.times == self.starts[node]))
        found: list[int] = self.source[edges].tolist()
        return found

    @property
    def _waited(self) -> Ticks:
        """The node recorded to have ended the wait before each node; -1 for nobody, -2 where it did not wait."""
        result = np.full(self.count, -2, np.int64)
        by_engine = {row.engine: index for index, row in enumerate(self.rows)}
        for index, row in enumerate(self.rows):
            for stall in row.stalls:
                position = stall.position
                if position < len(row.starts) and stall.end == row.starts[position]:
                    by = by_engine.get(stall.by, -1)
                    known = by >= 0 <= stall.by_position
                    result[self.first[index] + position] = self.first[by] + stall.by_position if known else -1
        return result

    @cached_property
    def behind(self) -> Ticks:
        """The node whose end held up the end of each node (``QUEUE``), else -1."""
        result = np.full(self.count, -1, np.int64)
        queued = self.how == QUEUE
        result[self.target[queued]] = self.source[queued]
        return result

    def slack(self, end: int) -> Ticks:
        """How many ticks later each instruction may end before the run ends later than at ``end``.

        Durations are those of this run, what links and servers gave included: where a later instruction shares them
        with others than before, the run may still end later. Never negative, as nothing ends after ``end``.
        """
        count = self.count
        late_end = [end] * count
        late_free = [end] * count
        starts, ends, free = self.starts.tolist(), self.ends.tolist(), self.free.tolist()
        order = np.argsort(self.target, kind="stable")
        source, how, early = self.source[order].tolist(), self.how[order].tolist(), self.early[order].tolist()
        begin = np.searchsorted(self.target[order], np.arange(count + 1)).tolist()
        parallel = bool(self.early.any())
        later_first = np.lexsort((self.ends, self.starts))[::-1].tolist()
        changed = True
        while changed:  # once more only where instructions without length follow each other in one tick
            changed = False
            for node in later_first:
                end_at = late_end[node]
                start_at = end_at - ends[node] + starts[node]
                if parallel:
                    start_at = min(start_at, late_free[node] - free[node] + starts[node])
                for edge in range(begin[node], begin[node + 1]):
                    before = source[edge]
                    limit = start_at
                    if how[edge] >= QUEUE:
                        limit = end_at if how[edge] == ORDER else end_at - ends[node] + ends[before]
                    if early[edge]:
                        if limit < late_free[before]:
                            late_free[before] = limit
                            changed = changed or starts[before] == starts[node]
                    elif limit < late_end[before]:
                        late_end[before] = limit
                        changed = changed or starts[before] == starts[node]
        return np.array(late_end, np.int64) - self.ends


def constraints(rows: Sequence[Row], trace: Trace, arch: Arch, banks_of: BanksOf | None = None) -> Constraints:
    """The constraints of one core, whose rows these are."""
    first, count = [], 0
    for row in rows:
        first.append(count)
        count += len(row.starts)
    starts = np.concatenate([np.array(row.starts, np.int64) for row in rows]) if count else np.zeros(0, np.int64)
    ends = np.concatenate([np.array(row.ends, np.int64) for row in rows]) if count else np.zeros(0, np.int64)
    free = ends.copy()
    edges = _Edges()
    for begin, row in zip(first, rows, strict=True):
        ran = len(row.starts)
        if row.parallel:
            _overlapping(row, begin, arch.units[row.engine], starts, free, edges)
        if ran > 1:
            before = np.arange(begin, begin + ran - 1)
            edges.add(before.tolist(), (before + 1).tolist(), ENGINE, early=row.parallel)
            if row.parallel:
                edges.add(before.tolist(), (before + 1).tolist(), ORDER)
    _flags(rows, first, starts, ends, free, edges)
    if banks_of is not None:
        _banks(rows, first, banks_of, edges)
    return Constraints(
        tuple(rows),
        tuple(first),
        trace.launch,
        starts,
        ends,
        free,
        np.array(edges.source, np.int64),
        np.array(edges.target, np.int64),
        np.array(edges.how, np.int8),
        np.array(edges.early, np.bool_),
    )


class _Edges:
    def __init__(self) -> None:
        self.source: list[int] = []
        self.target: list[int] = []
        self.how: list[int] = []
        self.early: list[bool] = []

    def add(self, source: list[int], target: list[int], how: int, *, early: bool = False) -> None:
        self.source += source
        self.target += target
        self.how += [how] * len(source)
        self.early += [early] * len(source)

    def one(self, source: int, target: int, how: int, early: bool) -> None:
        self.source.append(source)
        self.target.append(target)
        self.how.append(how)
        self.early.append(early)


def _overlapping(row: Row, begin: int, unit: Unit, starts: Ticks, free: Ticks, edges: _Edges) -> None:
    """When the engine of a parallel row was free again, and which ends were held up by the end before."""
    timing = unit.kind.timing
    if timing is None:
        free[begin : begin + len(row.starts)] = starts[begin : begin + len(row.starts)]
        return
    served = 0
    known: dict[object, tuple[int, int, int, bool]] = {}
    for position in range(len(row.starts)):
        params = row.instructions[position].params
        node = begin + position
        start, end = row.starts[position], row.ends[position]
        if isinstance(params, Sync):
            free[node] = start
            continue
        found = known.get(params)
        if found is None:
            times = timing(unit.spec, params)
            issue, lead, tail = (ticks * unit.ticks_per_cycle for ticks in (times.issue, times.before, times.after))
            found = known[params] = issue, lead, tail, bool(times.work)
        issue, lead, tail, shared = found
        free[node] = start + issue
        if position + 1 < len(row.starts):
            free[node] = min(start + issue, row.starts[position + 1])
        if position and (served > start + lead if shared else end > start + lead + tail):
            edges.one(node - 1, node, QUEUE, False)
        served = end - tail


def _flags(rows: Sequence[Row], first: Sequence[int], starts: Ticks, ends: Ticks, free: Ticks, edges: _Edges) -> None:
    """Edges from sets to the waits that took them, in the order of time."""
    raised: dict[str, list[tuple[int, int, int, bool]]] = defaultdict(list)
    taken: dict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
    for begin, row in zip(first, rows, strict=True):
        for position in range(len(row.starts)):
            instruction = row.instructions[position]
            node = begin + position
            for signal, amount in instruction.sets:
                raised[signal].append((int(ends[node]), node, amount, False))
            for signal, amount in instruction.frees:
                raised[signal].append((int(free[node]), node, amount, True))
            for signal, at_least in instruction.waits:
                taken[signal].append((int(starts[node]), instruction.number, node, at_least))
    for name, waits in taken.items():
        sets = sorted(raised[name])
        reached, total = [], 0
        for _, _, amount, _ in sets:
            total += amount
            reached.append(total)
        count = 0
        for _, _, node, at_least in sorted(waits):
            count += not at_least
            which = bisect_left(reached, at_least or count)
            if which < len(sets):
                _, source, _, early = sets[which]
                edges.one(source, node, FLAG, early)


def _banks(rows: Sequence[Row], first: Sequence[int], banks_of: BanksOf, edges: _Edges) -> None:
    """Edges from the engine that held a bank last to the next one of another engine."""
    held: dict[Hashable, list[tuple[int, int, int, int]]] = defaultdict(list)
    for index, (begin, row) in enumerate(zip(first, rows, strict=True)):
        for position, (start, end) in enumerate(zip(row.starts, row.ends, strict=True)):
            for bank in banks_of(row.engine, row.instructions[position]):
                held[bank].append((start, end, index, begin + position))
    for holds in held.values():
        holds.sort()
        owner, last_end, last = -1, -1, -1
        earlier = -1
        for _, end, row_index, node in holds:
            if row_index != owner:
                earlier, owner, last_end = last, row_index, -1
            if earlier >= 0:
                edges.one(earlier, node, BANK, False)
            if end >= last_end:
                last_end, last = end, node
