"""Every cycle in which a unit does nothing, with one cause each: sums are exact.

A recorded wait says which flag or bank it was for. What an instruction truly lacked is known from its operands: until
its inputs were written it waited for their producer, until the bytes it overwrites were free for their last reader,
and after both only for the flag (``order``). Before its first instruction a unit waits while the pipeline fills, after
its last one it has finished.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hwmodel.analysis.constraints import Constraints
from hwmodel.analysis.contention import Slowdown
from hwmodel.analysis.flow import Lives, Ticks
from hwmodel.analysis.naming import subject
from hwmodel.analysis.readiness import Readiness, readiness
from hwmodel.program.instructions import label_text
from hwmodel.program.program import CoreProgram
from hwmodel.quantities import ceil_div, exact_means
from hwmodel.trace import BUSY, IDLE, WAIT_INPUT, WAIT_SPACE, Row, Stall, Trace

INPUT, SPACE, BANK, ORDER, FILL, LAUNCH, DRAIN, ISSUE, UNUSED = (
    "input", "space", "bank", "order", "fill", "launch", "drain", "issue", "unused",
)  # fmt: skip
CATEGORIES = {
    INPUT: "an input is not there yet: its producer still works",
    SPACE: "the bytes it writes are still in use: the buffer is full",
    BANK: "another engine holds the bank",
    ORDER: "operands were ready, but the flag comes later",
    FILL: "nothing has reached the unit yet: the pipeline fills",
    LAUNCH: "the kernel is being launched",
    DRAIN: "finished: others drain",
    ISSUE: "between two instructions of the unit's engines",
    UNUSED: "no instruction at all",
}
"""What a category of causes means."""
_PRIORITY = {WAIT_INPUT: 0, WAIT_SPACE: 1, IDLE: 2}
_PLACES = 3
_HALF = re.compile(r":\d+$")


class Cause(NamedTuple):
    """Why a unit does nothing. ``by`` is the unit that ended it, ``text`` what was missing: ``tload b``, ``l0c``."""

    unit: str
    kind: str
    category: str
    text: str
    by: str


class Piece(NamedTuple):
    """A stretch of a row's wait with one cause, in ticks; ``position`` is the instruction that waited.

    ``by_row`` and ``by_position`` name the instruction that it waited for, -1 where nobody is known.
    """

    start: int
    end: int
    cause: Cause
    position: int
    by_row: int
    by_position: int


@dataclass(frozen=True)
class CoreFacts:
    """What is known about a simulated core and its run: what causes, paths and pages are made from."""

    core: CoreProgram
    graph: Constraints
    lives: Lives
    starts: Ticks
    """Of the instructions in program order, as ``ends``."""
    ends: Ticks
    places: tuple[tuple[int, int], ...]
    """Row and position of the instructions in program order."""
    indices: tuple[Sequence[int], ...]
    """Program order of the instructions of each row."""
    ready: Readiness
    _names: dict[int, str] = field(default_factory=dict, repr=False, compare=False)

    def name(self, index: int) -> str:
        """Operation and subject of an instruction: ``tload b``."""
        found = self._names.get(index)
        if found is None:
            instruction = self.core.instructions[index]
            what = subject(instruction)
            found = self._names[index] = f"{instruction.op} {what}" if what else instruction.op
        return found

    @property
    def rows(self) -> tuple[Row, ...]:
        """The engines of the core."""
        return self.graph.rows


def core_facts(core: CoreProgram, graph: Constraints, lives: Lives, starts: Ticks, ends: Ticks) -> CoreFacts:
    """Number the instructions both ways and find out when their operands were ready."""
    by_engine = {row.engine: index for index, row in enumerate(graph.rows)}
    indices: list[list[int]] = [[] for _ in graph.rows]
    places = []
    for index, instruction in enumerate(core.instructions):
        row = by_engine[instruction.engine]
        places.append((row, len(indices[row])))
        indices[row].append(index)
    return CoreFacts(core, graph, lives, starts, ends, tuple(places), tuple(indices), readiness(lives, ends))


def timed(row: Row) -> list[int]:
    """Positions of the instructions that take time."""
    return np.flatnonzero(np.array(row.ends, np.int64) > np.array(row.starts, np.int64)).tolist()


def pieces(facts: CoreFacts, row_index: int) -> Iterator[Piece]:
    """The waits of a row, each cut where its cause changes, in the order they were recorded.

    Those before its first instruction that takes time are idle and its fill; those after its last one are left out.
    """
    row = facts.rows[row_index]
    working = timed(row)
    if not working:
        return
    for stall in row.stalls:
        if stall.position > working[-1]:
            continue
        waiting = working[bisect_left(working, stall.position)]
        filling = stall.position <= working[0]
        for start, end, category, text, by in _cut(facts, row_index, stall, waiting):
            if end <= start:
                continue
            by_row, by_position = facts.places[by] if by >= 0 else (-1, -1)
            unit = facts.rows[by_row].unit if by >= 0 else ""
            kind = IDLE if filling else stall.kind
            said = f"{text} ({category})" if filling and category in (BANK, ORDER, SPACE) else text
            cause = Cause(row.unit, kind, FILL if filling else category, said, unit)
            yield Piece(start, end, cause, waiting, by_row, by_position)


def _cut(facts: CoreFacts, row: int, stall: Stall, waiting: int) -> Iterator[tuple[int, int, str, str, int]]:
    """(start, end, category, text, instruction that it waited for) of the parts of a wait."""
    instructions, ready = facts.core.instructions, facts.ready
    setter = _setter(facts, stall)
    if stall.cause.startswith("bank "):
        yield stall.start, stall.end, BANK, stall.cause, setter
        return
    index = facts.indices[row][waiting]
    wanted = [(INPUT, int(ready.data[index]), int(ready.data_by[index]))]
    wanted.append((SPACE, int(ready.space[index]), int(ready.space_by[index])))
    now = stall.start
    for category, until, by in wanted if stall.kind == WAIT_INPUT else reversed(wanted):
        stop = min(until, stall.end)
        if by >= 0 and stop > now:
            text = f"{ready.buffer[index]} full ({instructions[by].op} uses it)"
            yield now, stop, category, facts.name(by) if category == INPUT else text, by
            now = stop
    flag = _HALF.sub("", stall.cause)
    late = f"{flag}, set after {facts.name(setter)}" if setter >= 0 else flag
    yield now, stall.end, ORDER, late, setter


def _setter(facts: CoreFacts, stall: Stall) -> int:
    """The instruction that ended a wait; for a flag that is set by itself, the one before it that takes time."""
    row = next((index for index, row in enumerate(facts.rows) if row.engine == stall.by), -1)
    if row < 0 or stall.by_position < 0:
        return -1
    starts, ends = facts.rows[row].starts, facts.rows[row].ends
    position = stall.by_position
    while position > 0 and ends[position] == starts[position]:
        position -= 1
    return facts.indices[row][position]


# -- units -------------------------------------------------------------------------------------------------------------


class Worst(NamedTuple):
    """One of the longest waits of a cause: the tile of the instruction that waited, and when."""

    cycles: int
    start_cycle: int
    core: int
    instruction: int
    op: str
    tile: str


@dataclass
class Share:
    """What one cause costs its unit: the mean over the cores, how often, and the longest ones."""

    cause: Cause
    cycles: float = 0
    waits: int = 0
    worst: list[Worst] = field(default_factory=list)

    def to_dict(self, total: int) -> dict[str, Any]:
        """For ``explain --json``."""
        return {
            **self.cause._asdict(),
            "cycles": self.cycles,
            "share": self.cycles / total if total else 0.0,
            "waits": self.waits,
            "longest": [worst._asdict() for worst in self.worst],
        }


class Stretches(NamedTuple):
    """A unit of one core, from cycle 0 to the end without gap: stretch i has cause ``cause[i]``, -1 while busy."""

    core: int
    unit: str
    starts: Ticks
    ends: Ticks
    cause: Ticks
    kinds: Ticks
    """0 busy, 1 waits for input, 2 waits for space, 3 idle."""


KIND_NUMBERS = {BUSY: 0, WAIT_INPUT: 1, WAIT_SPACE: 2, IDLE: 3}


@dataclass(frozen=True)
class Stalls:
    """Causes of all units. ``busy`` and ``shares`` of a unit sum to ``cycles``, exactly (means over cores)."""

    cycles: int
    busy: dict[str, float]
    shares: tuple[Share, ...]
    """Largest first."""
    slowdown: dict[str, Slowdown]
    """By unit: cycles inside its busy time that its instructions would not have taken alone."""
    stretches: tuple[Stretches, ...]
    causes: tuple[Cause, ...]

    def of(self, unit: str) -> list[Share]:
        """Causes of one unit, largest first."""
        return [share for share in self.shares if share.cause.unit == unit]

    def to_dict(self) -> dict[str, Any]:
        """For ``explain --json``."""
        return {
            unit: {
                "busy_cycles": busy,
                "slowdown_cycles": self.slowdown[unit].cycles if unit in self.slowdown else 0,
                "slowdown_on": self.slowdown[unit].shared if unit in self.slowdown else None,
                "slowdown_inside_busy": self.slowdown[unit].inside if unit in self.slowdown else True,
                "causes": [share.to_dict(self.cycles) for share in self.of(unit)],
            }
            for unit, busy in self.busy.items()
        }


def stalls(trace: Trace, cores: Sequence[CoreFacts], slowdown: dict[str, Slowdown] | None = None) -> Stalls:
    """Attribute every cycle of every unit of these cores, each counted as often as it stands for a core."""
    cycles = ceil_div(trace.end, trace.ticks_per_cycle)
    known: dict[Cause, int] = {}
    shares: list[Share] = []
    busy: dict[str, int] = {}
    every: list[Stretches] = []
    total = sum(facts.core.stands_for for facts in cores)
    for facts in cores:
        weight = facts.core.stands_for
        for unit in dict.fromkeys(row.unit for row in facts.rows):
            columns: list[tuple[int, int, int, int]] = []
            busy.setdefault(unit, 0)
            for start, end, cause, row, position in _stretches(facts, unit, trace, cycles):
                if cause is None:
                    busy[unit] += (end - start) * weight
                    columns.append((start, end, -1, 0))
                    continue
                number = known.setdefault(cause, len(known))
                if number == len(shares):
                    shares.append(Share(cause))
                share = shares[number]
                share.cycles += (end - start) * weight
                share.waits += weight
                _remember(share, facts, end - start, start, row, position)
                columns.append((start, end, number, KIND_NUMBERS[cause.kind]))
            table = np.array(columns, np.int64).reshape(-1, 4)
            every.append(Stretches(facts.core.core, unit, *(table[:, column] for column in range(4))))
    means: dict[str, float] = {}
    for unit, count in busy.items():
        own = sorted((one for one in shares if one.cause.unit == unit), key=lambda one: KIND_NUMBERS[one.cause.kind])
        means[unit], *parts = exact_means([count, *(int(one.cycles) for one in own)], total)
        for one, mean in zip(own, parts, strict=True):
            one.cycles = mean
    for share in shares:
        share.worst.sort(key=lambda worst: (-worst.cycles, worst.core, worst.start_cycle))
    return Stalls(
        cycles,
        means,
        tuple(sorted(shares, key=lambda share: -share.cycles)),
        slowdown or {},
        tuple(every),
        tuple(known),
    )


def _remember(share: Share, facts: CoreFacts, cycles: int, start: int, row: int, position: int) -> None:
    if position < 0 or (len(share.worst) == _PLACES and cycles <= share.worst[-1].cycles):
        return
    instruction = facts.rows[row].instructions[position]
    tile = label_text(instruction.label)
    share.worst.append(Worst(cycles, start, facts.core.core, instruction.number, instruction.op, tile))
    share.worst.sort(key=lambda worst: -worst.cycles)
    del share.worst[_PLACES:]


_Active = tuple[int, int, int, int, Cause | None]


def _stretches(
    facts: CoreFacts, unit: str, trace: Trace, cycles: int
) -> Iterator[tuple[int, int, Cause | None, int, int]]:
    """(start, end, cause or None while busy, row, position) of a unit from cycle 0 to the end, without gap.

    The unit is busy when any of its engines is, else it waits for input when any does, else for space.
    """
    scale = trace.ticks_per_cycle
    found: list[tuple[int, int, int, int, int, Cause | None]] = []
    for index, row in enumerate(facts.rows):
        if row.unit != unit:
            continue
        for start, end in zip(row.starts, row.ends, strict=True):
            found.append((ceil_div(start, scale), -1, ceil_div(end, scale), index, -1, None))
        for piece in pieces(facts, index):
            start, end = ceil_div(piece.start, scale), ceil_div(piece.end, scale)
            found.append((start, _PRIORITY[piece.cause.kind], end, index, piece.position, piece.cause))
    found = [one for one in found if one[2] > one[0]]
    found.sort(key=lambda one: one[:5])
    working = [(one[0], one[2]) for one in found if one[5] is None]
    first, last = (working[0][0], max(end for _, end in working)) if working else (cycles, 0)
    launch = min(ceil_div(trace.launch, scale), cycles)
    edges = sorted(
        {0, launch, cycles, min(first, cycles), last} | {one[0] for one in found} | {one[2] for one in found}
    )
    active: list[_Active] = []
    following = 0
    pending: tuple[int, int, Cause | None, int, int] | None = None
    for start, end in pairwise(edges):
        while following < len(found) and found[following][0] <= start:
            _, priority, stop, row_index, position, cause = found[following]
            heappush(active, (priority, stop, row_index, position, cause))  # ties end at the row: causes never compare
            following += 1
        while active and active[0][1] <= start:
            heappop(active)
        if active:
            _, _, row_index, position, why = active[0]
        else:
            row_index, position, why = -1, -1, _filler(unit, start, launch, first, last)
        if pending is not None and pending[2:] == (why, row_index, position):
            pending = (pending[0], end, *pending[2:])
            continue
        if pending is not None:
            yield pending
        pending = (start, end, why, row_index, position)
    if pending is not None:
        yield pending


def _filler(unit: str, start: int, launch: int, first: int, last: int) -> Cause:
    if start < launch:
        return Cause(unit, IDLE, LAUNCH, "launch", "")
    if not last:
        return Cause(unit, IDLE, UNUSED, "no work", "")
    if start >= last:
        return Cause(unit, IDLE, DRAIN, "finished", "")
    return Cause(unit, IDLE, FILL, "nothing issued yet", "") if start < first else Cause(unit, IDLE, ISSUE, "issue", "")
