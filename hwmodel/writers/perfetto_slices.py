"""Slices and counters of the Perfetto trace: every instruction, or merged windows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from math import inf, nextafter
from typing import Any, Protocol

import numpy as np

from hwmodel.analysis.flow import Ticks
from hwmodel.analysis.occupancy import Track
from hwmodel.program.instructions import Instruction, label_text
from hwmodel.program.memory import describe
from hwmodel.result import Result
from hwmodel.trace import BUSY, IDLE, Row, Span
from hwmodel.writers import view
from hwmodel.writers.lanes import TIMED_KINDS, lane, maxima, queues

WINDOWS = 2000
"""Most windows of a row at the summary level."""
LEAST_WINDOWS = 20
"""Windows of a run with few instructions; in between, as many as the row with most instructions has of them."""


encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
"""JSON text of a value."""


class Clock:
    """Ticks to microseconds.

    Viewers cut ``1000 x ts`` and ``1000 x dur`` down to whole nanoseconds. Cutting exact times keeps neighbours from
    overlapping; where binary rounding would fall below a whole nanosecond, the next number is taken instead.
    """

    def __init__(self, ticks_per_us: Fraction) -> None:
        self.up, self.down = ticks_per_us.denominator, ticks_per_us.numerator

    def us(self, ticks: int) -> float:
        """Microseconds."""
        value = ticks * self.up / self.down
        return value if int(value * 1000.0) >= ticks * self.up * 1000 // self.down else nextafter(value, inf)


class Slices(Protocol):
    """Makes the events of rows and counters."""

    def row(self, row: Row, tid: int) -> Iterator[str]:
        """Slices of a row; ``tid`` is its first thread."""
        ...

    def counter(self, track: Track) -> Iterator[str]:
        """Samples of a buffer's occupancy."""
        ...


def counter_name(buffer: str) -> str:
    """Name of a buffer's counter track."""
    return f"{buffer.upper()} occupancy"


def _sample(core: int, name: str, ts: float, key: str, value: float) -> str:
    return f'{{"ph":"C","pid":{core + 1},"ts":{ts!r},"name":"{name}","args":{{"{key}":{value}}}}}'


class FullSlices:
    """Every instruction and every wait."""

    def __init__(self, result: Result, clock: Clock) -> None:
        assert result.trace is not None
        self.clock = clock
        self.trace = result.trace
        self.units = result.arch.units
        self.rows = view.by_engine(self.trace)
        self._static: dict[int, tuple[str, str]] = {}

    def row(self, row: Row, tid: int) -> Iterator[str]:
        """Slices of a row, in time order; where instructions overlap, each queue is a thread."""
        us = self.clock.us
        pid = row.core + 1
        threads = queues(row)
        before: Span | None = None
        waited: dict[int, Span] = {}
        for span in view.row_spans(row, self.trace.end):
            start, end, kind, position, *_ = span
            if kind != IDLE:
                thread = tid + threads[position] if threads else tid
                head = f'{{"ph":"X","pid":{pid},"tid":{thread},"ts":{us(start)!r},"dur":{us(end - start)!r}'
                begin, stop = view.cycle(self.trace, start), view.cycle(self.trace, end)
                cycles = f'"start_cycle":{begin},"end_cycle":{stop},"cycles":{stop - begin}'
                if kind == BUSY:
                    name, fixed = self._instruction(row, row.instructions[position])
                    after = encode(self._why(row, position, waited.pop(position, before)))
                    yield f'{head},"cat":"busy","name":{name},"args":{{{fixed},{cycles},"started_after":{after}}}}}'
                else:
                    args = encode(self._wait(row, span))
                    yield f'{head},"cat":"{kind}","name":"wait","args":{{{args[1:-1]},{cycles}}}}}'
            if row.parallel and kind != BUSY:
                waited[position] = span
            else:
                before = span

    def counter(self, track: Track) -> Iterator[str]:
        """One sample at each change, and one at the end of the run."""
        name = counter_name(track.buffer)
        ticks, used = track.ticks.tolist(), track.used_bytes.tolist()
        if ticks[-1] < self.trace.end:
            ticks, used = [*ticks, self.trace.end], [*used, used[-1]]
        for tick, value in zip(ticks, used, strict=True):
            yield _sample(track.core, name, self.clock.us(tick), "bytes", value)

    def _instruction(self, row: Row, instruction: Instruction) -> tuple[str, str]:
        """(name, the part of the args that does not depend on time), as JSON; cores share instructions."""
        found = self._static.get(id(instruction))
        if found is None:
            kind = self.units[row.engine].kind
            gm_bytes = kind.gm_bytes(instruction.params)
            args: dict[str, Any] = {
                "instruction": instruction.number,
                "tile": label_text(instruction.label),
                "shape": view.shape(instruction),
                "bytes": view.moved_bytes(instruction, gm_bytes),
                **instruction.params._asdict(),
                "macs": kind.macs(instruction.params),
                "reads": ", ".join(describe(operand) for operand in instruction.reads),
                "writes": ", ".join(describe(operand) for operand in instruction.writes),
                "waits_for": ", ".join(wait.signal for wait in instruction.waits),
                "sets": ", ".join(signal.signal for signal in instruction.sets),
            }
            args.pop("size", None)
            kept = {name: value for name, value in args.items() if value not in ("", 0) or name == "instruction"}
            found = self._static[id(instruction)] = encode(view.title(instruction)), encode(kept)[1:-1]
        return found

    def _wait(self, row: Row, span: Span) -> dict[str, Any]:
        args: dict[str, Any] = {"cause": span.cause}
        by = view.ended_by(self.rows, row.core, span)
        if by is not None:
            args |= {"until": view.title(by), "until_engine": by.engine, "until_instruction": by.number}
        waiting = row.instructions[span.position]
        return args | {"before": view.title(waiting), "before_instruction": waiting.number}

    def _why(self, row: Row, position: int, before: Span | None) -> str:
        """What an instruction's start had to wait for: of ``before``, its own last wait or else the span before it."""
        if before is None:
            return "launch"
        if before.kind == BUSY:
            return "the instruction before it"
        if before.position != position:
            return before.cause or "launch"
        by = view.ended_by(self.rows, row.core, before)
        return f"{before.cause}, by {view.title(by)} of {by.engine}" if by is not None else before.cause


class SummarySlices:
    """Merged windows: in each, busy time first, then the waits."""

    def __init__(self, result: Result, clock: Clock) -> None:
        assert result.trace is not None
        self.clock = clock
        self.trace = result.trace
        longest = max((len(row.instructions) for row in self.trace.rows), default=0)
        self.edges = window_edges(self.trace.end, min(WINDOWS, max(LEAST_WINDOWS, longest)))

    def row(self, row: Row, tid: int) -> Iterator[str]:
        """One to three slices a window, and the share of busy time as a counter."""
        us = self.clock.us
        edges = self.edges
        columns = lane(row)
        shares = columns.shares(edges)
        begun = np.diff(np.searchsorted(columns.starts, edges, side="left")).tolist()
        operations = Counter(instruction.op for instruction in row.instructions)
        name = encode(operations.most_common(1)[0][0] if operations else "")
        rest = f'"pid":{row.core + 1},"tid":{tid}'
        ticks = [shares[kind].tolist() for kind in TIMED_KINDS]
        for window, parts in enumerate(zip(*ticks, strict=True)):
            now, stop = int(edges[window]), int(edges[window + 1])
            length = stop - now
            for kind, part in zip(TIMED_KINDS, parts, strict=True):
                if part:
                    percent = round(100 * part / length, 1)
                    first, last = view.cycle(self.trace, now), view.cycle(self.trace, now + part)
                    args = f'"percent_of_window":{percent},"cycles":{last - first}'
                    args += f',"instructions_begun":{begun[window]}' if kind == BUSY else ""
                    yield (
                        f'{{"ph":"X",{rest},"ts":{us(now)!r},"dur":{us(part)!r},"cat":"{kind}",'
                        f'"name":{name if kind == BUSY else _WAIT},"args":{{{args}}}}}'
                    )
                    now += part
        label = f"{row.engine} {row.unit} busy"
        for tick, part, length in zip(edges[:-1].tolist(), ticks[0], np.diff(edges).tolist(), strict=True):
            yield _sample(row.core, label, us(tick), "percent", round(100 * part / length, 1))

    def counter(self, track: Track) -> Iterator[str]:
        """The most that was in use in each window."""
        most = maxima(track.ticks, track.used_bytes, self.edges)
        for tick, value in zip(self.edges[:-1].tolist(), most.tolist(), strict=True):
            yield _sample(track.core, counter_name(track.buffer), self.clock.us(tick), "bytes", value)
        yield _sample(
            track.core, counter_name(track.buffer), self.clock.us(self.trace.end), "bytes", int(track.used_bytes[-1])
        )


_WAIT = '"wait"'


def window_edges(end: int, most: int) -> Ticks:
    """Edges of equal windows of whole ticks over a run, at most ``most`` of them."""
    if not end:
        return np.zeros(1, np.int64)
    return np.append(np.arange(0, end, -(-end // most)), end).astype(np.int64)
