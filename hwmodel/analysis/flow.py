"""Who produces what for whom: pairs of instructions, found from the operands of a program and from its flags.

Everything here but `times` is about one core's instruction list and needs no trace. Indices count in program order
from 0. Lists hold plain numbers, one column for each field, because programs of 100,000 instructions are common.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hwmodel.program.instructions import Instruction, Matmul
from hwmodel.program.memory import GM, Part, Window
from hwmodel.program.program import CoreProgram
from hwmodel.trace import Trace

Ticks = npt.NDArray[np.int64]


class Flow(NamedTuple):
    """``consumer`` depends on ``producer``: reads what that wrote into buffer ``through``, or waits for its flag."""

    producer: int
    consumer: int
    through: str


@dataclass
class Lives:
    """Bytes of buffers, from the instruction that writes them to the one that overwrites them. One entry a life.

    ``first`` is the instruction that wrote the bytes first, ``writer`` the last one: they differ where instructions
    add to what is there. ``overwritten_by`` is -1 where nobody overwrites them. A life that is overwritten in part
    ends with ``size`` 0, and its pieces go on as lives of their own with it as ``parent`` (else -1).
    ``reader[i]`` is an instruction that reads life ``read[i]``, which ``producer[i]`` had written last.
    """

    space: list[str] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    writer: list[int] = field(default_factory=list)
    overwritten_by: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    last_reader: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    reader: list[int] = field(default_factory=list)
    producer: list[int] = field(default_factory=list)
    through_gm: list[Flow] = field(default_factory=list)

    def flows(self) -> list[Flow]:
        """All pairs of which one reads what the other wrote, sorted by consumer, each once for each buffer."""
        columns = zip(self.producer, self.reader, self.read, strict=True)
        pairs = [Flow(producer, reader, self.space[life]) for producer, reader, life in columns if producer != reader]
        return sorted(dict.fromkeys(pairs + self.through_gm), key=lambda flow: flow.consumer)

    def add(self, space: str, offset: int, size: int, first: int, parent: int = -1) -> int:
        """Begin a life; a piece of ``parent`` has its writer and its last reader."""
        self.space.append(space)
        self.offset.append(offset)
        self.size.append(size)
        self.first.append(first)
        self.writer.append(first if parent < 0 else self.writer[parent])
        self.overwritten_by.append(-1)
        self.parent.append(parent)
        self.last_reader.append(-1 if parent < 0 else self.last_reader[parent])
        return len(self.space) - 1

    def piece(self, life: int, offset: int, size: int) -> int:
        """Bytes of a life that is overwritten in part, as a life of their own."""
        return self.add(self.space[life], offset, size, self.first[life], life)

    def note(self, life: int, index: int) -> None:
        """``index`` reads ``life``."""
        if self.last_reader[life] != index:
            self.last_reader[life] = index
            self.read.append(life)
            self.reader.append(index)
            self.producer.append(self.writer[life])


class _Buffer:
    """What lies in one buffer: disjoint ranges of bytes, sorted by offset, and who lives there."""

    def __init__(self, space: str, lives: Lives) -> None:
        self.space = space
        self.lives = lives
        self.offsets: list[int] = []
        self.sizes: list[int] = []
        self.at: dict[int, int] = {}

    def find(self, offset: int, size: int) -> tuple[int, int]:
        """Places of the ranges that overlap ``offset`` to ``offset + size``."""
        first = bisect_right(self.offsets, offset)
        if first and self.offsets[first - 1] + self.sizes[first - 1] > offset:
            first -= 1
        last = first
        while last < len(self.offsets) and self.offsets[last] < offset + size:
            last += 1
        return first, last

    def meet(self, offset: int, size: int) -> Sequence[int]:
        """The lives that a read of these bytes meets."""
        life = self.at.get(offset)
        if life is not None and self.lives.size[life] >= size:
            return (life,)
        first, last = self.find(offset, size)
        return [self.at[offset] for offset in self.offsets[first:last]]

    def write(self, offset: int, size: int, index: int, *, adds: bool) -> Sequence[int]:
        """Overwrite bytes. Where ``index`` has read them or ``adds`` to them, their life goes on; returns those."""
        lives = self.lives
        life = self.at.get(offset)
        if life is None or lives.size[life] != size:
            return self._cut(offset, size, index, adds=adds)
        if adds or lives.last_reader[life] == index:
            return (life,)
        lives.overwritten_by[life] = index
        self.at[offset] = lives.add(self.space, offset, size, index)
        return ()

    def _cut(self, offset: int, size: int, index: int, *, adds: bool) -> list[int]:
        lives = self.lives
        first, last = self.find(offset, size)
        result: list[int] = []
        kept: list[int] = []
        now, end = offset, offset + size
        for life in [self.at.pop(place) for place in self.offsets[first:last]]:
            begin, stop = lives.offset[life], lives.offset[life] + lives.size[life]
            low, high = max(offset, begin), min(end, stop)
            if begin < low:
                result.append(lives.piece(life, begin, low - begin))
            middle = lives.piece(life, low, high - low)
            if adds or lives.last_reader[life] == index:
                if now < low:
                    result.append(lives.add(self.space, now, low - now, index))
                result.append(middle)
                kept.append(middle)
                now = high
            else:
                lives.overwritten_by[middle] = index
            if high < stop:
                if now < end:
                    result.append(lives.add(self.space, now, end - now, index))
                    now = end
                result.append(lives.piece(life, high, stop - high))
            lives.size[life] = 0
        if now < end:
            result.append(lives.add(self.space, now, end - now, index))
        self.offsets[first:last] = [lives.offset[life] for life in result]
        self.sizes[first:last] = [lives.size[life] for life in result]
        self.at.update({lives.offset[life]: life for life in result})
        return kept


def lives(instructions: Sequence[Instruction]) -> Lives:
    """What lives in the on-chip buffers while a core runs its instructions, and who reads it."""
    result = Lives()
    buffers: dict[str, _Buffer] = {}
    through_gm = _tensors_both_ways(instructions)
    stored: dict[str, list[tuple[int, Window]]] = defaultdict(list)
    note = result.note
    for index, instruction in enumerate(instructions):
        for operand in instruction.reads:
            if isinstance(operand, Window):
                if operand.tensor in through_gm:
                    found = (producer for producer, window in stored[operand.tensor] if _meet(operand, window))
                    result.through_gm += [Flow(producer, index, f"{GM}.{operand.tensor}") for producer in found]
                continue
            space = operand.tile.space if isinstance(operand, Part) else operand.space
            if space in buffers:
                for life in buffers[space].meet(operand.offset, operand.size):
                    note(life, index)
        adds = isinstance(instruction.params, Matmul) and instruction.params.accumulate
        for operand in instruction.writes:
            if isinstance(operand, Window):
                if operand.tensor in through_gm:
                    stored[operand.tensor].append((index, operand))
                continue
            space = operand.tile.space if isinstance(operand, Part) else operand.space
            if operand.size:
                if space not in buffers:
                    buffers[space] = _Buffer(space, result)
                for life in buffers[space].write(operand.offset, operand.size, index, adds=adds):
                    note(life, index)
                    result.writer[life] = index
    return result


def _tensors_both_ways(instructions: Sequence[Instruction]) -> set[str]:
    written = {o.tensor for i in instructions for o in i.writes if isinstance(o, Window)}
    return written and {o.tensor for i in instructions for o in i.reads if isinstance(o, Window)} & written


def _meet(a: Window, b: Window) -> bool:
    rows = a.row < b.row + b.rows and b.row < a.row + a.rows
    return rows and a.col < b.col + b.cols and b.col < a.col + a.cols


def signal_flows(instructions: Sequence[Instruction]) -> list[Flow]:
    """Pairs of the instruction that sets a flag or semaphore and the one whose wait it satisfies.

    A flag's n-th set belongs to its n-th wait; a semaphore's wait to the set that reaches its threshold. Sets of
    several engines count in program order. Waits that nothing satisfies are left out.
    """
    raised: dict[str, list[int]] = defaultdict(list)
    for index, instruction in enumerate(instructions):
        for signal, amount in instruction.sets:
            raised[signal] += [index] * amount
    taken: dict[str, int] = defaultdict(int)
    flows = []
    for index, instruction in enumerate(instructions):
        for signal, at_least in instruction.waits:
            which = at_least - 1 if at_least else taken[signal]
            taken[signal] += not at_least
            if which < len(raised[signal]):
                flows.append(Flow(raised[signal][which], index, signal))
    return flows


def times(core: CoreProgram, trace: Trace) -> tuple[Ticks, Ticks]:
    """(starts, ends) in ticks of the core's instructions, in program order."""
    rows = {row.engine: row for row in trace.rows if row.core == core.core}
    starts = np.zeros(len(core.instructions), np.int64)
    ends = np.zeros(len(core.instructions), np.int64)
    indices: dict[str, list[int]] = {engine: [] for engine in rows}
    for index, instruction in enumerate(core.instructions):
        indices[instruction.engine].append(index)
    for engine, row in rows.items():
        if row.starts:
            where = np.array(indices[engine][: len(row.starts)], np.int64)
            starts[where] = np.frombuffer(row.starts, np.int64)
            ends[where] = np.frombuffer(row.ends, np.int64)
    return starts, ends
