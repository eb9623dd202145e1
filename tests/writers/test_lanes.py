"""Rows as columns: unions, shares, queues, step functions, by hand."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from hwmodel.analysis.statistics import row_cycles
from hwmodel.result import Result
from hwmodel.trace import BUSY, WAIT_INPUT, WAIT_SPACE, Row
from hwmodel.writers.lanes import covered, lane, maxima, queues, union
from hwmodel.writers.perfetto_slices import window_edges


def ticks(*values: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(values, np.int64)


def test_union() -> None:
    starts, ends = union(ticks(0, 2, 10, 12, 20), ticks(5, 4, 12, 15, 30))
    assert (starts.tolist(), ends.tolist()) == ([0, 10, 20], [5, 15, 30])
    assert union(ticks(), ticks())[0].size == 0


def test_covered() -> None:
    found = covered(ticks(2, 10), ticks(5, 12), ticks(0, 2, 3, 5, 7, 11, 12, 99))
    assert found.tolist() == [0, 0, 1, 3, 3, 4, 5, 5]


def test_maxima_of_a_step_function() -> None:
    found = maxima(ticks(0, 3, 5, 8), ticks(1, 9, 2, 0), ticks(0, 2, 4, 6, 8, 10))
    assert found.tolist() == [1, 9, 9, 2, 0]


def test_shares_sum_to_the_statistics(timed: Result) -> None:
    trace, stats = timed.trace, timed.stats
    assert trace is not None
    assert stats is not None
    for row in trace.rows:
        shares = lane(row).shares(ticks(0, trace.end // 3, trace.end // 2, trace.end))
        expected = row_cycles(row, stats.cycles, trace.ticks_per_cycle)
        count = len(row.starts) + len(row.stalls)
        for kind, cycles in zip((BUSY, WAIT_INPUT, WAIT_SPACE), expected, strict=False):
            exact = shares[kind].sum() / trace.ticks_per_cycle
            assert exact == pytest.approx(cycles, abs=count * (trace.ticks_per_cycle > 1))


def test_queues_take_the_first_free_one() -> None:
    starts, ends = array("q", [0, 1, 5, 6, 20]), array("q", [5, 9, 7, 8, 21])
    row = Row(0, "E", "e", (), True, starts, ends)
    assert queues(row) == [0, 1, 0, 2, 0]
    row.parallel = False
    assert queues(row) == []


def test_window_edges() -> None:
    assert window_edges(0, 10).tolist() == [0]
    assert window_edges(7, 10).tolist() == list(range(8))
    edges = window_edges(1003, 10)
    assert (edges[0], edges[-1], len(edges) - 1 <= 10) == (0, 1003, True)
