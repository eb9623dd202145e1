"""Time axes: cycles below, microseconds above, with round numbers on both."""

from __future__ import annotations

from math import ceil, floor, log10

from hwmodel.arch import Arch
from hwmodel.trace import Trace
from hwmodel.writers import style
from hwmodel.writers.canvas import Canvas
from hwmodel.writers.windows import Window

STEPS = (1, 2, 5, 10)
PER_NUMBER = 88
"""Pixels that a number on an axis takes."""


def round_numbers(low: float, high: float, most: int, *, whole: bool = False) -> list[float]:
    """Multiples of a round step from ``low`` to ``high``, at most ``most`` steps."""
    span = high - low
    if span <= 0 or most < 1:
        return []
    power = 10.0 ** floor(log10(span / most))
    step = next(step * power for step in STEPS if step * power >= span / most * 0.999)
    step = max(step, 1.0) if whole else step
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def decimals(numbers: list[float]) -> int:
    """Digits after the point that tell the numbers apart."""
    if len(numbers) < 2:
        return 1
    return max(0, -floor(log10(numbers[1] - numbers[0]) + 1e-9))


def draw_axis(
    canvas: Canvas,
    arch: Arch,
    trace: Trace,
    window: Window,
    sides: tuple[float, float],
    top: float,
    bottom: float,
    named: bool,
) -> None:
    """Grid lines and numbers of one panel; ``named`` writes the units at its left."""
    left, right = sides
    low, high = window.start / trace.ticks_per_cycle, window.end / trace.ticks_per_cycle
    mhz = float(arch.spec.clock_mhz)
    most = max(2, int((right - left) / PER_NUMBER))
    canvas.rects(left, right, bottom - 1, bottom, style.INK)
    canvas.rects(left, right, top, top + 1, style.GRID)
    for scale, edge, outwards, colour in ((1.0, bottom, 1, style.INK), (1 / mhz, top, -1, style.SOFT)):
        numbers = round_numbers(low * scale, high * scale, most, whole=scale == 1)
        digits = 0 if scale == 1 else decimals(numbers)
        for number in numbers:
            x = left + (number / scale - low) * (right - left) / (high - low)
            if scale == 1:
                canvas.rects(x, x + 1, top, bottom, style.GRID)
            canvas.rects(x, x + 1, min(edge, edge + outwards * 5), max(edge, edge + outwards * 5), colour)
            text = f"{number:,.{digits}f}"
            canvas.text(x, edge + outwards * 14, text, size=style.SMALL, colour=colour, anchor="center")
    if named:
        canvas.text(left - 8, bottom + 1, "cycles", size=style.SMALL, anchor="right")
        canvas.text(left - 8, top - 1, "µs", size=style.SMALL, colour=style.SOFT, anchor="right")
