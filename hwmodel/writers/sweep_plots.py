"""sweep.png: cycles over the fields that varied, and cycles against what they cost (Pareto front)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwmodel.study.points import Axis
from hwmodel.study.sweep import COSTS, Sweep
from hwmodel.study.table import Row, front, order_of, text_of
from hwmodel.writers import figures, style
from hwmodel.writers.canvas import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 1400, 640
MOST_CELLS = 160
"""Cells of a heat map that are written into."""
WORST_COLOUR = 3.0
"""Times the best from which cells all have the last colour, so that a bad point leaves colours to the good ones."""
MOST_VALUES = 40
"""Values of a field that get a bar of their own."""
COST_NAMES = {
    "l1_bytes": "L1 that the tiling uses (KiB a core)",
    "l0c_bytes": "L0C that the tiling uses (KiB a core)",
    "gm_bytes": "read and written in global memory (MiB, all cores)",
}
COST_UNITS = {"l1_bytes": 2**10, "l0c_bytes": 2**10, "gm_bytes": 2**20}
BEST = style.PHASE_COLOURS["multiply"]
LINE = style.PHASE_COLOURS["load"]
POOR = style.rgb("#b34700")


def write(sweep: Sweep, path: Path, cost: str | None = None) -> None:
    """Draw the picture; ``cost`` is the column of the Pareto view, None the first that varies."""
    varied = [axis for axis in sweep.axes if len(axis.values) > 1] or list(sweep.axes[:1])
    chosen = cost or _varying(sweep)
    tall = HEIGHT if len(varied) < 3 else max(HEIGHT, 240 + 105 * len(varied))
    with figures.figure(WIDTH, tall) as made:
        _title(made, sweep, varied, tall)
        bottom, top = 80 / tall, 1 - 124 / tall
        width = 0.87 if chosen is None else 0.50
        if len(varied) < 3:
            left = 0.075 if len(varied) == 1 and _numbers(varied[0].values) else 0.125
            area = made.add_axes((left, bottom, width + 0.075 - left, top - bottom))
            _one(area, sweep, varied[0]) if len(varied) == 1 else _two(made, area, sweep, varied)
        else:
            _many(made, sweep, varied, (0.16, bottom, width - 0.085, top - bottom))
        if chosen is not None:
            _pareto(made.add_axes((0.70, bottom, 0.28, top - bottom)), sweep, chosen, varied)
        figures.save(made, path)


def _title(made: Figure, sweep: Sweep, varied: Sequence[Axis], tall: int) -> None:
    best, bad = sweep.best, len(sweep.rows) - len(sweep.valid)
    head = f"{sweep.name}: no point of the sweep is valid"
    if best is not None and best.get("cycles") is not None:
        where = ", ".join(f"{axis.name} {text_of(best[axis.name])}" for axis in varied)
        head = f"{sweep.name}: {_amount(sweep, best)} {_unit(sweep)} at best, with {where}"
    made.text(18 / WIDTH, 1 - 30 / tall, shortened(head, style.TITLE, WIDTH - 40), fontsize=style.TITLE, weight="bold")
    parts = [f"{len(sweep.rows):,} points"]
    if bad:
        parts.append(f"{bad:,} of them not valid (the table says why)")
    last = sweep.valid[-1] if sweep.valid else None
    if last is not None and last.get("vs_best"):
        parts.append(f"the slowest takes {last['vs_best']:.2f} times as long as the best")
    made.text(18 / WIDTH, 1 - 56 / tall, "   ·   ".join(parts), fontsize=style.TEXT, color=style.SOFT)


def _varying(sweep: Sweep) -> str | None:
    for cost in COSTS:
        if len({row[cost] for row in sweep.valid if row.get(cost) is not None}) > 1:
            return cost
    return None


def _unit(sweep: Sweep) -> str:
    return "µs" if sweep.metric == "time_us" else "cycles"


def _amount(sweep: Sweep, row: Row) -> str:
    return f"{row[sweep.metric]:,.2f}" if sweep.metric == "time_us" else f"{row['cycles']:,}"


def _numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _sorted(axis: Axis) -> list[Any]:
    return sorted(axis.values, key=order_of)


def _best_at(rows: Sequence[Row], **settings: Any) -> Row | None:
    """The best valid row with these settings: rows come best first."""
    for row in rows:
        if row.get("cycles") is not None and all(row[name] == value for name, value in settings.items()):
            return row
    return None


def _one(area: Axes, sweep: Sweep, axis: Axis) -> None:
    values = _sorted(axis)
    found = [(value, _best_at(sweep.valid, **{axis.name: value})) for value in values]
    if _numbers(values) and len(values) > 2:
        some = [(value, row) for value, row in found if row is not None]
        area.plot([value for value, _ in some], [row[sweep.metric] for _, row in some], "-o", color=LINE, markersize=5)
        for value, row in found:
            if row is None:
                area.axvline(value, color=style.GRID, linewidth=6, zorder=0)
        if sweep.best is not None:
            area.plot([sweep.best[axis.name]], [sweep.best[sweep.metric]], "o", color=BEST, markersize=11, zorder=5)
            area.annotate(
                f"best: {_amount(sweep, sweep.best)}",
                (sweep.best[axis.name], sweep.best[sweep.metric]),
                textcoords="offset points",
                xytext=(0, 12),
                ha="center",
                color=BEST,
                weight="bold",
            )
        area.margins(y=0.15)
        area.grid(axis="y")
        area.set_xlabel(axis.name)
        area.set_ylabel(_unit(sweep))
        figures.thousands(area.yaxis)
    else:
        _bars(area, found, sweep)
        area.set_xlabel(_unit(sweep))
    area.set_title(f"{_unit(sweep)} over {axis.name}", pad=10)


def _bars(area: Axes, found: Sequence[tuple[Any, Row | None]], sweep: Sweep) -> None:
    found = found[:MOST_VALUES]
    longest = max((row[sweep.metric] for _, row in found if row is not None), default=1)
    for place, (_, row) in enumerate(found):
        if row is None:
            area.text(0, place, " not valid", va="center", color=style.WARNING, fontsize=style.SMALL)
            continue
        length = row[sweep.metric]
        least = sweep.best is not None and length == sweep.best[sweep.metric]
        area.barh(place, length, color=BEST if least else LINE, height=0.62)
        inside = length > 0.6 * longest
        area.text(
            length,
            place,
            f" {_amount(sweep, row)} ({row['vs_best']:.2f}x) ",
            va="center",
            ha="right" if inside else "left",
            fontsize=style.SMALL,
            color=style.WHITE if inside else style.INK,
        )
    area.set_yticks(range(len(found)), [shortened(text_of(value), style.SMALL, 190) for value, _ in found])
    area.invert_yaxis()
    area.set_xlim(0, longest * 1.02)
    area.set_ylim(max(len(found), 2) - 0.4, -0.6)
    figures.thousands(area.xaxis)


def _two(made: Figure, area: Axes, sweep: Sweep, varied: Sequence[Axis]) -> None:
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    down, across = varied
    rows, columns = _sorted(down), _sorted(across)
    cells = [[_best_at(sweep.valid, **{down.name: y, across.name: x}) for x in columns] for y in rows]
    ratio = np.array([[row["vs_best"] if row is not None else np.nan for row in line] for line in cells], float)
    good = style.mix(BEST, style.WHITE, 0.25)
    poor = style.mix(POOR, style.WHITE, 0.35)
    scale: Any = LinearSegmentedColormap.from_list("ratio", [good, style.rgb("#f7f3d0"), poor])
    scale = scale.with_extremes(bad=style.BAND)
    worst = max(float(np.nanmax(ratio)) if np.isfinite(ratio).any() else 1.0, 1.05)
    image = area.imshow(ratio, aspect="auto", cmap=scale, vmin=1.0, vmax=min(worst, WORST_COLOUR))
    many = len(rows) * len(columns) > MOST_CELLS
    for y, line in enumerate(cells):
        for x, row in enumerate(line):
            if row is None:
                area.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, hatch="//", edgecolor=style.GRID, lw=0))
            if many:
                continue
            text = "not\nvalid" if row is None else f"{row['vs_best']:.2f}x"
            if row is not None and len(columns) <= 10:
                text = f"{_amount(sweep, row)}\n{text}"
            area.text(
                x,
                y,
                text,
                ha="center",
                va="center",
                fontsize=style.SMALL,
                color=style.SOFT if row is None else style.INK,
            )
    if sweep.best is not None:
        place = (columns.index(sweep.best[across.name]) - 0.5, rows.index(sweep.best[down.name]) - 0.5)
        area.add_patch(Rectangle(place, 1, 1, fill=False, edgecolor=style.INK, linewidth=2.5, zorder=5))
    area.set_xticks(range(len(columns)), [text_of(value) for value in columns])
    area.set_yticks(range(len(rows)), [text_of(value) for value in rows])
    if max(len(text_of(value)) for value in columns) * len(columns) > 90:
        area.tick_params(axis="x", rotation=30)
    area.set_xlabel(across.name)
    area.set_ylabel(down.name)
    area.set_title(f"{_unit(sweep)}, and how many times the best (framed)", pad=10)
    for side in area.spines.values():
        side.set_visible(False)
    area.tick_params(length=0)
    beyond: Any = "max" if worst > WORST_COLOUR else "neither"  # an arrow: the last colour stands for all above it
    bar = made.colorbar(image, ax=area, pad=0.015, fraction=0.03, extend=beyond)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)


def _many(made: Figure, sweep: Sweep, varied: Sequence[Axis], box: tuple[float, float, float, float]) -> None:
    """One small bar chart a field: what is the best that each value can reach."""
    left, bottom, width, height = box
    counts = [min(len(axis.values), MOST_VALUES) + 1.6 for axis in varied]
    unit = height / sum(counts)
    top = bottom + height
    for axis, count in zip(varied, counts, strict=True):
        area = made.add_axes((left, top - (count - 1.0) * unit, width, (count - 1.6) * unit))
        found = [(value, _best_at(sweep.valid, **{axis.name: value})) for value in _sorted(axis)]
        _bars(area, found, sweep)
        area.set_title(f"{axis.name}: fewest {_unit(sweep)} that each value reaches", pad=4)
        area.set_xticks([])
        area.spines["bottom"].set_visible(False)
        area.tick_params(length=0)
        top -= count * unit


def _pareto(area: Axes, sweep: Sweep, cost: str, varied: Sequence[Axis]) -> None:
    rows, unit = sweep.valid, COST_UNITS[cost]
    some = [row for row in rows if row.get(cost) is not None and row.get("cycles") is not None]
    area.scatter(
        [row[cost] / unit for row in some],
        [row[sweep.metric] for row in some],
        s=16,
        color=style.mix(LINE, style.WHITE, 0.5),
        linewidth=0,
    )
    chosen = sorted((some[i] for i in front(some, cost)), key=lambda row: float(row[cost]))
    x, y = [row[cost] / unit for row in chosen], [row[sweep.metric] for row in chosen]
    area.step(x, y, where="post", color=BEST, linewidth=1.5)
    area.plot(x, y, "o", color=BEST, markersize=7)
    for place, row in enumerate(chosen[-6:]):
        text = ", ".join(text_of(row[axis.name]) for axis in varied)
        area.annotate(
            shortened(text, style.SMALL, 200),
            (row[cost] / unit, row[sweep.metric]),
            textcoords="offset points",
            xytext=(-4, -13 if place % 2 else 9),
            ha="right" if row[cost] / unit > sum(x) / len(x) else "left",
            fontsize=style.SMALL - 1,
            color=style.SOFT,
        )
    area.margins(x=0.08, y=0.12)
    area.grid()
    area.set_xlabel(COST_NAMES[cost])
    area.set_ylabel(_unit(sweep))
    figures.thousands(area.yaxis)
    figures.thousands(area.xaxis)
    area.set_title("time against use (green: nothing beats it in both)", pad=10, fontsize=style.TEXT)
