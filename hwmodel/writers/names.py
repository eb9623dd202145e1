"""What slices of a row are called, and where that is written.

A name stands in its bar, along it or, where the bar is too narrow, upwards; in a run that is drawn whole, a bar too
narrow for either has its name above the row, on a stem where several levels of names are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from hwmodel.analysis.flow import Ticks
from hwmodel.program.instructions import Instruction, label_text
from hwmodel.writers import style, view
from hwmodel.writers.canvas import advance, fits
from hwmodel.writers.lanes import Lane
from hwmodel.writers.windows import Window

TINY = 7.0
"""Size of names that do not stand along their bar, in points."""
LEAST_TURNED = 10
"""A bar takes a name that runs upwards from this width on, in pixels."""
LEAST_HIGH = 10
"""A bar takes a name that runs along it from this height on, in pixels."""
MARGIN = 4
LEVEL, MOST_LEVELS = 11, 4
"""Height of a level of names above a row, and the most levels."""
SIDES = ((0.0,), (0.0, -1.0, 1.0), (-1.0, 0.0, 1.0), (-1.0,))
"""Where names may stand at their stems, in the order in which it is tried: -1 ends there, 0 is centred, 1 begins."""
STEM_MARGIN = 2
CLEARANCES = (1.0, -1.0)
"""Pixels between a name and the stem of another, the second where there is no room for the first."""
MOST_NEAR = 24
"""Names and bars that a name may meet: so many before it."""
TOGETHER = 30
"""Neighbouring narrow bars of one name share it where they are not further apart."""


@dataclass(frozen=True)
class Scale:
    """x of a time: the window's, from ``left`` to ``right``."""

    window: Window
    left: float
    right: float

    def x(self, ticks: Ticks) -> Any:
        """Whole pixels; what lies outside goes to the edge."""
        per_tick = (self.right - self.left) / max(self.window.end - self.window.start, 1)
        inside = np.clip(ticks, self.window.start, self.window.end) - self.window.start
        return np.rint(self.left + inside * per_tick)

    def visible(self, starts: Ticks, ends: Ticks) -> Ticks:
        """Places of what can be seen."""
        return np.flatnonzero((ends > self.window.start) & (starts < self.window.end))


class Name(NamedTuple):
    """A name: its middle, ``y`` below the row's top, and its level above the row, -1 for one inside its bar."""

    x: float
    y: float
    text: str
    size: float
    angle: int
    level: int
    stem: float
    place: int


def slice_names(instruction: Instruction) -> list[str]:
    """What a slice is called, from long to short."""
    label = label_text(instruction.label) or view.moved(instruction)
    return [view.title(instruction), label]


def short_names(instruction: Instruction) -> list[str]:
    """Names for little room, from long to short: without spaces, then without outer indices."""
    parts = [label_text((part,)) for part in instruction.label] or [view.moved(instruction)]
    return ["".join(parts[first:]) for first in range(len(parts))]


def inside(instruction: Instruction, room: float, height: float, *, turned: bool) -> tuple[str, float, int] | None:
    """(text, size, angle) of a name inside a bar, the longest that fits."""
    names, shorts = slice_names(instruction), short_names(instruction)
    if height >= LEAST_HIGH:
        for text in names:
            if text and fits(text, style.SMALL, room):
                return text, style.SMALL, 0
    if not turned:
        return None
    for text in [names[-1], *shorts]:
        if text and height >= LEAST_HIGH and advance(text, TINY) + MARGIN <= room:
            return text, TINY, 0
        if text and room >= LEAST_TURNED and advance(text, TINY) + MARGIN <= height:
            return text, TINY, 90
    return None


def lane_names(one: Lane, scale: Scale, height: float, *, whole: bool) -> list[Name]:
    """Names of the slices of a row that is ``height`` high; of all of them where the run is drawn ``whole``."""
    here = scale.visible(one.starts, one.ends)
    left, right = scale.x(one.starts[here]).tolist(), scale.x(one.ends[here]).tolist()
    count = queue_count(one)
    found: list[Name] = []
    narrow: list[tuple[int, float, float, Instruction]] = []
    for place, index in enumerate(here.tolist()):
        instruction = one.row.instructions[int(one.positions[index])]
        x0, x1 = left[place], right[place]
        name = inside(instruction, x1 - x0, height / count, turned=True)
        if name is not None:
            middle = (int(one.queue[index]) + 0.5) * height / count
            found.append(Name((x0 + x1) / 2, middle, *name, -1, 0.0, place))
        elif whole and count == 1:
            narrow.append((place, x0, x1, instruction))
    return found + _above(narrow, scale)


def queue_count(one: Lane) -> int:
    """Queues of a row whose instructions overlap; 1 for other rows."""
    return 1 + int(max(one.queue.max(initial=0), one.wait_queue.max(initial=0)))


def levels(names: Sequence[Name]) -> int:
    """Levels of names above a row."""
    return 1 + max((name.level for name in names), default=-1)


def _above(narrow: list[tuple[int, float, float, Instruction]], scale: Scale) -> list[Name]:
    """Names above narrow bars, each on the lowest level where it meets no other and no stem."""
    groups: list[tuple[int, float, float, list[str]]] = []
    before = -2
    for place, x0, x1, instruction in narrow:
        texts = list(dict.fromkeys(text for text in [slice_names(instruction)[-1], *short_names(instruction)] if text))
        if groups and place == before + 1 and groups[-1][3] == texts and x0 - groups[-1][2] <= TOGETHER:
            groups[-1] = (groups[-1][0], groups[-1][1], x1, texts)
        else:
            groups.append((place, x0, x1, texts))
        before = place
    tries: list[list[Name]] = []
    for clearance, sides, clear in product(CLEARANCES, SIDES, (False, True)):
        tries.append(_placed(groups, scale, sides, clear, clearance))
        if levels(tries[-1]) <= 1 and [name.text for name in tries[-1]] == [texts[0] for *_, texts in groups]:
            break
    return min(tries, key=lambda names: (-len(names), -sum(len(name.text) for name in names), levels(names)))


def _placed(
    groups: list[tuple[int, float, float, list[str]]],
    scale: Scale,
    sides: tuple[float, ...],
    clear: bool,
    clearance: float,
) -> list[Name]:
    """Names placed from left to right, each on the first level and ``sides`` of its stem where there is room.

    ``clear``: a name on the lowest level stands over no other bar, which could have no name then.
    """
    stems = [(x0 + x1) / 2 for _, x0, x1, _ in groups]
    placed: list[tuple[float, float, int, float]] = []
    found: list[Name] = []
    for number, (place, _, _, texts) in enumerate(groups):
        stem = stems[number]
        near = placed[-MOST_NEAR:]
        beside = [other for other in stems[max(number - MOST_NEAR, 0) : number + MOST_NEAR] if other != stem]
        for text, level in product(texts, range(MOST_LEVELS)):
            half = advance(text, TINY) / 2 + 2
            places = (stem + side * (half - STEM_MARGIN) for side in sides)
            spans = ((x - half, x + half) for x in places if scale.left + half <= x <= scale.right - half)
            bars = beside if clear and level == 0 else []
            span = next((span for span in spans if _free(span, level, stem, near, bars, clearance)), None)
            if span is not None:
                x = sum(span) / 2
                placed.append((x - half, x + half, level, stem))
                found.append(Name(x, -6.0 - LEVEL * level, text, TINY, 0, level, stem, place))
                break
    return found


def _free(
    span: tuple[float, float],
    level: int,
    stem: float,
    near: list[tuple[float, float, int, float]],
    bars: list[float],
    clearance: float,
) -> bool:
    """Whether a name over ``span`` stands over none of ``bars``, and it and its stem touch no other name or stem."""
    low, high = span
    if any(low - clearance < bar < high + clearance for bar in bars):
        return False
    for begin, end, its_level, its_stem in near:
        if its_level == level:
            if low < end and begin < high:
                return False
        elif its_level < level:
            if begin - clearance < stem < end + clearance:
                return False
        elif low - clearance < its_stem < high + clearance:
            return False
    return True
