"""What the reports share: one scenario measured, Markdown tables, and bars for several variants of several cases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hwmodel.scenario import Scenario, load
from hwmodel.study.measure import measure, task_of
from hwmodel.writers import figures, style


class Found(NamedTuple):
    """Cycles and tiling of one variant."""

    cycles: int
    plan: str
    columns: dict[str, Any]


def measured(name: str, **fields: Any) -> Found:
    """A shipped scenario with fields replaced (``tiling__base=...``), timing only."""
    return of(load(name, {"expect": {}, **{path.replace("__", "."): value for path, value in fields.items()}}))


def of(scenario: Scenario) -> Found:
    """A scenario, timing only."""
    record = measure(task_of(scenario, "skip"))
    assert not record.problem, record.problem
    return Found(record.columns["cycles"], record.columns["plan"], record.columns)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A Markdown table: the first column left, the others right."""
    lines = ["| " + " | ".join(header) + " |", "|---|" + "--:|" * (len(header) - 1)]
    return [*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)]


def write(path: Path, lines: Sequence[str]) -> Path:
    """Write a page."""
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8", newline="\n")
    return path


def bars(
    path: Path,
    title: str,
    below: str,
    cases: Sequence[str],
    variants: Sequence[str],
    values: Sequence[Sequence[float]],
    label: str,
) -> Path:
    """One small chart a case, a bar a variant; ``values[case][variant]`` relative to the case's first variant."""
    palette = [style.rgb("#8a8a8a"), style.PHASE_COLOURS["drain"], style.PHASE_COLOURS["load"]]
    palette += [style.PHASE_COLOURS["extract"], style.PHASE_COLOURS["multiply"]]
    colours = [*palette[: len(variants) - 1], style.PHASE_COLOURS["multiply"]]
    columns = 3 if len(cases) > 4 else len(cases)
    lines = -(-len(cases) // columns)
    height = 150 + lines * (64 + 34 * len(variants))
    with figures.figure(1400, height) as made:
        made.text(18 / 1400, 1 - 30 / height, title, fontsize=style.TITLE, weight="bold")
        made.text(18 / 1400, 1 - 56 / height, below, fontsize=style.TEXT, color=style.SOFT)
        for place, case in enumerate(cases):
            line, column = divmod(place, columns)
            width = 0.94 / columns
            tall = 34 * len(variants) / height
            bottom = 1 - (124 / height) - tall - line * (64 / height + tall)
            area = made.add_axes((0.03 + column * width, bottom, width - 0.03, tall))
            base = values[place][0]
            longest = max(values[place])
            for number, value in enumerate(values[place]):
                area.barh(number, value, height=0.74, color=colours[number])
                inside = value > 0.55 * longest
                text = f" {value:,.0f}" + (f"   {value / base:.2f}x " if number else " ")
                dark = number in (1, 3) and len(variants) > 4
                ink = style.INK if not inside or dark else style.WHITE
                area.text(value, number, text, va="center", ha="right" if inside else "left", color=ink, fontsize=8)
            area.set_title(case, pad=5)
            area.set_xlim(0, longest * 1.02)
            area.set_ylim(len(variants) - 0.5, -0.5)
            area.set_yticks([])
            area.set_xticks([])
            area.spines["bottom"].set_visible(False)
        x = 18.0
        for colour, variant in zip(colours, variants, strict=True):
            made.text(x / 1400, 22 / height, "■", color=colour, fontsize=style.TITLE, va="center")
            made.text((x + 18) / 1400, 22 / height, variant, fontsize=style.TEXT, va="center")
            x += 46 + 8.0 * len(variant)
        made.text(1 - 18 / 1400, 22 / height, label, fontsize=style.SMALL, color=style.SOFT, va="center", ha="right")
        figures.save(made, path)
    return path
