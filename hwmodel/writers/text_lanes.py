"""The timeline as text: one line an engine, and the accumulator's buffer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hwmodel.analysis.flow import Ticks
from hwmodel.quantities import ceil_div
from hwmodel.result import Result
from hwmodel.trace import BUSY, IDLE, WAIT_INPUT, WAIT_SPACE
from hwmodel.writers import view
from hwmodel.writers.lanes import TIMED_KINDS, Lane, lane, maxima

if TYPE_CHECKING:
    from hwmodel.writers.text import Paint

MARKS = {BUSY: "#", WAIT_INPUT: "-", WAIT_SPACE: "^", IDLE: " "}
PHASE_CODES = {"load": "34", "extract": "36", "multiply": "32", "drain": "33", "store": "35"}
WAIT_CODES = {WAIT_INPUT: "2", WAIT_SPACE: "31", IDLE: ""}
ACCUMULATORS = ("l0c", "psum")
SCALE_STEP = 20
LEAST_COLUMNS = 10
MOST_SLICES = 8
"""A column of more slices than this shows no tile."""


def lanes_text(result: Result, max_cycles: int | None, width: int, paint: Paint) -> str:
    """Lines of at most ``width`` characters."""
    return "\n".join(_lines(result, max_cycles, width, paint)) + "\n"


def _lines(result: Result, max_cycles: int | None, width: int, paint: Paint) -> Iterator[str]:
    trace, program = result.trace, result.program
    assert trace is not None
    assert program is not None
    core = program.cores[0].core if program.cores else 0
    rows = [row for row in view.pipeline(result.arch, trace.rows) if row.core == core]
    tracks = [track for track in view.tracks(result) if track.core == core and track.buffer in ACCUMULATORS]
    names = [f"{row.engine:5s}{row.unit}" for row in rows]
    names += [f"{track.buffer.upper():5s}{view.size_text(track.capacity_bytes)}" for track in tracks]
    margin = max((len(name) for name in names), default=0)
    columns = max(width - margin - 12, LEAST_COLUMNS)
    cycles = view.cycle(trace, trace.end)
    shown = min(cycles, max_cycles) if max_cycles is not None else cycles
    if not shown:
        yield "no timeline: nothing ran"
        return
    step = ceil_div(shown, columns)
    columns = ceil_div(shown, step)
    edges = np.minimum(np.arange(columns + 1, dtype=np.int64) * step, shown) * trace.ticks_per_cycle
    where = f"core {core} of {len(program.cores)}: " if len(program.cores) > 1 else ""
    yield f"{where}cycles 0 to {shown:,} of {cycles:,}, {step:,} a column, what takes most of each"
    ruler = "".join(f"{place * step:<{SCALE_STEP},d}" for place in range(0, columns, SCALE_STEP))
    yield f"{'':{margin}s} |{ruler[:columns]:{columns}s}|"
    for row, name in zip(rows, names, strict=False):
        one = lane(row)
        index = telling_index(one)
        kinds, marks = _marks(one, index, edges)
        phase = view.row_phase(result.arch, row)
        bar = _painted(kinds, marks, PHASE_CODES[phase], paint)
        busy = int(one.shares(edges)[BUSY].sum()) / int(edges[-1])
        yield f"{name:{margin}s} |{bar}| {100 * busy:3.0f} % {index if any(map(str.isdigit, marks)) else ''}".rstrip()
    for track, name in zip(tracks, names[len(rows) :], strict=True):
        most = maxima(track.ticks, track.used_bytes, edges) * 10 // track.capacity_bytes
        bar = "".join(" " if used == 0 else "F" if used >= 10 else str(used) for used in most.tolist())
        yield f"{name:{margin}s} |{bar}| {100 * track.peak_bytes / track.capacity_bytes:3.0f} %"
    yield "digit: busy with that tile (last digit of the index named at the right)   #: busy"
    yield "-: waits for input   ^: waits for space   blank: idle"
    if tracks:
        yield "buffer: tenths in use, F full; percent: most in use"


def telling_index(one: Lane) -> str:
    """The index of a row's tiles that differs most often from one tile to the next, the innermost of equals.

    The stores of m0 n0, m1 n0, m2 n0 are told apart by m.
    """
    labels = [one.row.instructions[position].label for position in one.positions.tolist()]
    changes: Counter[str] = Counter()
    for label, after in pairwise(labels):
        before = dict(label)
        changes.update(name for name, number in after if before.get(name, number) % 10 != number % 10)
    names = list(dict.fromkeys(name for label in reversed(labels) for name, _ in reversed(label)))
    return max(names, key=lambda name: changes[name], default="")


def _marks(one: Lane, index: str, edges: Ticks) -> tuple[list[str], list[str]]:
    """For each column its kind, and the character that stands for it."""
    shares = one.shares(edges)
    parts = np.stack([shares[kind] for kind in TIMED_KINDS])
    idle = np.diff(edges) - parts.sum(axis=0)
    largest = np.argmax(np.vstack([parts, idle]), axis=0).tolist()
    names = (*TIMED_KINDS, IDLE)
    first = np.searchsorted(one.ends, edges[:-1], side="right").tolist()
    stop = np.searchsorted(one.starts, edges[1:], side="left").tolist()
    kinds, marks = [], []
    for column, kind in enumerate(names[place] for place in largest):
        mark = MARKS[kind]
        if kind == BUSY and not one.row.parallel:
            mark = _tile_mark(one, index, first[column], stop[column], int(edges[column]), int(edges[column + 1]))
        kinds.append(kind)
        marks.append(mark)
    return kinds, marks


def _tile_mark(one: Lane, index: str, first: int, stop: int, low: int, high: int) -> str:
    """The last digit of the ``index`` that most of a column's busy time goes to; ``#`` where there is none."""
    time: Counter[int] = Counter()
    for place in range(first, min(stop, first + MOST_SLICES)):
        label = dict(one.row.instructions[int(one.positions[place])].label)
        time[label[index] % 10 if index in label else -1] += int(
            min(one.ends[place], high) - max(one.starts[place], low)
        )
    digit = time.most_common(1)[0][0] if time and stop - first <= MOST_SLICES else -1
    return str(digit) if digit >= 0 else MARKS[BUSY]


def _painted(kinds: list[str], marks: list[str], code: str, paint: Paint) -> str:
    """Marks joined, neighbours of one kind in one colour."""
    text, run, now = "", "", ""
    for kind, mark in [*zip(kinds, marks, strict=True), ("", "")]:
        if kind != now:
            text += paint(run, code if now == BUSY else WAIT_CODES.get(now, ""))
            run, now = "", kind
        run += mark
    return text
