"""Proof that a program is synchronised: what could go wrong whatever the timing, found without simulating.

Each engine runs its instructions in order, and a wait that is fed by a set orders the two instructions; everything
else may happen in any order. With vector clocks (for each instruction, how many instructions of each engine have
surely ended before it starts) two instructions that touch the same bytes are either ordered or a race. Flags are
matched in order: the n-th wait on a flag consumes its n-th set. Where several engines raise a signal, their sets may
come in any order, so a wait proves of each engine only what the others cannot have done in its place.

An engine whose instructions overlap starts the next one when the last one's operands have been read, and they end in
order: what it wrote is there for its own reads only after a wait. So a clock counts twice for each engine, what has
ended and what has been read; ``frees`` raise the second count only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hwmodel.program.instructions import Instruction, Matmul, called
from hwmodel.program.memory import Operand, Part, Tile, Window, describe
from hwmodel.program.program import Program
from hwmodel.program.regions import BufferLimits, Regions, partitions_of

BEFORE = -1
"""Stands for an engine: what lies in a buffer before the program starts was written before everything."""


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
    """The sets of one signal by one engine so far: the count it reached by itself, and its clock after that."""

    reached: list[int] = field(default_factory=list)
    clocks: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class _Use:
    """Who uses a signal in the whole program: how often each engine raises it, which engines consume it, and when."""

    raised: dict[int, int] = field(default_factory=dict)
    last_set: Instruction | None = None
    consumed: dict[int, int] = field(default_factory=dict)
    consumers: dict[int, Instruction] = field(default_factory=dict)
    is_flag: bool = False


def find_hazards(
    program: Program,
    buffers: Mapping[str, BufferLimits],
    *,
    overlapped: Collection[str] = (),
    limit: int = 50,
) -> tuple[Hazard, ...]:
    """All hazards of a program, at most ``limit``, in program order. Cores that share instructions are checked once.

    ``overlapped`` names the engines whose instructions overlap.
    """
    found: list[Hazard] = []
    seen: set[int] = set()
    for core in program.cores:
        if id(core.instructions) in seen:
            continue
        seen.add(id(core.instructions))
        found += _Checker(program, core.core, core.instructions, buffers, overlapped, limit).run()
    found.sort(key=lambda hazard: (hazard.core, hazard.instructions))
    return tuple(found[:limit])


class _Checker:
    def __init__(
        self,
        program: Program,
        core: int,
        instructions: tuple[Instruction, ...],
        buffers: Mapping[str, BufferLimits],
        overlapped: Collection[str],
        limit: int,
    ) -> None:
        self.tensors = program.tensors
        self.core = core
        self.instructions = instructions
        self.buffers = buffers
        self.limit = limit
        self.engines = {name: index for index, name in enumerate(dict.fromkeys(i.engine for i in instructions))}
        self.initial = program.initial
        self.overlapped = {index for name, index in self.engines.items() if name in overlapped}
        self.spaces: dict[tuple[str, int], list[_Segment]] = {}
        self.bands = self._bands()
        self.windows: dict[str, dict[int, list[tuple[Window, _Access, bool]]]] = {}
        self.written = {operand.tensor for i in instructions for operand in i.writes if isinstance(operand, Window)}
        self.found: list[Hazard] = []
        self.reported: set[tuple[str, int, int]] = set()

    def run(self) -> list[Hazard]:
        streams: list[list[Instruction]] = [[] for _ in self.engines]
        regions = Regions(self.tensors, self.buffers)
        for instruction in self.instructions:
            for kind, text in regions.faults(instruction):
                self._report(kind, (instruction.number,), f"{_name(instruction)} {text}")
            streams[self.engines[instruction.engine]].append(instruction)
        self.uses = _uses(streams)
        for _, tile in self.initial:
            self._write(tile, _Access(BEFORE, -1, -1), [])
        self._order(streams)
        return self.found

    # -- order -----------------------------------------------------------------------------------------------------

    def _order(self, streams: list[list[Instruction]]) -> None:
        """Run through a linear extension of the order, lowest number first, carrying vector clocks."""
        count = len(streams)
        heads = [0] * count
        known = [[0] * (2 * count) for _ in range(count)]
        sets: dict[tuple[str, int], _Sets] = {}
        totals: dict[str, int] = {}
        taken: dict[str, int] = {}
        own: dict[tuple[str, int], int] = {}
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
                needed = wait.at_least
                if not needed:
                    taken[wait.signal] = taken.get(wait.signal, 0) + 1
                    own[wait.signal, engine] = needed = own.get((wait.signal, engine), 0) + 1
                for other in self._clocks_of(wait.signal, needed, sets):
                    clock = list(map(max, clock, other))
            access = _Access(engine, heads[engine], instruction.number)
            self._touch(instruction, access, clock)
            read = list(clock)
            read[count + engine] = heads[engine] + 1
            ended = list(read)
            ended[engine] = heads[engine] + 1
            known[engine] = read if engine in self.overlapped else ended
            for signals, after in ((instruction.frees, read), (instruction.sets, ended)):
                for signal, amount in signals:
                    totals[signal] = totals.get(signal, 0) + amount
                    raised = sets.setdefault((signal, engine), _Sets())
                    raised.reached.append((raised.reached[-1] if raised.reached else 0) + amount)
                    raised.clocks.append(after)
            heads[engine] += 1
        if not self._stuck(streams, heads, totals, taken):
            self._left_set()
        self._shared_flags()

    def _clocks_of(self, signal: str, needed: int, sets: Mapping[tuple[str, int], _Sets]) -> Iterator[list[int]]:
        """Clocks that a wait for ``needed`` surely follows: of each engine, what the others together fall short of."""
        raised = self.uses[signal].raised
        total = sum(raised.values())
        for engine, count in raised.items():
            surely = needed - (total - count)
            if surely > 0:
                done = sets[signal, engine]
                yield done.clocks[bisect_left(done.reached, surely)]

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
    ) -> bool:
        """Report what can never start; False where everything can."""
        left = [stream[head] for stream, head in zip(streams, heads, strict=True) if head < len(stream)]
        if not left:
            return False
        later: dict[str, int] = {}
        for stream, head in zip(streams, heads, strict=True):
            for instruction in stream[head:]:
                for signal in (*instruction.sets, *instruction.frees):
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
        return True

    def _left_set(self) -> None:
        for signal, use in self.uses.items():
            extra = sum(use.raised.values()) - sum(use.consumed.values())
            if use.is_flag and extra > 0 and use.last_set is not None:
                text = f"{_name(use.last_set)} sets {signal}, which nothing waits for any more: it stays set"
                self._report("left set", (use.last_set.number,), text)

    def _shared_flags(self) -> None:
        for signal, use in self.uses.items():
            if len(use.consumers) > 1:
                first, second = list(use.consumers.values())[:2]
                text = f"{_name(first)} and {_name(second)} both wait for {signal}: which of them gets a set is open"
                numbers = (min(first.number, second.number), max(first.number, second.number))
                self._report("shared flag", numbers, text)

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
                self._read(instruction, operand, access, clock, adds=True)
            self._write(operand, access, clock)

    def _bands(self) -> dict[str, list[int]]:
        """Partitions at which any operand begins or ends, for each buffer with partitions."""
        edges: dict[str, set[int]] = {}
        operands = {operand for i in self.instructions for operand in (*i.reads, *i.writes)}
        for operand in (*operands, *(tile for _, tile in self.initial)):
            if not isinstance(operand, Window):
                space, first, last = partitions_of(operand)
                if space in self.buffers and self.buffers[space].partitions > 1:
                    edges.setdefault(space, set()).update((first, last))
        return {space: sorted(found) for space, found in edges.items()}

    def _segments(self, operand: Tile | Part) -> Iterator[tuple[list[_Segment], int, int]]:
        """Segments of the operand's space, cut so that [first, last) are exactly its bytes; for each of its bands."""
        space, begin, end = partitions_of(operand)
        edges = self.bands.get(space)
        if edges is None:
            yield self._cut((space, 0), operand)
            return
        for band in range(bisect_left(edges, begin), bisect_left(edges, end)):
            yield self._cut((space, band), operand)

    def _cut(self, key: tuple[str, int], operand: Tile | Part) -> tuple[list[_Segment], int, int]:
        segments = self.spaces.get(key)
        if segments is None:
            end = self.buffers[key[0]].capacity_bytes if key[0] in self.buffers else 1 << 60
            segments = self.spaces[key] = [_Segment(0, end, None)]
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

    def _read(
        self, instruction: Instruction, operand: Tile | Part, access: _Access, clock: list[int], *, adds: bool = False
    ) -> None:
        for segments, first, last in self._segments(operand):
            for segment in segments[first:last]:
                if segment.writer is None:
                    text = f"{_name(instruction)} reads {describe(operand)}, which nobody wrote"
                    self._report("unwritten", (instruction.number,), text)
                else:
                    self._ordered(segment.writer, access, clock, operand, "writes", "adds to" if adds else "reads")
                segment.readers[access.engine] = access

    def _write(self, operand: Tile | Part, access: _Access, clock: list[int]) -> None:
        for segments, first, last in self._segments(operand):
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
        accesses = self.windows.setdefault(window.tensor, {})
        for engine, earlier_ones in accesses.items():
            if engine == access.engine and engine not in self.overlapped:
                continue  # in order; a long run has many of them
            for other, earlier, wrote in earlier_ones:
                if (writes or wrote) and _overlap(other, window):
                    before, now = ("writes" if wrote else "reads"), ("overwrites" if writes else "reads")
                    self._ordered(earlier, access, clock, window, before, now)
        accesses.setdefault(access.engine, []).append((window, access, writes))

    def _ordered(
        self, earlier: _Access, access: _Access, clock: list[int], operand: Operand, before: str, now: str
    ) -> None:
        engine = earlier.engine
        if engine == BEFORE or earlier.position < clock[engine if before == "writes" else len(self.engines) + engine]:
            return
        if engine == access.engine and before == "writes" and now != "reads":
            return  # it ends in order
        first, second = self.instructions[earlier.number], self.instructions[access.number]
        pair = (min(earlier.number, access.number), max(earlier.number, access.number))
        text = f"{_name(first)} {before} and {_name(second)} {now} {describe(operand)}, with no order between them"
        self._report("race", pair, text)

    def _report(self, kind: str, numbers: tuple[int, ...], text: str) -> None:
        key = (kind, numbers[0], numbers[-1])
        if key not in self.reported and len(self.found) < self.limit:
            self.reported.add(key)
            self.found.append(Hazard(kind, self.core, numbers, text))


def _uses(streams: list[list[Instruction]]) -> dict[str, _Use]:
    """Every signal of a program. What set_flag raises or a wait consumes is a flag; the others are semaphores."""
    found: dict[str, _Use] = {}
    for engine, stream in enumerate(streams):
        for instruction in stream:
            for signal, at_least in instruction.waits:
                use = found.setdefault(signal, _Use())
                if not at_least:
                    use.is_flag = True
                    use.consumed[engine] = use.consumed.get(engine, 0) + 1
                    use.consumers.setdefault(engine, instruction)
            for signal, amount in (*instruction.sets, *instruction.frees):
                use = found.setdefault(signal, _Use())
                use.is_flag |= instruction.op == "set_flag"
                use.raised[engine] = use.raised.get(engine, 0) + amount
                use.last_set = instruction
    return found


def _overlap(a: Window, b: Window) -> bool:
    rows = a.row < b.row + b.rows and b.row < a.row + a.rows
    return rows and a.col < b.col + b.cols and b.col < a.col + a.cols


def _name(instruction: Instruction) -> str:
    number, op = called(instruction)
    return f"{op} {number}" if op == instruction.op else f"{op} {number} ({instruction.op})"


def first_beyond(hazards: Iterable[Hazard]) -> Hazard | None:
    """The first region outside its buffer or tensor: such a program is refused before it runs."""
    return next((hazard for hazard in hazards if hazard.kind in ("beyond", "scale overrun")), None)


__all__ = ["BufferLimits", "Hazard", "find_hazards", "first_beyond"]
