"""trace.perfetto.json: the run for ui.perfetto.dev and chrome://tracing.

A process for each core, a thread for each engine in data-flow order, counters of buffer occupancy, arrows from
producer to consumer and from the instruction that freed a buffer to the one that waited for it. ``ts`` and ``dur`` are
modelled microseconds; cycles are in ``args``.

The full level has every instruction. The summary level has at most `WINDOWS` windows a row, each with its busy and
waiting time merged; the sums are still exact. Events are made and written one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hwmodel.analysis.flow import Lives, Ticks, times
from hwmodel.analysis.occupancy import core_tracks
from hwmodel.program.program import CoreProgram
from hwmodel.result import Result
from hwmodel.trace import WAIT_SPACE, Row
from hwmodel.writers import view
from hwmodel.writers.lanes import queues
from hwmodel.writers.perfetto_slices import WINDOWS, Clock, FullSlices, Slices, SummarySlices, encode


def write(result: Result, path: Path) -> None:
    """Write the trace file."""
    with path.open("w", encoding="utf-8", newline="\n", buffering=1 << 20) as file:
        head = encode(_about(result))
        file.write(f'{{"displayTimeUnit":"ns","otherData":{head},"traceEvents":[\n')
        separator = ""
        for event in events(result):
            file.write(separator)
            file.write(event)
            separator = ",\n"
        file.write("\n]}\n")


def _about(result: Result) -> dict[str, Any]:
    about: dict[str, Any] = {
        "name": result.name,
        "arch": result.arch.name,
        "calibrated": result.arch.calibrated,
        "cycles": result.cycles,
        "time_us": result.time_us,
        "clock_mhz": float(result.arch.spec.clock_mhz),
        "trace_level": "summary" if _summarised(result) else "full",
    }
    if _summarised(result):
        about["note"] = (
            f"summary: a slice merges what a row did in one of at most {WINDOWS} windows, busy time first, then waits; "
            "sums are exact, order inside a window is not kept; use --trace full for every instruction"
        )
    return about


def _summarised(result: Result) -> bool:
    return result.trace_level == "summary"


def events(result: Result) -> Iterator[str]:
    """All events as JSON texts."""
    trace, program, arch = result.trace, result.program, result.arch
    assert trace is not None
    assert program is not None
    clock = Clock(arch.tick_rate)
    rows = view.pipeline(arch, trace.rows)
    summarised = _summarised(result)
    threads: dict[int, int] = {}
    maker: Slices = SummarySlices(result, clock) if summarised else FullSlices(result, clock)
    for core in program.cores:
        fold = f", stands for {core.stands_for} equal cores" if core.stands_for > 1 else ""
        yield _meta("process_name", core.core + 1, 0, name=f"{arch.name} core {core.core}{fold}")
        yield _meta("process_sort_index", core.core + 1, 0, sort_index=core.core)
    free = 1
    for row in rows:
        count = 1 if summarised else max(queues(row), default=0) + 1
        threads[id(row)] = free
        for queue in range(count):
            number = f" queue {queue}" if count > 1 else ""
            yield _meta("thread_name", row.core + 1, free + queue, name=f"{row.engine} {row.unit}{number}")
            yield _meta("thread_sort_index", row.core + 1, free + queue, sort_index=free + queue)
        free += count
    arrows = _Arrows(clock, threads)
    for core in program.cores:
        mine = [row for row in rows if row.core == core.core]
        found = view.core_lives(result, core)
        for row in mine:
            yield from maker.row(row, threads[id(row)])
        starts, ends = times(core, trace)
        if not summarised:
            yield from arrows.data(core, mine, found, starts, ends)
            yield from arrows.space(mine)
        for track in core_tracks(core.core, found, starts, ends, arch):
            yield from maker.counter(track)


def _meta(what: str, pid: int, tid: int, **args: Any) -> str:
    return encode({"ph": "M", "pid": pid, "tid": tid, "name": what, "args": args})


class _Arrows:
    """Flow events. They follow the slices in the file, so a viewer that sorts by time finds the slice first."""

    def __init__(self, clock: Clock, threads: dict[int, int]) -> None:
        self.clock = clock
        self.threads = threads
        self.count = 0

    def data(self, core: CoreProgram, rows: list[Row], found: Lives, starts: Ticks, ends: Ticks) -> Iterator[str]:
        """From each producer to each consumer on another engine."""
        by_engine = {row.engine: row for row in rows}
        places: dict[str, int] = dict.fromkeys(by_engine, 0)
        position = []
        for instruction in core.instructions:
            position.append(places[instruction.engine])
            places[instruction.engine] += 1
        merged: dict[tuple[int, int], list[str]] = {}
        for producer, consumer, through in found.flows():
            if core.instructions[producer].engine != core.instructions[consumer].engine:
                merged.setdefault((producer, consumer), []).append(through)
        threads = {engine: _threads(row, self.threads[id(row)]) for engine, row in by_engine.items()}
        for (producer, consumer), buffers in merged.items():
            tail, head = (threads[core.instructions[index].engine][position[index]] for index in (producer, consumer))
            begin, end, at = int(starts[producer]), int(ends[producer]), int(starts[consumer])
            yield from self._arrow(core.core, " ".join(buffers), "data", (tail, head), (begin, end, at))

    def space(self, rows: list[Row]) -> Iterator[str]:
        """From the instruction that freed a buffer to the one that waited for it."""
        by_engine = {row.engine: row for row in rows}
        threads = {engine: _threads(row, self.threads[id(row)]) for engine, row in by_engine.items()}
        for row in rows:
            for stall in row.stalls:
                by = by_engine.get(stall.by)
                if stall.kind != WAIT_SPACE or by is None or stall.by_position < 0:
                    continue
                begin, end = by.starts[stall.by_position], by.ends[stall.by_position]
                head = _next_slice(row, stall.position)
                if end > begin and head is not None:
                    tids = threads[stall.by][stall.by_position], threads[row.engine][head]
                    yield from self._arrow(row.core, stall.cause, "space", tids, (begin, end, row.starts[head]))

    def _arrow(self, core: int, name: str, kind: str, tids: tuple[int, int], at: tuple[int, int, int]) -> Iterator[str]:
        self.count += 1
        begin, end, head = at
        end = max(begin, min(end, head))  # a flag may be set, or a race begin, before its producer ends
        tail = (begin + end) // 2 if end - begin >= 8 else begin
        us = self.clock.us
        rest = f'"pid":{core + 1},"cat":"{kind}","name":{encode(name)},"id":{self.count}'
        yield f'{{"ph":"s","ts":{us(tail)!r},"tid":{tids[0]},{rest}}}'
        yield f'{{"ph":"f","bp":"e","ts":{us(max(head, tail))!r},"tid":{tids[1]},{rest}}}'


def _next_slice(row: Row, position: int) -> int | None:
    """The first instruction from ``position`` on that takes time: flags standing alone have no slice."""
    count = len(row.starts)
    return next((place for place in range(position, count) if row.ends[place] > row.starts[place]), None)


def _threads(row: Row, first: int) -> list[int]:
    return [first + queue for queue in queues(row)] if row.parallel else [first] * len(row.instructions)
