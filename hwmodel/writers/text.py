"""What a run prints: one screen of summary, and lanes for ``run --timeline``. Plain ASCII, colours on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hwmodel.analysis.statistics import Statistics
from hwmodel.result import Result
from hwmodel.writers import facts

BOLD, DIM, RED, GREEN, YELLOW = "1", "2", "31", "32", "33"
_TONES = {"good": GREEN, "bad": RED, "careful": YELLOW, "": ""}
HEADS = ("busy", "waits for input", "waits for space", "idle")


def summary(result: Result, *, color: bool = False, paths: Sequence[Path | str] = ()) -> str:
    """The screen at the end of a run; ``paths`` are what was written."""
    return "\n".join(_lines(result, Paint(color), paths)) + "\n"


class Paint:
    """Puts ANSI colours around text, or not."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, code: str) -> str:
        """``text`` in a colour or weight."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and code and text else text


def _lines(result: Result, paint: Paint, paths: Sequence[Path | str]) -> Iterator[str]:
    yield paint(result.name, BOLD) + (f"  {result.question}" if result.question else "")
    yield ""
    for name, text, tone in facts.head(result):
        yield f"  {name:10s} {paint(text, _TONES[tone])}"
    if result.stats is not None:
        yield ""
        yield from _table(result.stats, paint)
        yield ""
        for name, text, tone in facts.tail(result):
            yield f"  {name:10s} {paint(text, _TONES[tone])}"
    for place, path in enumerate(paths):
        yield f"  {'' if place else 'wrote':10s} {path}"


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


def timeline_text(result: Result, max_cycles: int | None = None, width: int = 100, *, color: bool = False) -> str:
    """Lanes of the first simulated core, up to ``max_cycles``; each column shows what takes most of its time."""
    from hwmodel.writers.text_lanes import lanes_text

    if result.trace is None:
        return "no timeline: this operation has no timing model\n"
    return lanes_text(result, max_cycles, width, Paint(color))
