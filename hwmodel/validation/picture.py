"""Measured against modelled, as a picture: time on the left, error of each row on the right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hwmodel.validation.compare import Row, Validation

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's colours: a machine each, told apart by colour-blind readers too."""
MARKERS = "osD^vP"
BAND_PERCENT = 5.0
INK, FAINT = "#222222", "#8A8A8A"


def draw(found: Validation, path: Path) -> None:
    """Write the picture as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [row for row in found.rows if row.modelled_ms is not None]
    machines = list(dict.fromkeys(row.measurement.arch for row in rows))
    figure = Figure(figsize=(12.5, 1.9 + 0.34 * max(8, len(rows))), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    times, errors = figure.subplots(1, 2, width_ratios=(1, 1.25))
    figure.subplots_adjust(left=0.07, right=0.975, top=0.84, bottom=0.12, wspace=0.55)
    _times(times, rows, machines)
    _errors(errors, rows, machines)
    parts = [f"{machine.arch} {machine.mape_percent:.1f} %" for machine in found.machines]
    figure.text(0.07, 0.945, "How far from silicon", fontsize=15, fontweight="bold", color=INK)
    summary = f"mean absolute error of time: {',  '.join(parts)}"
    figure.text(0.07, 0.895, summary, fontsize=10.5, color=FAINT)
    figure.savefig(path, metadata={"Software": None})


def _style(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=INK, labelsize=9)


def _times(axes: Any, rows: list[Row], machines: list[str]) -> None:
    low = 0.6 * min(row.measurement.time_ms for row in rows)
    high = 1.7 * max(row.measurement.time_ms for row in rows)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    axes.plot((low, high), (low, high), color=FAINT, linewidth=1, zorder=1)
    for index, machine in enumerate(machines):
        own = [row for row in rows if row.measurement.arch == machine]
        axes.scatter(
            [row.measurement.time_ms for row in own],
            [row.modelled_ms for row in own],
            s=52, color=COLORS[index % 6], marker=MARKERS[index % 6], edgecolor="white", linewidth=0.6,
            label=machine, zorder=3,
        )  # fmt: skip
    axes.set_xlabel("measured (ms)", color=INK)
    axes.set_ylabel("modelled (ms)", color=INK)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    axes.set_aspect("equal")
    _style(axes)


def _errors(axes: Any, rows: list[Row], machines: list[str]) -> None:
    errors = [row.error_percent or 0.0 for row in rows]
    most = max(BAND_PERCENT * 1.25, *(abs(error) * 1.3 for error in errors))
    axes.axvspan(-BAND_PERCENT, BAND_PERCENT, color="#F0F0F0", zorder=0)
    axes.axvline(0, color=FAINT, linewidth=1, zorder=1)
    for index, (row, error) in enumerate(zip(rows, errors, strict=True)):
        color = COLORS[machines.index(row.measurement.arch) % 6]
        axes.barh(index, error, height=0.62, color=color, zorder=2)
        side = 1 if error >= 0 else -1
        axes.text(
            error + side * 0.02 * most, index, f"{error:+.1f} %",
            ha="left" if side > 0 else "right", va="center", fontsize=8.5, color=INK,
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [row.measurement.id for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(-most, most)
    band = f"error of the modelled time (per cent; band: {BAND_PERCENT:g} per cent)"
    axes.set_xlabel(band, color=INK)
    _style(axes)
