"""``run --timeline``: the first instructions as bars of text, one line each, in order of their start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hwmodel.program.instructions import label_text
from hwmodel.quantities import ceil_div
from hwmodel.result import Result
from hwmodel.trace import Trace

WIDTH = 64
MOST_LINES = 200
WAIT, BUSY = "~", "#"


class _Line(NamedTuple):
    start: int
    end: int
    waits_from: int
    core: int
    engine: str
    text: str


def timeline_lines(result: Result, max_cycles: int | None = None) -> Iterator[str]:
    """Text lines: number, engine, operation, a bar, start and end in cycles. Those that start before ``max_cycles``."""
    trace = result.trace
    if trace is None:
        yield "no timeline: this operation has no timing model"
        return
    end = ceil_div(trace.end, trace.ticks_per_cycle)
    shown = min(end, max_cycles) if max_cycles is not None else end
    lines = sorted(line for line in _lines(trace) if line.start < shown)
    step = max(1, ceil_div(shown, WIDTH))
    several = len({line.core for line in lines}) > 1
    texts = [f"core {line.core} {line.text}" if several else line.text for line in lines[:MOST_LINES]]
    width = max((len(text) for text in texts), default=0)
    yield f"cycles 0 to {shown:,} of {end:,}, {step:,} a column; {WAIT} waits, {BUSY} busy"
    for line, text in zip(lines, texts, strict=False):
        yield f"{line.engine:5s} {text:{width}s} |{_bar(line, step, shown)}| {line.start:,} - {line.end:,}"
    if len(lines) > MOST_LINES:
        yield f"... and {len(lines) - MOST_LINES:,} more (--max-cycles N shows the first N cycles)"


def _lines(trace: Trace) -> Iterator[_Line]:
    """Every instruction that takes time, in cycles."""
    ticks = trace.ticks_per_cycle
    for row in trace.rows:
        waits: dict[int, int] = {}
        for stall in row.stalls:
            waits.setdefault(stall.position, stall.start)
        for position, (start, end) in enumerate(zip(row.starts, row.ends, strict=True)):
            if end > start:
                instruction = row.instructions[position]
                text = f"{instruction.number:3d} {instruction.op} {label_text(instruction.label)}".rstrip()
                since = waits.get(position, start)
                yield _Line(
                    ceil_div(start, ticks), ceil_div(end, ticks), ceil_div(since, ticks), row.core, row.engine, text
                )


def _bar(line: _Line, step: int, shown: int) -> str:
    columns = ceil_div(shown, step)
    first = line.start // step
    last = max(first + 1, min(columns, ceil_div(line.end, step)))
    wait = min(first, line.waits_from // step)
    return (" " * wait + WAIT * (first - wait) + BUSY * (last - first)).ljust(columns)
