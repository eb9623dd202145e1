"""Proof that a program is synchronised: what could go wrong whatever the timing, found without simulating.

Each engine runs its instructions in order, and a wait that is fed by a set orders the two instructions; everything
else may happen in any order. With vector clocks (for each instruction, how many instructions of each engine have
surely ended before it starts) two instructions that touch the same bytes are either ordered or a race. Flags are
matched in order: the n-th wait on a flag consumes its n-th set.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hwmodel.program.instructions import Instruction, Matmul
from hwmodel.program.memory import Operand, Part, Tile, Window, describe
from hwmodel.program.program import Program

SCALE_BUFFERS = {"l0a": "l0a_mx", "l0b": "l0b_mx"}
SCALE_ADDRESS_SHIFT = 4


class BufferLimits(NamedTuple):
    """Capacity and allocation unit of a buffer, in bytes."""

    capacity_bytes: int
    allocation_bytes: int


class Hazard(NamedTuple):
    """One provable fault: its kind, the core, the instructions involved, and a sentence."""

    kind: str
    core: int
    instructions: tuple[int, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(slots=True)
class _Access:
    engine: int
    position: int
    number: int


@dataclass(slots=True)
class _Segment:
    """Bytes [start, stop) of a buffer with one last writer and the readers since, the latest of each engine."""

    start: int
    stop: int
    writer: _Access | None
    readers: dict[int, _Access] = field(default_factory=dict)


@dataclass(slots=True)
class _Sets:
    """Every set of one signal so far: the count it reached and the clock of the engine that did it."""

    engine: int
    shared: bool = False
    reached: list[int] = field(default_factory=list)
    clocks: list[list[int]] = field(default_factory=list)


def find_hazards(program: Program, buffers: Mapping[str, BufferLimits], *, limit: int = 50) -> tuple[Hazard, ...]:
    """All hazards of a program, at most ``limit``, in program order. Cores that share instructions are checked once."""
    found: list[Hazard] = []
    seen: set[int] = set()
    for core in program.cores:
        if id(core.instructions) in seen:
            continue
        seen.add(id(core.instructions))
        found += _Checker(program, core.core, core.instructions, buffers, limit).run()
    found.sort(key=lambda hazard: (hazard.core, hazard.instructions))
    return tuple(found[:limit])


class _Checker:
    def __init__(
        self,
        program: Program,
        core: int,
        instructions: tuple[Instruction, ...],
        buffers: Mapping[str, BufferLimits],
        limit: int,
    ) -> None:
        self.tensors = program.tensors
        self.core = core
        self.instructions = instructions
        self.buffers = buffers
        self.limit = limit
        self.engines = {name: index for index, name in enumerate(dict.fromkeys(i.engine for i in instructions))}
        self.spaces: dict[str, list[_Segment]] = {}
        self.windows: dict[str, list[tuple[Window, _Access, bool]]] = {}
        self.written = {
            operand.tensor for i in instructions for operand in i.writes if isinstance(operand, Window)
        }
        self.found: list[Hazard] = []
        self.reported: set[tuple[str, int, int]] = set()
        self.checked: set[Operand] = set()

    def run(self) -> list[Hazard]:
        streams: list[list[Instruction]] = [[] for _ in self.engines]
        for instruction in self.instructions:
            self._bounds(instruction)
            streams[self.engines[instruction.engine]].append(instruction)
        self._order(streams)
        return self.found

    # -- order -----------------------------------------------------------------------------------------------------

    def _order(self, streams: list[list[Instruction]]) -> None:
        """Run through a linear extension of the order, lowest number first, carrying vector clocks."""
        count = len(streams)
        heads = [0] * count
        known = [[0] * count for _ in range(count)]
        sets: dict[str, _Sets] = {}
        totals: dict[str, int] = {}
        taken: dict[str, int] = {}
        while True:
            ready = None
            for engine, stream in enumerate(streams):
                if heads[engine] == len(stream):
                    continue
                instruction = stream[heads[engine]]
                if (ready is None or instruction.number < ready[1].number) and self._enabled(
                    instruction, totals, taken
                ):
                    ready = (engine, instruction)
            if ready is None:
                break
            engine, instruction = ready
            clock = known[engine]
            for wait in instruction.waits:
                if wait.at_least:
                    needed = wait.at_least
                else:
                    taken[wait.signal] = needed = taken.get(wait.signal, 0) + 1
                for other in self._clocks_of(sets[wait.signal], needed):
                    clock = list(map(max, clock, other))
            access = _Access(engine, heads[engine], instruction.number)
            self._touch(instruction, access, clock)
            clock = list(clock)
            clock[engine] = heads[engine] + 1
            known[engine] = clock
            for signal in instruction.sets:
                totals[signal.signal] = totals.get(signal.signal, 0) + signal.amount
                raised = sets.setdefault(signal.signal, _Sets(engine))
                raised.reached.append(totals[signal.signal])
                raised.clocks.append(clock)
                raised.shared |= raised.engine != engine
            heads[engine] += 1
        self._stuck(streams, heads, totals, taken)

    def _clocks_of(self, sets: _Sets, needed: int) -> list[list[int]]:
        """Clocks of the sets that a wait for ``needed`` surely follows.

        One engine raises a signal in its own order, so the first set that reaches the count is known. Where several
        engines raise it, their sets may come in any order: only a wait for all of them proves anything.
        """
        if not sets.shared:
            return [sets.clocks[bisect_left(sets.reached, needed)]]
        return sets.clocks if sets.reached[-1] == needed else []

    def _enabled(self, instruction: Instruction, totals: dict[str, int], taken: dict[str, int]) -> bool:
        needed: dict[str, int] = {}
        for wait in instruction.waits:
            if wait.at_least:
                if totals.get(wait.signal, 0) < wait.at_least:
                    return False
            else:
                needed[wait.signal] = needed.get(wait.signal, taken.get(wait.signal, 0)) + 1
        return all(totals.get(signal, 0) >= count for signal, count in needed.items())

    def _stuck(
        self, streams: list[list[Instruction]], heads: list[int], totals: dict[str, int], taken: dict[str, int]
    ) -> None:
        left = [stream[head] for stream, head in zip(streams, heads, strict=True) if head < len(stream)]
        if not left:
            return
        later: dict[str, int] = {}
        for stream, head in zip(streams, heads, strict=True):
            for instruction in stream[head:]:
                for signal in instruction.sets:
                    later[signal.signal] = later.get(signal.signal, 0) + signal.amount
        for instruction in left:
            for wait in instruction.waits:
                needed = wait.at_least or taken.get(wait.signal, 0) + 1
                there = totals.get(wait.signal, 0)
                if there >= needed:
                    continue
                if there + later.get(wait.signal, 0) < needed:
                    text = f"{_name(instruction)} waits for {wait.signal}, which nothing sets"
                    self._report("unset wait", (instruction.number,), text)
                else:
                    who = "an instruction that waits itself"
                    text = f"{_name(instruction)} waits for {wait.signal}, which is only set by {who}"
                    self._report("deadlock", (instruction.number,), text)

    # -- bytes -----------------------------------------------------------------------------------------------------

    def _touch(self, instruction: Instruction, access: _Access, clock: list[int]) -> None:
        for operand in instruction.reads:
            if isinstance(operand, Window):
                self._window(operand, access, clock, writes=False)
            else:
                self._read(instruction, operand, access, clock)
        for operand in instruction.writes:
            if isinstance(operand, Window):
                self._window(operand, access, clock, writes=True)
                continue
            if isinstance(instruction.params, Matmul) and instruction.params.accumulate:
                self._read(instruction, operand, access, clock)
            self._write(operand, access, clock)

    def _segments(self, operand: Tile | Part) -> tuple[list[_Segment], int, int]:
        """Segments of the operand's space, cut so that [first, last) are exactly its bytes."""
        space = operand.space if isinstance(operand, Tile) else operand.tile.space
        segments = self.spaces.get(space)
        if segments is None:
            end = self.buffers[space].capacity_bytes if space in self.buffers else 1 << 60
            segments = self.spaces[space] = [_Segment(0, end, None)]
        start, stop = operand.offset, operand.offset + operand.size
        for at in (start, stop):
            index = bisect_right(segments, at, key=lambda segment: segment.start) - 1
            segment = segments[index]
            if segment.start < at < segment.stop:
                segments.insert(index + 1, _Segment(at, segment.stop, segment.writer, dict(segment.readers)))
                segment.stop = at
        first = bisect_left(segments, start, key=lambda segment: segment.start)
        last = bisect_left(segments, stop, key=lambda segment: segment.start)
        return segments, first, last

    def _read(self, instruction: Instruction, operand: Tile | Part, access: _Access, clock: list[int]) -> None:
        segments, first, last = self._segments(operand)
        for segment in segments[first:last]:
            if segment.writer is None:
                text = f"{_name(instruction)} reads {describe(operand)}, which nobody wrote"
                self._report("unwritten", (instruction.number,), text)
            else:
                self._ordered(segment.writer, access, clock, operand, "writes", "reads")
            segment.readers[access.engine] = access

    def _write(self, operand: Tile | Part, access: _Access, clock: list[int]) -> None:
        segments, first, last = self._segments(operand)
        for segment in segments[first:last]:
            if segment.writer is not None:
                self._ordered(segment.writer, access, clock, operand, "writes", "overwrites")
            for reader in segment.readers.values():
                if reader is not access:
                    self._ordered(reader, access, clock, operand, "reads", "overwrites")
        if first < last:
            segments[first:last] = [_Segment(segments[first].start, segments[last - 1].stop, access)]

    def _window(self, window: Window, access: _Access, clock: list[int], *, writes: bool) -> None:
        """Global memory: only tensors that the program writes can race."""
        if window.tensor not in self.written:
            return
        accesses = self.windows.setdefault(window.tensor, [])
        for other, earlier, wrote in accesses:
            if (writes or wrote) and earlier.engine != access.engine and _overlap(other, window):
                before, now = ("writes" if wrote else "reads"), ("overwrites" if writes else "reads")
                self._ordered(earlier, access, clock, window, before, now)
        accesses.append((window, access, writes))

    def _ordered(
        self, earlier: _Access, access: _Access, clock: list[int], operand: Operand, before: str, now: str
    ) -> None:
        if earlier.position < clock[earlier.engine]:
            return
        first, second = self.instructions[earlier.number], self.instructions[access.number]
        pair = (min(earlier.number, access.number), max(earlier.number, access.number))
        text = f"{_name(first)} {before} and {_name(second)} {now} {describe(operand)}, with no order between them"
        self._report("race", pair, text)

    # -- bounds ----------------------------------------------------------------------------------------------------

    def _bounds(self, instruction: Instruction) -> None:
        for operand in (*instruction.reads, *instruction.writes):
            if operand in self.checked:
                continue
            self.checked.add(operand)
            if isinstance(operand, Window):
                self._window_bounds(instruction, operand)
            else:
                self._tile_bounds(instruction, operand)
        if isinstance(instruction.params, Matmul):
            self._scale_addresses(instruction)

    def _window_bounds(self, instruction: Instruction, window: Window) -> None:
        tensor = self.tensors.get(window.tensor)
        if tensor is None:
            text = f"{_name(instruction)} names tensor {window.tensor}, which is not there"
            self._report("beyond", (instruction.number,), text)
        elif window.row + window.rows > tensor.rows or window.col + window.cols > tensor.cols:
            size = f"[{tensor.rows}, {tensor.cols}]"
            text = f"{_name(instruction)} touches {describe(window)} beyond {size}"
            self._report("beyond", (instruction.number,), text)

    def _tile_bounds(self, instruction: Instruction, operand: Tile | Part) -> None:
        tile = operand.tile if isinstance(operand, Part) else operand
        limits = self.buffers.get(tile.space)
        if limits is None:
            text = f"{_name(instruction)} names buffer {tile.space}, which is not there"
            self._report("beyond", (instruction.number,), text)
            return
        stop = operand.offset + operand.size
        if stop > limits.capacity_bytes or operand.offset < 0:
            kind = "scale overrun" if tile.space in SCALE_BUFFERS.values() else "beyond"
            text = f"{_name(instruction)} touches {describe(operand)}; {tile.space} ends at {limits.capacity_bytes}"
            self._report(kind, (instruction.number,), text)
        if tile.offset % limits.allocation_bytes:
            unit = limits.allocation_bytes
            text = f"{_name(instruction)}: {describe(tile)} does not start at a multiple of {unit} bytes"
            self._report("misaligned", (instruction.number,), text)

    def _scale_addresses(self, instruction: Instruction) -> None:
        """The Cube finds the scales at the operand's address divided by 16; nothing in the hardware checks it."""
        tiles = {part.tile.space: part.tile for part in instruction.reads if isinstance(part, Part)}
        for data, scale in SCALE_BUFFERS.items():
            if data not in tiles or scale not in tiles:
                continue
            expected = tiles[data].offset >> SCALE_ADDRESS_SHIFT
            if tiles[scale].offset != expected:
                text = (
                    f"{_name(instruction)} reads scales at {scale}[{tiles[scale].offset}], "
                    f"the hardware looks at {data} offset / 16 = {expected}"
                )
                self._report("scale address", (instruction.number,), text)

    def _report(self, kind: str, numbers: tuple[int, ...], text: str) -> None:
        key = (kind, numbers[0], numbers[-1])
        if key not in self.reported and len(self.found) < self.limit:
            self.reported.add(key)
            self.found.append(Hazard(kind, self.core, numbers, text))


def _overlap(a: Window, b: Window) -> bool:
    rows = a.row < b.row + b.rows and b.row < a.row + a.rows
    return rows and a.col < b.col + b.cols and b.col < a.col + a.cols


def _name(instruction: Instruction) -> str:
    return f"{instruction.op} {instruction.number}"


def first_beyond(hazards: Iterable[Hazard]) -> Hazard | None:
    """The first region outside its buffer or tensor: such a program is refused before it runs."""
    return next((hazard for hazard in hazards if hazard.kind in ("beyond", "scale overrun")), None)
