"""report.md: the summary of a run as a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hwmodel.result import Result
from hwmodel.writers import facts


def write(result: Result, path: Path) -> None:
    """Write the page."""
    path.write_text("\n".join(lines(result)) + "\n", encoding="utf-8", newline="\n")


def lines(result: Result) -> Iterator[str]:
    """Lines of the page."""
    yield f"# {_safe(result.name)}"
    yield ""
    if result.question:
        yield _safe(result.question)
        yield ""
    yield from _facts(list(facts.head(result)))
    stats = result.stats
    if stats is not None:
        yield ""
        yield "## Units"
        yield ""
        mean = ", mean over cores" if stats.cores > 1 else ""
        yield f"Cycles{mean}; the four kinds sum to {stats.cycles:,}. `alone` is the unit's work without any waiting."
        yield ""
        yield "| unit | busy | | waits for input | | waits for space | | idle | | alone |"
        yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
        for name, unit in stats.units.items():
            kinds = (unit.busy_cycles, unit.wait_input_cycles, unit.wait_space_cycles, unit.idle_cycles)
            cells = " | ".join(f"{value:,.0f} | {facts.percent(value, stats.cycles)}" for value in kinds)
            shown = f"**{name}** (limit)" if name == stats.bound and stats.cycles else name
            yield f"| {shown} | {cells} | {unit.alone_cycles:,.0f} |"
        yield ""
        yield "## What limits"
        yield ""
        yield from _facts(list(facts.tail(result)))
    if len(result.hazards) > 1:
        yield ""
        yield "## Hazards"
        yield ""
        yield from (f"* {_safe(hazard)}" for hazard in result.hazards)
    yield ""
    yield "Made with " + ", ".join(f"{name} {version}" for name, version in result.provenance.items()) + "."


def _facts(found: list[facts.Fact]) -> Iterator[str]:
    yield "| | |"
    yield "|---|---|"
    for name, text, _ in found:
        yield f"| {name} | {_safe(text)} |"


def _safe(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
