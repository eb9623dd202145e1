"""Charts with axes, in the look of the other pictures: set up once, the same bytes for the same data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwmodel.writers import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 100
SETTINGS: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": style.TEXT,
    "axes.edgecolor": style.SOFT,
    "axes.labelcolor": style.INK,
    "axes.labelsize": style.TEXT,
    "axes.titlesize": style.TEXT + 1,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": style.GRID,
    "xtick.color": style.INK,
    "ytick.color": style.INK,
    "xtick.labelsize": style.SMALL,
    "ytick.labelsize": style.SMALL,
    "text.color": style.INK,
    "hatch.linewidth": 0.7,
}


@contextmanager
def figure(width: int, height: int) -> Iterator[Figure]:
    """An empty figure of so many pixels, with our settings whatever the user's are."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        for name, value in SETTINGS.items():
            mpl.rcParams[name] = value  # type: ignore[index]
        made = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
        FigureCanvasAgg(made)
        yield made


def save(made: Figure, path: Path) -> None:
    """Write as PNG or SVG, after the suffix, without dates."""
    if path.suffix == ".svg":
        made.savefig(path, format="svg", metadata={"Date": None})
    else:
        made.savefig(path, format="png", metadata={"Software": None})


def thousands(axis: Any) -> None:
    """Numbers on an axis with thousands separated."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:,.0f}"))


def note(axes: Axes, text: str) -> None:
    """A text in place of a chart that has nothing to show."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", color=style.SOFT, transform=axes.transAxes)
