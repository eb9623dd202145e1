"""One stretch of a timeline: engine rows, and the buffers under them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hwmodel.analysis.occupancy import Track
from hwmodel.program.instructions import Instruction, label_text
from hwmodel.result import Result
from hwmodel.trace import WAIT_INPUT, WAIT_SPACE, Trace
from hwmodel.writers import style, view
from hwmodel.writers.axes import draw_axis
from hwmodel.writers.canvas import Canvas, advance, fits, pixels, width
from hwmodel.writers.facts import whole_percent
from hwmodel.writers.lanes import Lane
from hwmodel.writers.names import LEVEL, Scale, lane_names, queue_count
from hwmodel.writers.style import Colour
from hwmodel.writers.windows import Window

ROW, GAP = 46, 14
"""Height of an engine's row and the space between rows, in pixels."""
QUEUE = 12
"""Least height of one queue of a row whose instructions overlap."""
WAIT_INSET = 8
"""Waits are drawn this much thinner than work, above and below."""
BUFFER_ROW = {"l0c": 70, "psum": 70}
OTHER_BUFFER_ROW = 36
LEAST_BLOCK = 4
"""A tile in a buffer is drawn at least this high."""
MOST_TEXTS = 70
"""Texts inside one panel; drawing text is what takes time."""
NEAR = 4
"""Flags stand at most this far before the instruction they are for."""
SEPARATE = 4
"""Slices this wide have a gap of one pixel to the next."""


Label = tuple[tuple[str, int], ...]


class Look(NamedTuple):
    """Colour of a tile: its phase, and whether it gets the other shade."""

    phase: str
    alternate: bool


@dataclass(frozen=True)
class Layout:
    """What is drawn, from top to bottom, and how far below the first edge."""

    result: Result
    items: list[Lane | Track]
    name_cores: bool
    whole: bool = False
    """Whether the run is drawn from its first cycle to its last: then every slice has its name."""
    bands: tuple[int, ...] = ()
    """Levels of names above each item; left out: none."""

    @property
    def trace(self) -> Trace:
        """The trace that is drawn."""
        assert self.result.trace is not None
        return self.result.trace

    @property
    def lanes(self) -> list[Lane]:
        """The engines' rows."""
        return [item for item in self.items if isinstance(item, Lane)]

    @cached_property
    def boxes(self) -> list[tuple[float, float]]:
        """(top, height) of each item."""
        found: list[tuple[float, float]] = []
        below = 0.0
        for item, band in zip(self.items, self.bands or (0,) * len(self.items), strict=True):
            height = lane_height(item) if isinstance(item, Lane) else BUFFER_ROW.get(item.buffer, OTHER_BUFFER_ROW)
            top = below + max(GAP, LEVEL * band + 4)
            found.append((float(top), float(height)))
            below = top + height
        return found

    @property
    def height(self) -> float:
        """Height of all."""
        return (sum(self.boxes[-1]) if self.boxes else GAP) + GAP

    @cached_property
    def phases(self) -> list[str]:
        """Phases that appear, in pipeline order."""
        arch = self.result.arch
        found = {
            view.phase(arch, one.row.engine, op) for one in self.lanes for op in {i.op for i in one.row.instructions}
        }
        return [phase for phase in view.PHASES if phase in found]

    @cached_property
    def odd(self) -> dict[str, dict[Label, bool]]:
        """For each engine, whether a tile is its first, third, ... or one of the others: those get the other shade."""
        result: dict[str, dict[Label, bool]] = {}
        for one in self.lanes:
            numbers = result.setdefault(one.row.engine, {})
            for instruction in one.row.instructions:
                if instruction.label not in numbers:
                    numbers[instruction.label] = bool(instruction.label) and (len(numbers) - (() in numbers)) % 2 == 1
        return result

    def look(self, instruction: Instruction, label: Label) -> Look:
        """How a tile is drawn that an instruction works on; a label the engine does not know is another engine's."""
        odd = self.odd
        known = next((tiles for tiles in (odd[instruction.engine], *odd.values()) if label in tiles), {})
        return Look(view.phase(self.result.arch, instruction.engine, instruction.op), known.get(label, False))


class Panel:
    """One window, from ``left`` to ``right``; rows begin at ``top``. x is time."""

    def __init__(self, layout: Layout, canvas: Canvas, window: Window, left: float, right: float, top: float) -> None:
        self.layout = layout
        self.canvas = canvas
        self.window = window
        self.left, self.right, self.top = left, right, top
        self.scale = Scale(window, left, right)
        self.texts: list[tuple[float, dict[str, Any]]] = []

    def draw(self, *, first: bool, last: bool) -> None:
        """Draw everything; names of the rows at the first panel, shares of time at the last."""
        layout = self.layout
        bottom = self.top + layout.height
        draw_axis(
            self.canvas, layout.result.arch, layout.trace, self.window, (self.left, self.right), self.top, bottom, first
        )
        if self.window.period is not None:
            begin, stop = self.scale.x(np.array(self.window.period, np.int64)).tolist()
            self.canvas.rects(begin, stop, self.top + 6, self.top + 9, style.INK)
        for item, (below, height) in zip(layout.items, layout.boxes, strict=True):
            top = self.top + below
            if isinstance(item, Lane):
                self.canvas.rects(self.left, self.right, top, top + height, style.BAND)
                self._waits(item, top, height)
                self._slices(item, top, height)
            else:
                self._buffer(item, top, height)
            middle = top + height / 2
            if first:
                self._two_lines(self.left - 8, middle, *self._name(item), right=True)
            if last:
                self._two_lines(self.right + 8, middle, *self._shares(item), right=False)
        widest = sorted(self.texts, key=lambda text: -text[0])[: None if layout.whole else MOST_TEXTS]
        drawn: list[dict[str, Any]] = []
        for _, text in widest:
            if not any(_meet(text, other) for other in drawn):
                drawn.append(text)
                self.canvas.text(**text)

    def _slices(self, one: Lane, top: float, height: float) -> None:
        here = self.scale.visible(one.starts, one.ends)
        instructions = [one.row.instructions[position] for position in one.positions[here].tolist()]
        left, right = self.scale.x(one.starts[here]), self.scale.x(one.ends[here])
        right = np.where(right - left >= SEPARATE, right - 1, right)
        looks = [self.layout.look(instruction, instruction.label) for instruction in instructions]
        spans = [
            self._span(view.title(i), one.starts[k], one.ends[k])
            for i, k in zip(instructions, here.tolist(), strict=True)
        ]
        count = queue_count(one)
        upper = top + one.queue[here] * height / count
        lower = upper + height / count
        for look in dict.fromkeys(looks):
            chosen = [place for place, other in enumerate(looks) if other == look]
            fill = style.shade(*look)
            titles = [spans[place] for place in chosen]
            self.canvas.rects(left[chosen], right[chosen], upper[chosen], lower[chosen], fill, titles=titles)
        for name in lane_names(one, self.scale, height, whole=self.layout.whole):
            colour = style.INK if name.level >= 0 else style.ink_on(*looks[name.place])
            if name.level > 0:
                self.canvas.rects(name.stem, name.stem + 1, top + name.y + 5, top - 1, style.SOFT)
            look_of = {"size": name.size, "colour": colour, "anchor": "center", "angle": name.angle}
            text = {"x": name.x, "y": top + name.y, "text": name.text, **look_of}
            self.texts.append((float(right[name.place] - left[name.place]), text))

    def _waits(self, one: Lane, top: float, height: float) -> None:
        here = self.scale.visible(one.wait_starts, one.wait_ends)
        for kind in (WAIT_INPUT, WAIT_SPACE):
            chosen = here[one.wait_space[here] == (kind == WAIT_SPACE)]
            left, right = self.scale.x(one.wait_starts[chosen]), self.scale.x(one.wait_ends[chosen])
            texts = [self._why(one, stall) for stall in one.stalls[chosen].tolist()]
            look = style.WAITS[kind]
            spans = [
                self._span(text[0], one.wait_starts[k], one.wait_ends[k])
                for text, k in zip(texts, chosen.tolist(), strict=True)
            ]
            count = queue_count(one)
            inset = WAIT_INSET / count
            upper = top + one.wait_queue[chosen] * height / count + inset
            lower = upper + height / count - 2 * inset
            self.canvas.rects(
                left, right, upper, lower, look.fill, hatch=look.hatch, line=look.line, titles=spans
            )  # fmt: skip
            if count == 1:
                for text, x0, x1 in zip(texts, left.tolist(), right.tolist(), strict=True):
                    self._text(x0, x1, top + height / 2, text, style.INK, boxed=True)

    def _span(self, text: str, start: int, end: int) -> str:
        begin, stop = (view.cycle(self.layout.trace, int(tick)) for tick in (start, end))
        return f"{text}: {stop - begin:,} cycles, {begin:,} to {stop:,}"

    def _why(self, one: Lane, index: int) -> list[str]:
        """What a wait is called, from long to short."""
        stall = one.row.stalls[index]
        rows = {other.row.engine: other.row for other in self.layout.lanes if other.row.core == one.row.core}
        by = rows.get(stall.by)
        what = view.title(by.instructions[stall.by_position]) if by is not None and stall.by_position >= 0 else ""
        if stall.cause.startswith("bank "):
            return [
                f"{stall.cause} is busy until {what} ends" if what else f"{stall.cause} is busy",
                stall.cause,
                "bank",
            ]
        if stall.kind == WAIT_SPACE:
            coming = one.row.instructions[stall.position : stall.position + NEAR]
            buffer = next((view.written_buffer(i).upper() for i in coming if i.writes), "") or "buffer"
            until = [f"{buffer} is full until {what} ends", f"{buffer} full until {what}"] if what else []
            return [*until, f"{buffer} full", "full"]
        return [f"waits for {what or stall.cause}", what or stall.cause]

    def _text(
        self, left: float, right: float, y: float, choices: Sequence[str], colour: Colour, *, boxed: bool = False
    ) -> None:
        room = right - left
        text = next((choice for choice in choices if choice and fits(choice, style.SMALL, room)), "")
        if text:
            look = {"size": style.SMALL, "colour": colour, "anchor": "center", "boxed": boxed}
            self.texts.append((room, {"x": (left + right) / 2, "y": y, "text": text, **look}))

    def _buffer(self, track: Track, top: float, height: float) -> None:
        program = self.layout.result.program
        assert program is not None
        core = next(core for core in program.cores if core.core == track.core)
        here = self.scale.visible(track.born, track.gone)
        left, right = self.scale.x(track.born[here]), self.scale.x(track.gone[here])
        right = np.where(right - left >= SEPARATE, right - 1, right)
        unit = height / track.capacity_bytes
        low = top + height - track.offset[here] * unit
        high = np.maximum(np.minimum(low - track.size[here] * unit, low - LEAST_BLOCK), top)
        writers = [core.instructions[index] for index in track.writer[here].tolist()]
        last = [core.instructions[index] for index in track.last_writer[here].tolist()]
        looks = [self.layout.look(one, shared(one, other)) for one, other in zip(writers, last, strict=True)]
        for look in dict.fromkeys(looks):
            chosen = [place for place, other in enumerate(looks) if other == look]
            fill = style.mix(style.shade(*look), style.WHITE, 0.45)
            titles = [f"{tile_name(writers[i], last[i])} in {track.buffer.upper()}" for i in chosen]
            self.canvas.rects(left[chosen], right[chosen], high[chosen], low[chosen], fill, titles=titles)
        self.canvas.frame(self.left, self.right, top, top + height, style.SOFT)
        tall = height >= BUFFER_ROW["l0c"]
        line = pixels(style.SMALL)
        for i, instruction in enumerate(writers):
            name = tile_name(instruction, last[i])
            if low[i] - high[i] >= line:
                self._text(left[i], right[i], max((low[i] + high[i]) / 2, top + 8), [name], style.INK)
            elif tall and high[i] - 1.3 * line >= top:  # above a thin tile, where no other one lies
                middle, half = (left[i] + right[i]) / 2, width(name, style.SMALL) / 2
                beside = (left < middle + half) & (right > middle - half)
                if not (beside & (high < high[i]) & (low > high[i] - 1.3 * line)).any():
                    self._text(left[i], right[i], high[i] - 0.8 * line, [name], style.INK)

    def _name(self, item: Lane | Track) -> tuple[str, str]:
        stats = self.layout.result.stats
        if isinstance(item, Lane):
            core, name = item.row.core, item.row.engine
            limits = stats is not None and stats.cycles > 0 and item.row.unit == stats.bound
            detail = f"{item.row.unit} (limit)" if limits else item.row.unit
        else:
            core, name, detail = item.core, item.buffer.upper(), view.size_text(item.capacity_bytes)
        return (f"core {core} {name}" if self.layout.name_cores else name), detail

    def _shares(self, item: Lane | Track) -> tuple[str, str]:
        end = self.layout.trace.end or 1
        if isinstance(item, Track):
            return f"{whole_percent(item.peak_bytes, item.capacity_bytes)} peak", (
                f"{whole_percent(item.mean_bytes(end), item.capacity_bytes)} mean"
            )
        busy, waits = item.busy_and_waits(end)
        return f"{100 * busy / end:.0f} % busy", f"{100 * waits / end:.0f} % waits"

    def _two_lines(self, x: float, y: float, name: str, detail: str, *, right: bool) -> None:
        anchor: Any = "right" if right else "left"
        self.canvas.text(x, y - 8, name, anchor=anchor, bold=right)
        self.canvas.text(x, y + 8, detail, size=style.SMALL, colour=style.SOFT, anchor=anchor)


def lane_height(one: Lane) -> int:
    """Height of an engine's row: each queue takes a name."""
    return max(ROW, QUEUE * queue_count(one))


def _meet(text: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two centred texts would lie on each other."""
    (across, down), (wide, high) = _extent(text), _extent(other)
    return bool(abs(text["x"] - other["x"]) < (across + wide) / 2 and abs(text["y"] - other["y"]) < (down + high) / 2)


def _extent(text: dict[str, Any]) -> tuple[float, float]:
    """(width, height) of a text; a small one is measured closely, as it stands close to others."""
    if text["size"] < style.SMALL:
        extent = advance(text["text"], text["size"]), 0.75 * pixels(text["size"])
    else:
        extent = width(text["text"], text["size"]), pixels(text["size"])
    return extent[::-1] if text.get("angle") else extent


def shared(first: Instruction, last: Instruction) -> Label:
    """What the labels of a tile's first and last writer have in common."""
    return first.label if first is last else tuple(part for part in first.label if part in last.label)


def tile_name(first: Instruction, last: Instruction) -> str:
    """What a tile in a buffer is called: its label, else the tensor it holds."""
    return label_text(shared(first, last)) or view.moved(first)
