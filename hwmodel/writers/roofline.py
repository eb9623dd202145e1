"""roofline.png: operations a second against operations a byte, a roof a level of memory, and the run under them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hwmodel.analysis.roofline import Level, Roofline, roofline
from hwmodel.result import Result
from hwmodel.writers import figures, style, view

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 1400, 700
LOOKS: dict[str, tuple[style.Colour, str]] = {
    "HBM": (style.PHASE_COLOURS["store"], "-"),
    "L2": (style.PHASE_COLOURS["load"], "--"),
    "L1": (style.PHASE_COLOURS["extract"], "-."),
    "L0C": (style.PHASE_COLOURS["drain"], (0, (1, 1))),  # type: ignore[dict-item]
    "PSUM": (style.PHASE_COLOURS["drain"], "--"),
}
"""Colour and dashes of each level: they differ without colour, too."""


def write(result: Result, path: Path) -> None:
    """Draw the picture."""
    stats, program = result.stats, result.program
    assert stats is not None
    assert program is not None
    found = roofline(stats, program, result.arch)
    with figures.figure(WIDTH, HEIGHT) as made:
        area = made.add_axes((0.07, 0.11, 0.62, 0.73))
        if found is None:
            figures.note(area, "nothing is multiplied, so there is no roof")
        else:
            _draw(area, found)
            _table(made, found)
        _title(made, result, found)
        figures.save(made, path)


def _title(made: Figure, result: Result, found: Roofline | None) -> None:
    head = f"{result.name} on {result.arch.name}"
    if found is not None:
        share = 100 * found.flops_per_cycle / found.peak_flops_per_cycle
        head += f": {found.tflops(found.flops_per_cycle):,.2f} Tflop/s, {share:.1f} % of the peak"
    made.text(0.02, 0.945, head, size=style.TITLE, weight="bold", color=style.INK)
    known = "" if result.to_dict()["calibrated"] else "timing not calibrated   ·   "
    made.text(0.02, 0.9, f"{known}{view.problem_text(result)}", color=style.SOFT)


def _draw(area: Axes, found: Roofline) -> None:
    import numpy as np

    peak, reached = found.tflops(found.peak_flops_per_cycle), found.tflops(found.flops_per_cycle)
    ridges = [found.peak_flops_per_cycle / level.bytes_per_cycle for level in found.levels]
    every = [*ridges, *(level.intensity for level in found.levels)]
    low, high = min(every) / 4, max(every) * 4
    for level, ridge in zip(found.levels, ridges, strict=True):
        colour, dashes = LOOKS.get(level.name, (style.SOFT, "-"))
        slope = found.tflops(level.bytes_per_cycle)
        start = min(low, ridge)
        area.plot([start, ridge, high], [slope * start, peak, peak], color=colour, linestyle=dashes, linewidth=2.4)
        allowed = found.tflops(level.attainable)
        area.plot([level.intensity] * 2, [reached, allowed], color=colour, linestyle=":", linewidth=1.4)
        area.plot([level.intensity], [reached], "o", color=colour, markersize=10, markeredgecolor=style.INK)
    _names(area, found, reached)
    area.set_xscale("log")
    area.set_yscale("log")
    area.set_xlim(low, high)
    area.set_ylim(min(reached, peak / 30) / 3, peak * 2)
    area.text(high * 0.93, peak * 1.08, f"peak {peak:,.1f} Tflop/s", ha="right", color=style.SOFT)
    area.grid(visible=True, which="major")
    figures.thousands(area.xaxis)
    ticks = 10.0 ** np.arange(np.floor(np.log10(area.get_ylim()[0])), np.ceil(np.log10(area.get_ylim()[1])) + 1)
    area.set_yticks(ticks, [f"{tick:,g}" for tick in ticks])
    area.set_ylim(min(reached, peak / 30) / 3, peak * 2)
    area.minorticks_off()
    area.set_xlabel("operations for each byte that crosses the level (op/B)")
    area.set_ylabel("Tflop/s")


def _names(area: Axes, found: Roofline, reached: float) -> None:
    """Names under the points; those at (nearly) one place stand under each other."""
    placed: list[tuple[float, list[str]]] = []
    for level in found.levels:
        near = next((names for at, names in placed if 0.8 < at / level.intensity < 1.25), None)
        if near is None:
            placed.append((level.intensity, [level.name]))
        else:
            near.append(level.name)
    for at, names in placed:
        area.annotate("\n".join(names), (at, reached), (0, -10), textcoords="offset points", ha="center", va="top")


def _table(made: Figure, found: Roofline) -> None:
    area = made.add_axes((0.715, 0.11, 0.275, 0.73))
    area.set_axis_off()
    heads = ("level", "moved by", "op/B", "B/cycle", "allows", "reached")
    places = (0.0, 0.15, 0.47, 0.64, 0.82, 1.0)
    for head, place in zip(heads, places, strict=True):
        side = "left" if place < 0.2 else "right"
        area.text(place, 1.0, head, ha=side, va="top", color=style.SOFT, size=style.SMALL, transform=area.transAxes)
    for index, level in enumerate(found.levels):
        y = 0.93 - 0.075 * index
        colour, dashes = LOOKS.get(level.name, (style.SOFT, "-"))
        line = [0.0, 0.12]
        area.plot(line, [y - 0.038] * 2, color=colour, linestyle=dashes, linewidth=2.4, transform=area.transAxes)
        for text, place in zip(_cells(level, found), places, strict=True):
            side = "left" if place < 0.2 else "right"
            area.text(place, y, text, ha=side, va="top", size=style.SMALL + 0.5, transform=area.transAxes)
    area.set_xlim(0, 1)
    area.set_ylim(0, 1)


def _cells(level: Level, found: Roofline) -> tuple[str, ...]:
    return (
        level.name,
        level.by,
        f"{level.intensity:,.1f}",
        f"{level.bytes_per_cycle:,.0f}",
        f"{found.tflops(level.attainable):,.1f}",
        f"{100 * level.reached:.1f} %",
    )
