"""The strip under the panels of a long run: how busy every engine was, from the first cycle to the last."""

from __future__ import annotations

import numpy as np

from hwmodel.trace import BUSY, WAIT_INPUT, WAIT_SPACE
from hwmodel.writers import style, view
from hwmodel.writers.axes import round_numbers
from hwmodel.writers.canvas import Canvas
from hwmodel.writers.panels import Layout
from hwmodel.writers.windows import Window

ROW, GAP = 22, 4
MOST_BARS, LEAST_BARS, SLICES_PER_BAR = 240, 48, 4
"""Bars are as many as keep a few slices of the row with the fewest in each, so that they do not beat with tiles."""


def strip_height(layout: Layout) -> float:
    """Height in pixels, without the axis."""
    return len(layout.lanes) * (ROW + GAP)


def draw_strip(layout: Layout, canvas: Canvas, windows: list[Window], left: float, right: float, top: float) -> None:
    """One bar chart a row, busy time below, waits on it; marks where the panels are."""
    trace, arch = layout.trace, layout.result.arch
    fewest = min((len(one.starts) for one in layout.lanes), default=0)
    count = min(max(fewest // SLICES_PER_BAR, LEAST_BARS), MOST_BARS)
    edges = np.unique(np.linspace(0, trace.end, count + 1).astype(np.int64))
    lengths = np.diff(edges)
    x = np.rint(left + edges * (right - left) / max(trace.end, 1))
    bottom = top + strip_height(layout)
    for place, one in enumerate(layout.lanes):
        floor = top + place * (ROW + GAP) + ROW
        canvas.rects(left, right, floor - ROW, floor, style.BAND)
        shares = one.shares(edges)
        base = np.zeros(len(lengths))
        for kind in (BUSY, WAIT_SPACE, WAIT_INPUT):
            peak = np.minimum(base + shares[kind] / lengths * ROW, ROW)  # instructions in flight wait beside busy ones
            low, high = np.rint(floor - base), np.rint(floor - peak)
            some = high < low
            fill = style.PHASE_COLOURS[view.row_phase(arch, one.row)] if kind == BUSY else style.WAITS[kind].fill
            if kind == WAIT_INPUT:
                fill = style.mix(fill, style.INK, 0.08)
            canvas.rects(x[:-1][some], x[1:][some], high[some], low[some], fill)
            base = peak
        core = f"core {one.row.core} " if layout.name_cores else ""
        canvas.text(left - 8, floor - ROW / 2, f"{core}{one.row.engine}", size=style.SMALL, anchor="right")
    for window in windows:
        begin, end = (left + tick * (right - left) / trace.end for tick in (window.start, window.end))
        end = max(end, begin + 2)
        canvas.rects(begin, end, top - 6, bottom + 2, style.INK, alpha=0.15)
        canvas.frame(begin, end, top - 6, bottom + 2, style.INK)
    title = "whole run: share of time busy and waiting (marks: the stretches above)"
    canvas.text((left + right) / 2, top - 18, title, anchor="center", bold=True, colour=style.SOFT)
    canvas.rects(left, right, bottom, bottom + 1, style.INK)
    cycles = trace.end / trace.ticks_per_cycle
    for number in round_numbers(0, cycles, int((right - left) / 130), whole=True):
        at = left + number * (right - left) / cycles
        canvas.rects(at, at + 1, bottom, bottom + 5, style.INK)
        canvas.text(at, bottom + 14, f"{number:,.0f}", size=style.SMALL, anchor="center")
    canvas.text(left - 8, bottom + 14, "cycles", size=style.SMALL, anchor="right")
