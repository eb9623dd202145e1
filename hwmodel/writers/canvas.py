"""A drawing of rectangles and text in pixels: what pictures are made of.

PNG goes through matplotlib's Agg renderer directly, without figures and axes: that halves the time, and pictures are
part of every run. SVG is written as it is, with real text and a tooltip for each rectangle that has a title. Both give
the same bytes for the same drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from xml.sax.saxutils import escape

import numpy as np
import numpy.typing as npt

from hwmodel.writers import style
from hwmodel.writers.style import Colour

Anchor = Literal["left", "center", "right"]
Pixels = npt.ArrayLike
DPI = 100
WIDTH_OF_EM = 0.6
"""Mean advance of a character, of the font size; for deciding whether a text fits."""
_ADVANCES = {"m": 0.98, "w": 0.82, "M": 0.87, "W": 0.99, " ": 0.32, "l": 0.28, "i": 0.28, "t": 0.4, "r": 0.42, "_": 0.5}
"""Advances that are far from those of most characters of DejaVu Sans."""


@dataclass(frozen=True)
class Rects:
    """Rectangles of one look: [n, 4] whole pixels, left, top, right, bottom."""

    corners: npt.NDArray[np.int64]
    fill: Colour
    hatch: str
    line: Colour
    alpha: float
    titles: Sequence[str]


class Text(NamedTuple):
    """A line of text. ``y`` is the middle of its capital letters; ``angle`` 0, or 90 for upwards."""

    x: float
    y: float
    text: str
    size: float
    colour: Colour
    anchor: Anchor
    bold: bool
    angle: int
    boxed: bool


class Canvas:
    """A drawing, ``width`` x ``height`` pixels, y downwards."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.shapes: list[Rects | Text] = []

    def rects(
        self,
        left: Pixels,
        right: Pixels,
        top: Pixels,
        bottom: Pixels,
        fill: Colour,
        *,
        hatch: str = "",
        line: Colour = style.INK,
        alpha: float = 1.0,
        titles: Sequence[str] = (),
    ) -> None:
        """Filled rectangles, cut to whole pixels and at least one wide and high. ``hatch``: ``/`` or ``\\``."""
        edges = [np.rint(np.asarray(edge, np.float64)).astype(np.int64) for edge in (left, top, right, bottom)]
        edges[2] = np.maximum(edges[2], edges[0] + 1)
        edges[3] = np.maximum(edges[3], edges[1] + 1)
        corners = np.stack(np.broadcast_arrays(*(np.atleast_1d(edge) for edge in edges)), axis=1)
        if len(corners):
            self.shapes.append(Rects(corners, fill, hatch, line, alpha, titles))

    def frame(self, left: float, right: float, top: float, bottom: float, colour: Colour) -> None:
        """Outline of a rectangle, one pixel wide."""
        lefts, rights = np.array([left, left, left, right - 1]), np.array([right, right, left + 1, right])
        tops, bottoms = np.array([top, bottom - 1, top, top]), np.array([top + 1, bottom, bottom, bottom])
        self.rects(lefts, rights, tops, bottoms, colour)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = style.TEXT,
        colour: Colour = style.INK,
        anchor: Anchor = "left",
        bold: bool = False,
        angle: int = 0,
        boxed: bool = False,
    ) -> None:
        """A line of text at ``size`` points; ``boxed`` on a white ground."""
        self.shapes.append(Text(x, y, text, size, colour, anchor, bold, angle, boxed))

    def png(self, path: Path) -> None:
        """Write as PNG."""
        import matplotlib as mpl
        from PIL import Image

        with mpl.rc_context(style.RENDERER):
            renderer = _Agg(self.width, self.height)
            for shape in self.shapes:
                renderer.draw(shape)
        picture = Image.frombuffer("RGBA", (self.width, self.height), renderer.pixels(), "raw", "RGBA", 0, 1)
        picture.convert("RGB").save(path, "PNG", compress_level=3)

    def svg(self, path: Path) -> None:
        """Write as SVG."""
        path.write_text("\n".join(_svg(self)) + "\n", encoding="utf-8", newline="\n")


def pixels(size: float) -> float:
    """Pixels of a size in points."""
    return size * DPI / 72


def width(text: str, size: float) -> float:
    """Pixels that a text at ``size`` points is wide, about."""
    return len(text) * WIDTH_OF_EM * pixels(size)


def advance(text: str, size: float) -> float:
    """Pixels that a text at ``size`` points is wide, from the widths of its characters."""
    return sum(_ADVANCES.get(character, 0.64) for character in text) * pixels(size)


def fits(text: str, size: float, room: float) -> bool:
    """Whether a text at ``size`` points fits ``room`` pixels, about."""
    return width(text, size) + 6 <= room


def shortened(text: str, size: float, room: float) -> str:
    """As much of a text at ``size`` points as fits ``room`` pixels, about."""
    most = int((room - 6) / (WIDTH_OF_EM * pixels(size)))
    return text if len(text) <= most else text[: max(most - 1, 0)].rstrip(" ,") + "…"


class _Agg:
    """Draws shapes with matplotlib's renderer and its own fonts, whatever the user's settings are."""

    def __init__(self, width: int, height: int) -> None:
        import matplotlib as mpl
        from matplotlib.backends import backend_agg
        from matplotlib.font_manager import FontProperties
        from matplotlib.path import Path as Outline
        from matplotlib.transforms import Affine2D

        agg: Any = backend_agg
        self.renderer = agg.RendererAgg(width, height, DPI)
        self.outline: Any = Outline
        self.properties: Any = FontProperties
        self.flip = Affine2D().scale(1, -1).translate(0, height)
        self.fonts = Path(mpl.get_data_path()) / "fonts" / "ttf"
        self._known: dict[tuple[float, bool], Any] = {}
        self._fill(np.array([[0, 0, width, height]]), style.WHITE)

    def pixels(self) -> Any:
        """The picture, RGBA."""
        return self.renderer.buffer_rgba()

    def draw(self, shape: Rects | Text) -> None:
        """Draw one shape."""
        if isinstance(shape, Rects):
            self._fill(shape.corners, shape.fill, shape.hatch, shape.line, shape.alpha)
        else:
            self._text(shape)

    def _fill(
        self,
        corners: npt.NDArray[np.int64],
        fill: Colour,
        hatch: str = "",
        line: Colour = style.INK,
        alpha: float = 1.0,
    ) -> None:
        points = corners[:, [0, 1, 2, 1, 2, 3, 0, 3, 0, 1]].reshape(-1, 2)
        closed = self.outline
        codes = np.tile([closed.MOVETO, closed.LINETO, closed.LINETO, closed.LINETO, closed.CLOSEPOLY], len(corners))
        pen = self.renderer.new_gc()
        pen.set_linewidth(0)
        pen.set_antialiased(False)
        pen.set_alpha(alpha)
        if hatch:
            pen.set_hatch(hatch * 3)
            pen.set_hatch_color((*line, 1.0))
        self.renderer.draw_path(pen, closed(points, codes), self.flip, (*fill, alpha))
        pen.restore()

    def _text(self, shape: Text) -> None:
        key = (shape.size, shape.bold)
        font = self._known.get(key)
        if font is None:
            name = "DejaVuSans-Bold.ttf" if shape.bold else "DejaVuSans.ttf"
            font = self._known[key] = self.properties(fname=str(self.fonts / name), size=shape.size)
        width = 0.0
        if shape.anchor != "left" or shape.boxed:
            width = self.renderer.get_text_width_height_descent(shape.text, font, False)[0]
        back = {"left": 0.0, "center": width / 2, "right": width}[shape.anchor]
        drop = 0.365 * pixels(shape.size)
        x, y = (shape.x + drop, shape.y + back) if shape.angle else (shape.x - back, shape.y + drop)
        if shape.boxed:
            high = 0.75 * pixels(shape.size)
            ground = np.rint([[x - 3, shape.y - high, x + width + 3, shape.y + high]]).astype(np.int64)
            self._fill(ground, style.WHITE, alpha=0.85)
        pen = self.renderer.new_gc()
        pen.set_foreground(shape.colour)
        pen.set_antialiased(True)
        self.renderer.draw_text(pen, round(x), round(y), shape.text, font, shape.angle)
        pen.restore()


def _hex(colour: Colour) -> str:
    return "#" + "".join(f"{round(part * 255):02x}" for part in colour)


def _svg(canvas: Canvas) -> list[str]:
    hatches: dict[tuple[str, Colour, Colour], str] = {}
    body: list[str] = []
    for shape in canvas.shapes:
        if isinstance(shape, Text):
            body.append(_svg_text(shape))
            continue
        paint = _hex(shape.fill)
        if shape.hatch:
            key = (shape.hatch, shape.fill, shape.line)
            paint = f"url(#{hatches.setdefault(key, f'hatch{len(hatches)}')})"
        fade = f' fill-opacity="{shape.alpha:g}"' if shape.alpha < 1 else ""
        body.append(f'<g fill="{paint}"{fade}>')
        for place, (left, top, right, bottom) in enumerate(shape.corners.tolist()):
            box = f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}"'
            if place < len(shape.titles):
                body.append(f"{box}><title>{escape(shape.titles[place])}</title></rect>")
            else:
                body.append(f"{box}/>")
        body.append("</g>")
    size = f'width="{canvas.width}" height="{canvas.height}" viewBox="0 0 {canvas.width} {canvas.height}"'
    head = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="DejaVu Sans, Verdana, sans-serif">',
        "<defs>",
    ]
    for (hatch, fill, line), name in hatches.items():
        stroke = "M-2,2 l4,-4 M0,10 l10,-10 M8,12 l4,-4" if hatch == "/" else "M-2,8 l4,4 M0,0 l10,10 M8,-2 l4,4"
        head.append(
            f'<pattern id="{name}" width="10" height="10" patternUnits="userSpaceOnUse">'
            f'<rect width="10" height="10" fill="{_hex(fill)}"/><path d="{stroke}" stroke="{_hex(line)}"/></pattern>'
        )
    white = f'<rect width="{canvas.width}" height="{canvas.height}" fill="#ffffff"/>'
    return [*head, "</defs>", white, *body, "</svg>"]


def _svg_text(shape: Text) -> str:
    anchor = {"left": "start", "center": "middle", "right": "end"}[shape.anchor]
    drop = 0.365 * pixels(shape.size)
    x, y = (shape.x + drop, shape.y) if shape.angle else (shape.x, shape.y + drop)
    extra = ' font-weight="bold"' if shape.bold else ""
    extra += f' transform="rotate(-90 {x:.1f} {y:.1f})"' if shape.angle else ""
    extra += ' stroke="#ffffff" stroke-width="4" stroke-opacity="0.85" paint-order="stroke"' if shape.boxed else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{pixels(shape.size):.1f}" fill="{_hex(shape.colour)}" '
        f'text-anchor="{anchor}"{extra} pointer-events="none">{escape(shape.text)}</text>'
    )
