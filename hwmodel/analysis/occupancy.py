"""How full each on-chip buffer is over time: from program and trace.

A tile occupies its bytes from the start of the instruction that writes it until the end of the last one that reads
it before it is overwritten. A tile that others add to (sums in L0C) lives on. A tile nobody reads lives while it is
written. Where a program races and overwrites what is still needed, the old tile ends when the new one starts, so a
byte never counts twice.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from hwmodel.analysis.flow import Lives, Ticks, lives, times
from hwmodel.arch import Arch
from hwmodel.program.program import Program
from hwmodel.trace import Trace


@dataclass(frozen=True)
class Track:
    """One buffer of one core.

    ``used_bytes[i]`` holds from ``ticks[i]`` until ``ticks[i + 1]``; the first tick is 0, the last value holds until
    the end of the run. The other columns have one entry for each tile that lay in the buffer, sorted by ``born``:
    its time, its bytes, and the instructions (indices in program order) that wrote it first and last.
    """

    core: int
    buffer: str
    capacity_bytes: int
    ticks: Ticks
    used_bytes: Ticks
    born: Ticks
    gone: Ticks
    offset: Ticks
    size: Ticks
    writer: Ticks
    last_writer: Ticks

    @property
    def peak_bytes(self) -> int:
        """Most bytes in use at any time."""
        return int(self.used_bytes.max(initial=0))

    def mean_bytes(self, end: int) -> float:
        """Mean over the run's ``end`` ticks."""
        if not end:
            return 0.0
        lengths = np.diff(np.append(self.ticks, end))
        return float((lengths * self.used_bytes).sum() / end)

    @property
    def reused(self) -> bool:
        """Whether a byte serves more than one tile."""
        order = np.argsort(self.offset, kind="stable")
        offset, size = self.offset[order], self.size[order]
        reach = np.maximum.accumulate(offset + size)
        return bool((offset[1:] < reach[:-1]).any())


def occupancy(trace: Trace, program: Program, arch: Arch, cores: Collection[int] | None = None) -> list[Track]:
    """Tracks of all buffers in the order of the arch file, for each core in ``cores`` (default: every simulated one).

    Buffers that a program does not touch are left out.
    """
    known: dict[int, Lives] = {}
    result = []
    for core in program.cores:
        if cores is not None and core.core not in cores:
            continue
        key = id(core.instructions)
        if key not in known:
            known[key] = lives(core.instructions)
        result += core_tracks(core.core, known[key], *times(core, trace), arch)
    return result


def core_tracks(core: int, found: Lives, starts: Ticks, ends: Ticks, arch: Arch) -> list[Track]:
    """Tracks of one core, from the lives of its program and the times of its instructions."""
    if not found.space:
        return []
    first, last = np.array(found.first, np.int64), np.array(found.writer, np.int64)
    size, offset = np.array(found.size, np.int64), np.array(found.offset, np.int64)
    born = starts[first]
    gone = ends[first]
    np.maximum.at(gone, np.array(found.read, np.int64), ends[np.array(found.reader, np.int64)])
    parent = np.array(found.parent, np.int64)
    for life in np.flatnonzero(parent >= 0).tolist():
        gone[life] = max(gone[life], gone[parent[life]])
    over = np.array(found.overwritten_by, np.int64)
    gone = np.where(over >= 0, np.minimum(gone, starts[over]), gone)
    alive = (gone > born) & (size > 0)
    space = np.array(found.space)
    result = []
    for name in arch.spec.buffers:
        here = np.flatnonzero(alive & (space == name))
        if here.size:
            here = here[np.lexsort((offset[here], born[here]))]
            columns = [column[here] for column in (born, gone, offset, size, first, last)]
            result.append(_track(core, name, arch.buffer_bytes(name), columns))
    return result


def _track(core: int, name: str, capacity: int, columns: list[Ticks]) -> Track:
    born, gone, _, size, *_ = columns
    moments, where = np.unique(np.concatenate(([0], born, gone)), return_inverse=True)
    change = np.zeros(len(moments), np.int64)
    np.add.at(change, where, np.concatenate(([0], size, -size)))
    kept = np.flatnonzero(change)
    kept = kept if change[0] else np.concatenate(([0], kept))
    return Track(core, name, capacity, moments[kept], np.cumsum(change)[kept], *columns)
