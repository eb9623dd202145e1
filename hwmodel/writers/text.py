"""What a run prints: one screen of summary, and lanes for ``run --timeline``. Plain ASCII, colours on request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import wrap

from hwmodel.analysis.statistics import Statistics
from hwmodel.result import Result
from hwmodel.writers import facts

BOLD, DIM, RED, GREEN, YELLOW = "1", "2", "31", "32", "33"
_TONES = {"good": GREEN, "bad": RED, "careful": YELLOW, "": ""}
WIDTH = 104
"""Columns of a line where nothing says otherwise: as many as a line of the table of units takes."""
NARROWEST = 60
"""Columns below which lines are no longer made to fit."""
LANES = 100
"""Columns of a line of the timeline, where nothing says otherwise."""
HEADS = ("busy", "waits for input", "waits for space", "idle")


def summary(result: Result, width: int = WIDTH, *, color: bool = False, paths: Sequence[Path | str] = ()) -> str:
    """The screen at the end of a run, in lines of ``width``; ``paths`` are what was written."""
    return "\n".join(_lines(result, max(width, NARROWEST), Paint(color), paths)) + "\n"


class Paint:
    """Puts ANSI colours around text, or not."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, code: str) -> str:
        """``text`` in a colour or weight."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and code and text else text


def _lines(result: Result, width: int, paint: Paint, paths: Sequence[Path | str]) -> Iterator[str]:
    title = paint(result.name, BOLD)
    if result.question and len(result.name) + 2 + len(result.question) <= width:
        yield f"{title}  {result.question}"
    else:
        yield title
        yield from _folded(result.question, width - 2, "  ")
    yield ""
    yield from _facts(facts.head(result), width, paint)
    if result.stats is not None:
        yield ""
        yield from _table(result.stats, paint) if width >= WIDTH else _narrow_table(result.stats, paint)
        yield ""
        yield from _facts(facts.tail(result), width, paint)
    for place, path in enumerate(paths):
        yield f"  {'' if place else 'wrote':10s} {path}"


def _folded(text: str, width: int, indent: str = "") -> list[str]:
    whole = text.replace(" %", "\u00a0%")  # a number stays with its sign
    lines = wrap(whole, width, break_long_words=False, break_on_hyphens=False)
    return [indent + line.replace("\u00a0", " ") for line in lines]


def _facts(found: Iterable[facts.Fact], width: int, paint: Paint) -> Iterator[str]:
    for name, text, tone in found:
        # What went wrong stays in one line, for those who search a log for it.
        whole = tone == "bad"
        lines = [text] if whole else _folded(text, width - 13)
        for place, line in enumerate(lines):
            yield f"  {'' if place else name:10s} {paint(line, _TONES[tone])}"


def _table(stats: Statistics, paint: Paint) -> Iterator[str]:
    width = max(9, len(f"{stats.cycles:,}"))
    name = max((len(unit) for unit in stats.units), default=4)
    heads = "".join(f"{head:>{width + 9}s}" for head in HEADS)
    yield paint(f"  {'unit':{name}s}{heads}{'alone':>{width + 2}s}", DIM)
    for unit, figures in stats.units.items():
        kinds = (figures.busy_cycles, figures.wait_input_cycles, figures.wait_space_cycles, figures.idle_cycles)
        cells = "".join(f"  {value:>{width},.0f} {facts.percent(value, stats.cycles):>6s}" for value in kinds)
        line = f"  {unit:{name}s}{cells}  {figures.alone_cycles:>{width},.0f}"
        yield paint(f"{line}  <- limit", BOLD) if unit == stats.bound and stats.cycles else line


def _narrow_table(stats: Statistics, paint: Paint) -> Iterator[str]:
    """The same figures for a narrow terminal: each unit's shares below its cycles."""
    width = max(7, len(f"{stats.cycles:,}"))
    name = max((len(unit) for unit in stats.units), default=4)
    heads = ("busy", "wait input", "wait space", "idle", "alone")
    widths = [max(width, len(head)) for head in heads]

    def line(first: str, cells: Iterable[str]) -> str:
        placed = (f"{cell:>{own}s}" for cell, own in zip(cells, widths, strict=True))
        return f"  {first:{name}s}  {'  '.join(placed)}"

    yield paint(line("unit", heads), DIM)
    for unit, figures in stats.units.items():
        kinds = (
            figures.busy_cycles,
            figures.wait_input_cycles,
            figures.wait_space_cycles,
            figures.idle_cycles,
            figures.alone_cycles,
        )
        cycles = line(unit, [f"{value:,.0f}" for value in kinds])
        yield paint(f"{cycles}  <- limit", BOLD) if unit == stats.bound and stats.cycles else cycles
        yield line("", [facts.percent(value, stats.cycles) for value in kinds])


def timeline_text(result: Result, max_cycles: int | None = None, width: int = LANES, *, color: bool = False) -> str:
    """Lanes of the first simulated core, up to ``max_cycles``; each column shows what takes most of its time."""
    from hwmodel.writers.text_lanes import lanes_text

    if result.trace is None:
        return "no timeline: this operation has no timing model\n"
    return lanes_text(result, max_cycles, width, Paint(color))
