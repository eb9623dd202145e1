"""Index operands before a run: those that moves alone bring from the contents at the start are known and checked.

What another instruction computed is known only in a run, which checks it then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hwmodel.errors import InputError, ProgramError
from hwmodel.listing.neuron.places import Region
from hwmodel.listing.neuron.steps import Move, Multiply, Step, Transfer
from hwmodel.units.neuron.matmul import gather_rows
from hwmodel.units.neuron.variants import check_tags
from hwmodel.units.storage import Array


def check_indices(steps: Sequence[Step], contents: Mapping[str, Array], initial: Sequence[Region]) -> None:
    """ProgramError for the first index that points beside what it chooses from.

    ``contents`` are stored elements by tensor, ``initial`` the tensors that hold them.
    """
    history: _History | None = None
    for at, step in enumerate(steps):
        action = step.action
        if not isinstance(action, Multiply) or (action.gather is None and action.tags is None):
            continue
        history = history or _History(steps, contents, initial)
        try:
            _check(action, at, history)
        except InputError as error:
            raise ProgramError(step.number, step.op, str(error)) from None


def _check(action: Multiply, at: int, history: _History) -> None:
    if action.gather is not None:
        rows = history.before(at, action.gather)
        if rows is not None:
            gather_rows(rows, action.gather.dtype.name, action.weights.rows)
    if action.tags is not None:
        words = history.before(at, action.tags)
        if words is not None:
            check_tags(words, action.ratio)


class _History:
    """Who wrote what, by buffer: rectangles of partitions and bytes, in program order."""

    def __init__(self, steps: Sequence[Step], contents: Mapping[str, Array], initial: Sequence[Region]) -> None:
        self.contents = contents
        self.writes: dict[str, list[tuple[int, Step | None, Region]]] = {}
        for at, step, region in _all_writes(steps, initial):
            self.writes.setdefault(_memory(region), []).append((at, step, region))
        self.rectangles = {
            memory: np.array([(at, *_rectangle(region)) for at, _, region in found], np.int64)
            for memory, found in self.writes.items()
        }

    def before(self, at: int, region: Region) -> Array | None:
        """Stored elements of a region in front of instruction ``at``; None where they are not known."""
        while region.space != "psum":  # a start clears more than its matmul writes
            found = self._last(at, region)
            if found is None:
                return None
            at, step, written = found
            if not _covers(written, region):
                return None
            if step is None:
                return self._initial(written, region)
            source = _source(step)
            if source is None or source.dtype.bytes != region.dtype.bytes:
                return None
            region = _moved(region, written, source)
        return None

    def _last(self, at: int, region: Region) -> tuple[int, Step | None, Region] | None:
        """The last write in front of ``at`` that touches a region."""
        table = self.rectangles.get(_memory(region))
        if table is None:
            return None
        first, last, begin, end = _rectangle(region)
        touching = (table[:, 0] < at) & (table[:, 1] < last) & (table[:, 2] > first)
        touching &= (table[:, 3] < end) & (table[:, 4] > begin)
        places = np.flatnonzero(touching)
        return self.writes[_memory(region)][int(places[-1])] if places.size else None

    def _initial(self, written: Region, region: Region) -> Array | None:
        if written.dtype.bytes != region.dtype.bytes:
            return None
        inside = _moved(region, written, written)
        return self.contents[written.place.name][
            inside.row : inside.row + inside.rows, inside.col : inside.col + inside.cols
        ]


def _all_writes(steps: Sequence[Step], initial: Sequence[Region]) -> Iterator[tuple[int, Step | None, Region]]:
    yield from ((-1, None, region) for region in initial)
    for at, step in enumerate(steps):
        yield from ((at, step, region) for region in step.writes)


def _source(step: Step) -> Region | None:
    """What an instruction moves as it is."""
    action = step.action
    if isinstance(action, Transfer):
        return action.src
    if isinstance(action, Move) and action.keeps_bits:
        return action.sources[0]
    return None


def _memory(region: Region) -> str:
    return f"dram.{region.place.name}" if region.space == "dram" else region.space


def _rectangle(region: Region) -> tuple[int, int, int, int]:
    """Partitions, or rows of a tensor in DRAM, and bytes: first and end each."""
    first = region.row if region.space == "dram" else region.partition
    return first, first + region.rows, region.offset, region.offset + region.size


def _covers(outer: Region, inner: Region) -> bool:
    a, b = _rectangle(outer), _rectangle(inner)
    whole = (b[2] - a[2]) % inner.dtype.bytes == 0
    return a[0] <= b[0] and b[1] <= a[1] and a[2] <= b[2] and b[3] <= a[3] and whole


def _moved(region: Region, written: Region, source: Region) -> Region:
    """Where in ``source`` the elements of ``region`` lie, which is a part of ``written``."""
    inner, outer = _rectangle(region), _rectangle(written)
    row = source.row + inner[0] - outer[0]
    col = source.col + (inner[2] - outer[2]) // region.dtype.bytes
    return Region(source.place, row, col, region.rows, region.cols)
