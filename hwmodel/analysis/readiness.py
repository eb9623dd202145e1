"""When an instruction could have started for its operands' sake: inputs written, and the bytes it overwrites free.

A flag may come later than that. The difference is what the order of flags costs, and no wait for data or for space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hwmodel.analysis.flow import Lives, Ticks


@dataclass(frozen=True)
class Readiness:
    """One entry for each instruction of a core, in program order; 0 and -1 where it needs nobody.

    ``data`` is the tick at which the last of its inputs had been written, by instruction ``data_by``; ``space`` the
    tick at which the last reader (or writer) of the bytes it overwrites had ended, instruction ``space_by``, which
    used ``buffer``.
    """

    data: Ticks
    data_by: Ticks
    space: Ticks
    space_by: Ticks
    buffer: Sequence[str]


def readiness(lives: Lives, ends: Ticks) -> Readiness:
    """From what lived in the buffers of a core, and when its instructions ended."""
    count = len(ends)
    through = np.array([(flow.producer, flow.consumer) for flow in lives.through_gm], np.int64).reshape(-1, 2)
    producer = np.concatenate((np.array(lives.producer, np.int64), through[:, 0]))
    consumer = np.concatenate((np.array(lives.reader, np.int64), through[:, 1]))
    other = producer != consumer
    data, data_by = _latest(count, consumer[other], producer[other], ends)

    life = np.array(lives.read, np.int64)
    writer = np.array(lives.writer, np.int64)
    reader = np.array(lives.reader, np.int64)
    each = np.arange(len(writer), dtype=np.int64)
    used, used_by = _latest(len(writer), np.concatenate((each, life)), np.concatenate((writer, reader)), ends)
    for piece, parent in enumerate(lives.parent):
        if parent >= 0 and used[parent] > used[piece]:
            used[piece], used_by[piece] = used[parent], used_by[parent]
    over = np.array(lives.overwritten_by, np.int64)
    ended = np.flatnonzero(over >= 0)
    space, which = _latest(count, over[ended], ended, used)
    space_by = np.where(which >= 0, used_by[which], -1) if len(used_by) else which
    buffer = [lives.space[index] if index >= 0 else "" for index in which.tolist()]
    return Readiness(data, data_by, space, space_by, buffer)


def _latest(count: int, group: Ticks, member: Ticks, times: Ticks) -> tuple[Ticks, Ticks]:
    """(latest time, the member it belongs to) of each group."""
    order = np.argsort(times[member], kind="stable") if member.size else np.zeros(0, np.int64)
    latest = np.zeros(count, np.int64)
    by = np.full(count, -1, np.int64)
    latest[group[order]] = times[member[order]]  # the last of equal indices stays
    by[group[order]] = member[order]
    return latest, by
