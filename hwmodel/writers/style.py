"""Look of all pictures: colours fixed by phase and kind, sizes of text. Okabe-Ito colours, safe for the colour-blind.

Busy time is a solid colour, by phase. The two waits differ in tint, in the direction of their hatching, and in how
dark it is, so they stay apart in black and white as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hwmodel.trace import WAIT_INPUT, WAIT_SPACE

Colour = tuple[float, float, float]


def rgb(code: str) -> Colour:
    """Red, green, blue from 0 to 1 for ``#rrggbb``."""
    red, green, blue = (int(code[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def mix(colour: Colour, other: Colour, share: float) -> Colour:
    """``share`` of ``other`` in ``colour``."""
    red, green, blue = (a + (b - a) * share for a, b in zip(colour, other, strict=True))
    return red, green, blue


WHITE: Colour = (1.0, 1.0, 1.0)
INK = rgb("#1a1a1a")
SOFT = rgb("#5f5f5f")
GRID = rgb("#d9d9d9")
BAND = rgb("#f3f3f3")
WARNING = rgb("#b34700")

PHASE_COLOURS: dict[str, Colour] = {
    "load": rgb("#0072B2"),
    "extract": rgb("#56B4E9"),
    "multiply": rgb("#009E73"),
    "drain": rgb("#E69F00"),
    "store": rgb("#CC79A7"),
}
"""By phase of `hwmodel.writers.view`."""

INK_ON: dict[str, Colour] = {"load": WHITE, "extract": INK, "multiply": WHITE, "drain": INK, "store": INK}
"""Colour of text on the phase's colour."""


class WaitLook(NamedTuple):
    """How a kind of wait is drawn."""

    label: str
    fill: Colour
    line: Colour
    hatch: str


WAITS: dict[str, WaitLook] = {
    WAIT_INPUT: WaitLook("waits for input", rgb("#ececec"), rgb("#9a9a9a"), "/"),
    WAIT_SPACE: WaitLook("waits for space", rgb("#fbe3d6"), rgb("#D55E00"), "\\"),
}

TITLE, TEXT, SMALL = 13.0, 9.5, 8.0
"""Sizes of text, in points."""

RENDERER: Any = {"hatch.linewidth": 0.7, "text.hinting": "default", "path.snap": True}
"""Settings of matplotlib's renderer, whatever the user's own are."""


def shade(phase: str, alternate: bool) -> Colour:
    """Colour of a phase; neighbouring tiles alternate between two shades of it."""
    colour = PHASE_COLOURS[phase]
    return mix(colour, WHITE, 0.28) if alternate else colour


def ink_on(phase: str, alternate: bool) -> Colour:
    """Colour of text on a shade of a phase: dark on the lighter one."""
    return INK if alternate else INK_ON[phase]
