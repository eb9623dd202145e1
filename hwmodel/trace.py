"""What happened when: the facts that a simulation records, and nothing derived from them.

A row is one engine of one core. For each of its instructions it holds the start (its waits are over) and the end, in
ticks, and a list of waits, each with a kind and a cause. Everything else (idle time, utilisation, stalls, critical
path) is computed from these by ``hwmodel.analysis``.

Ticks are clock cycles where the machine has one clock; otherwise their rate is the least common multiple of the
clocks (`Trace.ticks_per_cycle` of the reference clock).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hwmodel.program.instructions import Instruction

BUSY = "busy"
WAIT_INPUT = "wait_input"
WAIT_SPACE = "wait_space"
IDLE = "idle"
KINDS = (BUSY, WAIT_INPUT, WAIT_SPACE, IDLE)


class Stall(NamedTuple):
    """A row waited from ``start`` to ``end`` before instruction ``position`` could start.

    ``cause`` names what it waited for: ``flag M>MTE1:0``, ``bank l0c:0``. ``by`` is the engine that ended the wait and
    ``by_position`` the instruction of that engine that did.
    """

    start: int
    end: int
    position: int
    kind: str
    cause: str
    by: str
    by_position: int


class Span(NamedTuple):
    """A stretch of a row's time with one reason; ``position`` is the instruction it belongs to, -1 for none."""

    start: int
    end: int
    kind: str
    position: int
    cause: str
    by: str = ""
    by_position: int = -1


@dataclass(slots=True)
class Row:
    """One engine of one core: ``starts[i]`` and ``ends[i]`` belong to ``instructions[i]``.

    ``parallel`` rows (DMA queues) may have several instructions in flight; the others never overlap.
    """

    core: int
    engine: str
    unit: str
    instructions: tuple[Instruction, ...]
    parallel: bool = False
    starts: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    stalls: list[Stall] = field(default_factory=list)


@dataclass(slots=True)
class Trace:
    """All rows of a run. ``end`` is the last tick; ``launch`` the tick at which the cores begin."""

    rows: list[Row]
    end: int
    launch: int
    ticks_per_cycle: int
    folded: tuple[int, ...]
    """How many equal cores each simulated core stands for."""

    def rows_of(self, unit: str) -> list[Row]:
        """The rows of one unit, over all cores."""
        return [row for row in self.rows if row.unit == unit]

    @property
    def instructions(self) -> int:
        """How many instructions ran."""
        return sum(len(row.starts) for row in self.rows)


def spans(row: Row, end: int) -> Iterator[Span]:
    """All spans of a row that is not parallel, from 0 to ``end``, without gap or overlap.

    Before its first timed instruction starts and after its last one ends, a row is idle (contract: launch, nothing
    issued yet, or finished); the stall that explains the wait for the first instruction is kept as the span's cause.
    Instructions that take no time (flags standing alone) leave no span.
    """
    now = 0
    begun = False
    stalls = iter(row.stalls)
    stall = next(stalls, None)
    pending: list[Stall] = []
    for position, (start, stop) in enumerate(zip(row.starts, row.ends, strict=True)):
        while stall is not None and stall.position <= position:
            pending.append(stall)
            stall = next(stalls, None)
        if stop == start:
            continue
        for part in pending:
            if part.start > now:
                yield Span(now, part.start, IDLE, -1, "launch" if not begun else "no instruction")
                now = part.start
            if part.end > now:
                kind = part.kind if begun else IDLE
                yield Span(now, part.end, kind, part.position, part.cause, part.by, part.by_position)
                now = part.end
        pending.clear()
        if start > now:
            yield Span(now, start, IDLE, -1, "launch" if not begun else "no instruction")
        yield Span(start, stop, BUSY, position, "")
        now = stop
        begun = True
    if end > now:
        yield Span(now, end, IDLE, -1, "finished" if begun else "not used")


def check_well_formed(trace: Trace) -> list[str]:
    """Say what is wrong with a trace: gaps, overlaps, spans beyond the end. An empty list is a good trace."""
    faults = []
    for row in trace.rows:
        name = f"core {row.core} {row.engine}"
        if any(stop < start for start, stop in zip(row.starts, row.ends, strict=True)):
            faults.append(f"{name}: an instruction ends before it starts")
        if row.ends and max(row.ends) > trace.end:
            faults.append(f"{name}: an instruction ends after the run")
        if row.parallel:
            continue
        now = 0
        for span in spans(row, trace.end):
            if span.start != now or span.end <= span.start:
                faults.append(f"{name}: {span} does not follow on tick {now}")
            now = span.end
        if now != trace.end and trace.end:
            faults.append(f"{name}: covered until tick {now}, not {trace.end}")
    return faults
