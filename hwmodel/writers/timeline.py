"""timeline.png and timeline.svg: one row an engine, what the buffers hold, and why engines wait.

A short run is drawn whole; of a long one the beginning, a steady-state stretch and the end are drawn at one scale, and
a strip below shows how busy every engine was over the whole run.
"""

from __future__ import annotations

from pathlib import Path

from hwmodel.analysis.occupancy import Track
from hwmodel.result import Result
from hwmodel.trace import WAIT_INPUT, WAIT_SPACE, Trace
from hwmodel.writers import style, view
from hwmodel.writers.canvas import Canvas, pixels, shortened
from hwmodel.writers.facts import whole_percent
from hwmodel.writers.lanes import Lane, lane
from hwmodel.writers.names import Scale, lane_names, levels
from hwmodel.writers.panels import Layout, Panel, lane_height
from hwmodel.writers.strip import draw_strip, strip_height
from hwmodel.writers.windows import Window, choose

WIDTH = 1400
LEFT, RIGHT, GAP = 104, 98, 34
"""Margins and the gap between panels, in pixels."""
HEAD, AXIS, LEGEND = 72, 40, 56
"""Heights of the title, of an axis with its numbers, and of the legend."""
EDGE = 18
ALWAYS = ("l0c", "psum", "sbuf")
"""The accumulators, and the memory that all engines of a NeuronCore share."""
USEFUL_SHARE = 0.2
"""A buffer other than these is drawn where it is reused and once holds this share of its capacity."""


def write(result: Result, path: Path) -> None:
    """Write the picture as PNG."""
    draw(result).png(path)


def write_svg(result: Result, path: Path) -> None:
    """Write the picture as SVG; tooltips say what each slice is."""
    draw(result).svg(path)


def draw(result: Result) -> Canvas:
    """The picture."""
    trace = result.trace
    assert trace is not None
    rows = view.pipeline(result.arch, trace.rows)
    cores = list(dict.fromkeys(row.core for row in rows))
    shown = cores if len(cores) <= 2 else cores[:1]
    items: list[Lane | Track] = []
    for core in shown:
        items += [lane(row) for row in rows if row.core == core]
        items += [track for track in view.tracks(result) if track.core == core and _useful(track)]
    name_cores = len(shown) > 1
    margin = LEFT + 50 if name_cores else LEFT
    bound = result.stats.bound if result.stats is not None else ""
    windows = choose([one for one in items if isinstance(one, Lane) and one.row.core == shown[0]], trace.end, bound)
    long = len(windows) > 1
    bands = () if long else _bands(items, Scale(windows[0], margin, WIDTH - RIGHT))
    layout = Layout(result, items, name_cores, not long, bands)
    launch = f"{view.cycle(trace, windows[0].start):,} cycles of launch not drawn" if windows[0].start else ""

    head = HEAD + (22 if result.question else 0) + (20 if long or launch else 0)
    body_top = head + AXIS
    body_bottom = body_top + layout.height
    strip_top = body_bottom + AXIS + 34
    height = (strip_top + strip_height(layout) if long else body_bottom) + AXIS + LEGEND
    canvas = Canvas(WIDTH, round(height))
    width = (WIDTH - margin - RIGHT - GAP * (len(windows) - 1)) / len(windows)
    for place, window in enumerate(windows):
        left = margin + place * (width + GAP)
        panel = Panel(layout, canvas, window, left, left + width, body_top)
        panel.draw(first=place == 0, last=place == len(windows) - 1)
        name = ": ".join(part for part in (window.name, _period(trace, window), "" if place else launch) if part)
        canvas.text(left + width / 2, body_top - AXIS - 6, name, anchor="center", bold=True, colour=style.SOFT)
        if place:
            skipped = view.cycle(trace, window.start - windows[place - 1].end)
            text = f"···   {skipped:,} cycles not drawn   ···"
            middle = (body_top + body_bottom) / 2
            canvas.text(left - GAP / 2, middle, text, size=style.SMALL, colour=style.SOFT, anchor="center", angle=90)
    if long:
        draw_strip(layout, canvas, windows, margin, WIDTH - RIGHT, strip_top)
    _title(result, canvas, shown, len(cores))
    _legend(layout, canvas)
    return canvas


def _period(trace: Trace, window: Window) -> str:
    scale = trace.ticks_per_cycle
    if window.period is not None:
        return f"the bar is one period, {(window.period[1] - window.period[0]) / scale:,.0f} cycles"
    return f"part of a period of {window.part_of / scale:,.0f} cycles" if window.part_of else ""


def _bands(items: list[Lane | Track], scale: Scale) -> tuple[int, ...]:
    """Levels of names that stand above each row."""
    return tuple(
        levels(lane_names(item, scale, lane_height(item), whole=True)) if isinstance(item, Lane) else 0
        for item in items
    )


def _useful(track: Track) -> bool:
    if track.buffer in ALWAYS:
        return True
    return track.reused and track.peak_bytes >= USEFUL_SHARE * track.capacity_bytes and not track.buffer.endswith("_mx")


def _title(result: Result, canvas: Canvas, shown: list[int], cores: int) -> None:
    stats = result.stats
    assert stats is not None
    limit = f", limited by {stats.bound}" if stats.bound and stats.cycles else ""
    head = f"{result.name} on {result.arch.name}: {stats.cycles:,} cycles ({stats.time_us:,.3f} µs){limit}"
    canvas.text(EDGE, 28, shortened(head, style.TITLE, WIDTH - 230), size=style.TITLE, bold=True)
    if not result.arch.calibrated:
        text = "timing not calibrated"
        canvas.text(WIDTH - EDGE, 28, text, colour=style.WARNING, anchor="right", bold=True)
    verdict = {"bit_exact": "values bit-exact", "mismatch": "VALUES DIFFER", "skipped": "values skipped"}
    parts = [view.problem_text(result), verdict.get(result.values.status, "")]
    if cores > len(shown):
        parts.append(f"core {shown[0]} of {cores} simulated")
    elif stats.cores > cores:
        parts.append(f"one of {stats.cores} equal cores")
    line = "   ·   ".join(part for part in [*parts, view.tiling_text(result)] if part)
    canvas.text(EDGE, 53, shortened(line, style.TEXT, WIDTH - 2 * EDGE), colour=style.SOFT)
    if result.question:
        canvas.text(EDGE, 75, shortened(result.question, style.TEXT, WIDTH - 2 * EDGE), colour=style.SOFT)


def _legend(layout: Layout, canvas: Canvas) -> None:
    x, y = float(EDGE), canvas.height - LEGEND + 20
    looks = [(phase, style.PHASE_COLOURS[phase], "", style.INK) for phase in layout.phases]
    looks += [
        (look.label, look.fill, look.hatch, look.line) for look in (style.WAITS[k] for k in (WAIT_INPUT, WAIT_SPACE))
    ]
    looks.append(("idle", style.BAND, "", style.INK))
    for label, fill, hatch, line in looks:
        canvas.rects(x, x + 26, y - 7, y + 7, fill, hatch=hatch, line=line)
        if label == "idle":
            canvas.frame(x, x + 26, y - 7, y + 7, style.GRID)
        canvas.text(x + 33, y, label)
        x += 33 + 0.62 * pixels(style.TEXT) * len(label) + 24
    if len(layout.items) > len(layout.lanes):
        note = "buffers: each tile at its address, from its first write to its last read"
        canvas.text(WIDTH - EDGE, y, note, size=style.SMALL, colour=style.SOFT, anchor="right")
    seen = {item.buffer for item in layout.items if isinstance(item, Track)}
    core = layout.lanes[0].row.core if layout.lanes else -1
    rest = [track for track in view.tracks(layout.result) if track.core == core and track.buffer not in seen]
    if rest:
        peaks = ", ".join(f"{t.buffer.upper()} {whole_percent(t.peak_bytes, t.capacity_bytes)}" for t in rest)
        note = f"buffers not drawn (little used, never reused, or scales), with their peaks: {peaks}"
        canvas.text(WIDTH - EDGE, y + 19, note, size=style.SMALL, colour=style.SOFT, anchor="right")
