"""compare.png and compare.md: runs side by side, on one time axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hwmodel.analysis.flow import Ticks
from hwmodel.study.compare import Comparison
from hwmodel.study.entry import Entry, Lane, Shape
from hwmodel.writers import style
from hwmodel.writers.axes import round_numbers
from hwmodel.writers.canvas import Canvas, pixels, shortened
from hwmodel.writers.lanes import covered
from hwmodel.writers.style import Colour
from hwmodel.writers.view import PHASES, size_text

WIDTH = 1400
EDGE, LEFT, RIGHT = 18, 104, 176
ROW, GAP, BLOCK = 22, 4, 40
"""Height of a lane, space between lanes, and head of a run's block, in pixels."""
BAR, BARS_HEAD = 26, 34
MOST_DRAWN = 10
Table = tuple[list[str], list[list[str]]]
"""Header and rows; the first column names the run."""
FEW_SLICES = 240
"""Lanes with more slices are drawn as shares of time."""
BEST, BASE, OTHER = style.PHASE_COLOURS["multiply"], style.rgb("#8a8a8a"), style.PHASE_COLOURS["load"]


def write(found: Comparison, path: Path) -> None:
    """The picture, as PNG or SVG after the suffix."""
    canvas = draw(found)
    if path.suffix == ".svg":
        canvas.svg(path)
    else:
        canvas.png(path)


def draw(found: Comparison) -> Canvas:
    """Bars of what the runs take, and their timelines on a common axis."""
    drawn = [entry for entry in found.entries if entry.shape is not None and entry.shape.end][:MOST_DRAWN]
    bars = BARS_HEAD + len(found.entries) * BAR
    blocks = sum(BLOCK + len(_shape(entry).lanes) * (ROW + GAP) for entry in drawn)
    head = 84
    canvas = Canvas(WIDTH, round(head + bars + 46 + blocks + (86 if drawn else 0)))
    _title(found, canvas)
    _bars(found, canvas, head)
    if drawn:
        top = head + bars + 46
        _timelines(found, canvas, drawn, top)
        _legend(canvas, drawn, canvas.height - 22)
    return canvas


def _shape(entry: Entry) -> Shape:
    assert entry.shape is not None
    return entry.shape


def _title(found: Comparison, canvas: Canvas) -> None:
    base = found.base
    ratios = {entry.label: found.ratio(entry) for entry in found.entries[1:]}
    known = {label: ratio for label, ratio in ratios.items() if ratio is not None}
    head = f"{base.label}: the baseline, alone"
    if known:
        label = min(known, key=lambda name: known[name])
        ratio = known[label]
        if ratio < 1:
            head = f"{label} is the fastest: {1 / ratio:.2f} times as fast as the baseline, {base.label}"
        elif ratio == 1:
            head = f"{label} takes exactly as long as the baseline, {base.label}"
        else:
            head = f"The baseline, {base.label}, is the fastest; next is {label}, {ratio:.2f} times as long"
    canvas.text(EDGE, 28, shortened(head, style.TITLE, WIDTH - 40), size=style.TITLE, bold=True)
    changes = next((text for text in (found.change(entry) for entry in found.entries[1:]) if text), "")
    if len(found.entries) == 2 and changes:
        canvas.text(EDGE, 54, shortened(changes, style.TEXT, WIDTH - 40), colour=style.SOFT)
    elif len(found.entries) > 2:
        canvas.text(EDGE, 54, f"{len(found.entries)} runs; grey is the baseline, green the fastest", colour=style.SOFT)


def _bars(found: Comparison, canvas: Canvas, top: float) -> None:
    """Three groups of bars: time, traffic, and how busy the multiplying unit was."""
    names = 330
    group = (WIDTH - EDGE - names - EDGE) / 3
    clock = "cycles" if found.one_clock else "time (µs)"
    groups: list[tuple[str, Callable[[Entry], float | None], Callable[[Entry, float], str]]] = [
        (clock, lambda e: e.cycles if found.one_clock else e.time_us, lambda e, v: _time(found, e, v)),
        (f"read and written in {_memory(found)}", _traffic, lambda _e, v: size_text(v)),
        ("multiply-adds, of the cores' peak", _peak, lambda _e, v: f"{100 * v:.1f} %"),
    ]
    times = {entry.label: found.ratio(entry) or 1.0 for entry in found.entries}
    least = min(times.values())
    for place, entry in enumerate(found.entries):
        y = top + BARS_HEAD + place * BAR + BAR / 2
        name = shortened(entry.label, style.TEXT, names)
        canvas.text(EDGE, y, name, bold=entry is found.base)
    for number, (title, value_of, text_of) in enumerate(groups):
        left = EDGE + names + number * group
        canvas.text(left, top + 12, title, bold=True, colour=style.SOFT)
        values = [value_of(entry) for entry in found.entries]
        longest = max((value for value in values if value is not None), default=0) or 1
        longest = 1.0 if number == 2 else longest
        room = group - 150
        for place, (entry, value) in enumerate(zip(found.entries, values, strict=True)):
            y = top + BARS_HEAD + place * BAR
            if value is None:
                canvas.text(left, y + BAR / 2, "no timing", size=style.SMALL, colour=style.SOFT)
                continue
            fill = BEST if times[entry.label] == least and number == 0 and len(times) > 1 else OTHER
            fill = BASE if entry is found.base and fill is OTHER else fill
            fill = style.mix(fill, style.WHITE, 0.35) if number else fill
            canvas.rects(left, left + room * value / longest, y + 4, y + BAR - 4, fill)
            canvas.text(left + room * value / longest + 6, y + BAR / 2, text_of(entry, value), size=style.SMALL)


def _time(found: Comparison, entry: Entry, value: float) -> str:
    amount = f"{value:,.0f}" if found.one_clock else f"{value:,.2f}"
    ratio = found.ratio(entry)
    return amount if entry is found.base or ratio is None else f"{amount}  ({ratio:.3f}x)"


def _traffic(entry: Entry) -> float:
    traffic = entry.document["traffic"]
    return float(traffic["gm_read_bytes"] + traffic["gm_write_bytes"])


def _peak(entry: Entry) -> float | None:
    return float(entry.document["work"]["peak_fraction"]) if entry.cycles else None


def _timelines(found: Comparison, canvas: Canvas, drawn: Sequence[Entry], top: float) -> None:
    left, right = LEFT, WIDTH - RIGHT
    lengths = {entry.label: _length(found, entry) for entry in drawn}
    longest = max(lengths.values())
    bottom = top + sum(BLOCK + len(_shape(entry).lanes) * (ROW + GAP) for entry in drawn)
    unit = "cycles" if found.one_clock else "µs"
    decimals = 0 if longest >= 20 else 2
    for number in round_numbers(0, longest, 10, whole=found.one_clock):
        x = left + number * (right - left) / longest
        canvas.rects(x, x + 1, top, bottom + 5, style.GRID)
        canvas.text(x, bottom + 16, f"{number:,.{decimals}f}", size=style.SMALL, anchor="center")
    canvas.rects(left, right, bottom, bottom + 1, style.INK)
    canvas.text(left - 24, bottom + 16, unit, size=style.SMALL, anchor="right")
    y = top
    for entry in drawn:
        end = left + lengths[entry.label] * (right - left) / longest
        y = _block(found, canvas, entry, left, end, y)
    canvas.text(right + 10, top - 10, "share of the run", size=style.SMALL, colour=style.SOFT)


def _length(found: Comparison, entry: Entry) -> float:
    shape = _shape(entry)
    cycles = shape.end / shape.ticks_per_cycle
    return cycles if found.one_clock or not entry.cycles else cycles * (entry.time_us or 0) / entry.cycles


def _block(found: Comparison, canvas: Canvas, entry: Entry, left: float, end: float, top: float) -> float:
    """One run: its name, a lane for each engine, and where it ends. Returns the bottom."""
    shape = _shape(entry)
    limit = entry.document["bound"]
    ratio = found.ratio(entry)
    times = "  baseline" if entry is found.base else f"  {ratio:.3f} x the baseline" if ratio is not None else ""
    y = top + BLOCK - 12
    canvas.text(left, y, shortened(entry.label, style.TEXT, 520), bold=True, boxed=True)
    width = 0.66 * pixels(style.TEXT) * min(len(entry.label), 60)
    text = f"{entry.cycles or 0:,} cycles{times}, limited by {limit}"
    canvas.text(left + width + 14, y, text, colour=style.SOFT, boxed=True)
    y = top + BLOCK
    for lane in shape.lanes:
        canvas.rects(left, end, y, y + ROW, style.BAND)
        _lane(canvas, lane, shape.end, left, end, y)
        name = f"{lane.engine} (limit)" if lane.unit == limit else lane.engine
        canvas.text(left - 8, y + ROW / 2, name, size=style.SMALL, anchor="right", bold=lane.unit == limit)
        canvas.text(WIDTH - RIGHT + 10, y + ROW / 2, _shares(lane, shape.end), size=style.SMALL, colour=style.SOFT)
        y += ROW + GAP
    canvas.rects(end, end + 2, top + BLOCK - 4, y, style.INK)
    return y


def _phase(lane: Lane) -> str:
    return PHASES[min(lane.stage, len(PHASES) - 1)]


def _lane(canvas: Canvas, lane: Lane, end: int, left: float, right: float, top: float) -> None:
    looks: list[tuple[Ticks, Colour, str, Colour, float]] = [
        (lane.wait_input, style.WAITS["wait_input"].fill, "/", style.WAITS["wait_input"].line, 4),
        (lane.wait_space, style.WAITS["wait_space"].fill, "\\", style.WAITS["wait_space"].line, 4),
        (lane.busy, style.PHASE_COLOURS[_phase(lane)], "", style.INK, 0),
    ]
    scale = (right - left) / end
    if len(lane.busy) <= FEW_SLICES:
        for spans, fill, hatch, line, inset in looks:
            if len(spans):
                x = left + spans * scale
                apart = np.where(x[:, 1] - x[:, 0] >= 4, 1, 0) if not hatch else 0
                canvas.rects(x[:, 0], x[:, 1] - apart, top + inset, top + ROW - inset, fill, hatch=hatch, line=line)
        return
    edges = np.unique(np.linspace(0, end, int((right - left) / 5) + 2).astype(np.int64))
    base = np.zeros(len(edges) - 1)
    for spans, fill, _, _, _ in (looks[2], looks[1], looks[0]):
        shares = np.diff(covered(spans[:, 0], spans[:, 1], edges)) / np.diff(edges) if len(spans) else base * 0
        peak = base + shares * ROW
        some = np.rint(peak) > np.rint(base)
        x = left + edges * scale
        canvas.rects(x[:-1][some], x[1:][some], top + ROW - np.rint(peak)[some], top + ROW - np.rint(base)[some], fill)
        base = peak


def _shares(lane: Lane, end: int) -> str:
    """An engine may have issued one instruction while the next one waits: that time is busy, and counts once."""
    busy = _covered_ticks(lane.busy)
    waits = _covered_ticks(np.concatenate([lane.busy, lane.wait_input, lane.wait_space])) - busy
    return f"{100 * busy / end:.0f} % busy, {100 * waits / end:.0f} % waits"


def _covered_ticks(spans: Ticks) -> int:
    """Ticks that at least one of the spans covers; ``spans`` is [count, 2]."""
    if not len(spans):
        return 0
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(spans[:, 1])
    begin = np.maximum(spans[:, 0], np.concatenate([spans[:1, 0], reach[:-1]]))
    return int(np.maximum(spans[:, 1] - begin, 0).sum())


def _legend(canvas: Canvas, entries: Sequence[Entry], y: float) -> None:
    x = float(EDGE)
    found = {_phase(lane) for entry in entries for lane in _shape(entry).lanes}
    looks: list[tuple[str, Colour, str, Colour]] = [
        (phase, style.PHASE_COLOURS[phase], "", style.INK) for phase in PHASES if phase in found
    ]
    looks += [(look.label, look.fill, look.hatch, look.line) for look in style.WAITS.values()]
    looks.append(("idle", style.BAND, "", style.INK))
    for label, fill, hatch, line in looks:
        canvas.rects(x, x + 26, y - 7, y + 7, fill, hatch=hatch, line=line)
        if label == "idle":
            canvas.frame(x, x + 26, y - 7, y + 7, style.GRID)
        canvas.text(x + 33, y, label)
        x += 33 + 0.62 * pixels(style.TEXT) * len(label) + 14
    note = "one core of each run; black line: the end; long runs: height is share of time"
    canvas.text(WIDTH - EDGE, y, note, size=style.SMALL, colour=style.SOFT, anchor="right")


# -- Markdown ----------------------------------------------------------------------------------------------------------


def markdown(found: Comparison, picture: str | None = None) -> Iterator[str]:
    """The page, line by line; ``picture`` is the name of the picture beside it."""
    others = len(found.entries) - 1
    yield f"# {_safe(found.base.label)} and {others} other run{'' if others == 1 else 's'}"
    yield ""
    if picture is not None:
        yield f"![time, traffic and timelines of the runs]({picture})"
        yield ""
    for header, rows in tables(found):
        yield "| " + " | ".join(header) + " |"
        yield "|---|" + "--:|" * (len(header) - 1)
        for row in rows:
            yield "| " + " | ".join(_safe(cell) for cell in row) + " |"
        yield ""
    for entry in found.entries[1:]:
        if text := found.change(entry):
            yield f"* {_safe(text)}"
    for entry in found.entries:
        if entry.note:
            yield f"* {_safe(entry.label)}: {_safe(entry.note)}"


def tables(found: Comparison) -> list[Table]:
    """What came out, how busy and how much traffic, and the most that lay in each buffer: each fits a terminal."""
    return [_outcomes(found), _use(found), *([_peaks(found)] if found.buffers else [])]


def _outcomes(found: Comparison) -> Table:
    rows = []
    for entry in found.entries:
        ratio = found.ratio(entry)
        rows.append(
            [
                entry.label,
                "" if entry.cycles is None else f"{entry.cycles:,}",
                "" if ratio is None else f"{ratio:.3f}",
                "" if entry.time_us is None else f"{entry.time_us:,.3f}",
                str(entry.document["bound"] or ""),
                f"{100 * entry.document['work']['peak_fraction']:.1f} %",
                found.bits(entry),
            ]
        )
    return ["run", "cycles", "ratio", "us", "limit", "of peak", "bits"], rows


def _use(found: Comparison) -> Table:
    rows = []
    for entry in found.entries:
        traffic = entry.document["traffic"]
        shares = [_percent(entry.units[name]["utilization"]) if name in entry.units else "" for name in found.units]
        moved = [size_text(traffic["gm_read_bytes"]), size_text(traffic["gm_write_bytes"])]
        rows.append([entry.label, *shares, *moved])
    return [
        "run",
        *(f"{name} busy" for name in found.units),
        f"{_memory(found)} read",
        f"{_memory(found)} written",
    ], rows


def _memory(found: Comparison) -> str:
    """What all runs call the memory outside the cores: HBM where all have an SBUF, GM otherwise."""
    return "HBM" if found.entries and all("sbuf" in entry.capacity for entry in found.entries) else "GM"


def _peaks(found: Comparison) -> Table:
    rows = [
        [entry.label]
        + [_percent(entry.peaks[name] / entry.capacity[name]) if name in entry.peaks else "" for name in found.buffers]
        for entry in found.entries
    ]
    return ["run", *(f"{name.upper()} peak" for name in found.buffers)], rows


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _safe(text: Any) -> str:
    return " ".join(str(text).replace("|", "\\|").replace("<", "&lt;").split())
