"""The Perfetto trace: what viewers need, and that it says what the statistics say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from hwmodel.analysis.statistics import row_cycles
from hwmodel.experiment import simulate
from hwmodel.result import Result
from hwmodel.scenario import load
from hwmodel.trace import BUSY, WAIT_INPUT, WAIT_SPACE
from hwmodel.writers import perfetto_slices
from hwmodel.writers.perfetto_slices import Clock

Events = list[dict[str, Any]]
Read = Callable[[Result], Events]


def slices(events: Events) -> dict[tuple[int, int], Events]:
    found: dict[tuple[int, int], Events] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    return found


def nanoseconds(event: dict[str, Any]) -> tuple[int, int]:
    """What a viewer makes of a slice: it cuts ``ts`` and ``dur`` to whole nanoseconds, each for itself."""
    begin = int(event["ts"] * 1000.0)
    return begin, begin + int(event["dur"] * 1000.0)


def test_rows_never_overlap_not_even_in_whole_nanoseconds(timed: Result, events: Read) -> None:
    for row in slices(events(timed)).values():
        now = 0
        for begin, end in map(nanoseconds, row):
            assert begin >= now
            now = end


def test_slices_sum_to_the_statistics(timed: Result, events: Read) -> None:
    trace, stats = timed.trace, timed.stats
    assert trace is not None
    assert stats is not None
    found = events(timed)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in found if e["ph"] == "M" and e["name"] == "thread_name"}
    per_us = timed.arch.spec.clock_mhz
    for row in trace.rows:
        if row.parallel:
            continue
        (key,) = [k for k, name in names.items() if name == f"{row.engine} {row.unit}" and k[0] == row.core + 1]
        expected = row_cycles(row, stats.cycles, trace.ticks_per_cycle)
        for kind, cycles in zip((BUSY, WAIT_INPUT, WAIT_SPACE), expected, strict=False):
            mine = [event for event in slices(found)[key] if event["cat"] == kind]
            assert sum(event["args"]["cycles"] for event in mine) == pytest.approx(
                cycles, abs=len(mine) * (trace.ticks_per_cycle > 1)
            )
            # the exact time, before cycles of another clock are rounded up
            exact = sum(Fraction(event["dur"]) for event in mine) * per_us
            assert float(exact) == pytest.approx(cycles, abs=1e-6 + len(mine) * (trace.ticks_per_cycle > 1))
    if stats.cycles:
        last = max(event["ts"] + event["dur"] for event in found if event["ph"] == "X")
        assert last == pytest.approx(stats.time_us, abs=float(1 / per_us) * (trace.ticks_per_cycle > 1) + 1e-9)


def test_cycles_of_slices_end_with_the_run(split: Result, events: Read) -> None:
    ends = [event["args"]["end_cycle"] for event in events(split) if event["ph"] == "X"]
    assert max(ends) == split.cycles


def test_names_categories_and_causes(split: Result, events: Read) -> None:
    found = [event for event in events(split) if event["ph"] == "X"]
    instructions = {i.number: i for i in split.program.cores[0].instructions}  # type: ignore[union-attr]
    assert {event["cat"] for event in found} == {BUSY, WAIT_INPUT, WAIT_SPACE}
    for event in found:
        args = event["args"]
        if event["cat"] == BUSY:
            instruction = instructions[args["instruction"]]
            assert event["name"].startswith(instruction.op)
            assert args["shape"]
            assert args["bytes"] > 0
            assert args["reads"]
            assert args["writes"]
            assert args["started_after"]
            assert args["cycles"] == args["end_cycle"] - args["start_cycle"]
        else:
            assert event["name"] == "wait"
            assert args["cause"].startswith("flag ")
            assert args["until_engine"]
            assert instructions[args["until_instruction"]].op in args["until"]
            assert instructions[args["before_instruction"]].op in args["before"]
    waits = [
        event["args"] for event in found if event["cat"] == WAIT_SPACE and event["args"]["before"] == "tmatmul_mx n1"
    ]
    assert [(w["cause"], w["until"]) for w in waits] == [("flag FIX>M:0", "tstore n0")]


def test_rows_come_in_data_flow_order_and_processes_are_cores(cores: Result, events: Read) -> None:
    meta = [event for event in events(cores) if event["ph"] == "M"]
    processes = [event["args"]["name"] for event in meta if event["name"] == "process_name"]
    assert processes == ["ascend_a6 core 0", "ascend_a6 core 1"]
    threads = [(e["pid"], e["args"]["name"]) for e in meta if e["name"] == "thread_name"]
    assert threads == [(p, n) for p in (1, 2) for n in ("MTE2 tload", "MTE1 textract", "M cube", "FIX fixpipe")]
    order = [event["args"]["sort_index"] for event in meta if event["name"] == "thread_sort_index"]
    assert order == sorted(order)


@pytest.mark.parametrize("name", ["split", "cores", "clocks"])
def test_arrows_leave_a_slice_and_enter_one(name: str, request: pytest.FixtureRequest, events: Read) -> None:
    found = events(request.getfixturevalue(name))
    rows = slices(found)
    arrows: dict[int, Events] = defaultdict(list)
    for event in found:
        if event["ph"] in "sf":
            arrows[event["id"]].append(event)
    assert arrows
    for tail, head in arrows.values():
        assert (tail["ph"], head["ph"], head["bp"]) == ("s", "f", "e")
        assert tail["ts"] <= head["ts"]
        assert (tail["pid"], tail["tid"]) != (head["pid"], head["tid"])
        for event in (tail, head):
            at = int(event["ts"] * 1000.0)
            inside = [s for s in rows[event["pid"], event["tid"]] if nanoseconds(s)[0] <= at <= nanoseconds(s)[1]]
            assert any(s["cat"] == BUSY for s in inside)
    assert {event["cat"] for event in found if event["ph"] == "s"} == {"data", "space"}


def test_arrows_join_producers_and_consumers(split: Result, events: Read) -> None:
    found = events(split)
    starts = {(e["tid"], e["ts"]): e["name"] for e in found if e["ph"] == "X" and e["cat"] == BUSY}
    into_stores = [e for e in found if e["ph"] == "f" and starts[e["tid"], e["ts"]].startswith("tstore")]
    assert [(e["name"], e["cat"]) for e in into_stores] == [("l0c", "data")] * 3


def test_counters_are_steps_within_the_capacity(timed: Result, events: Read) -> None:
    counters: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    for event in events(timed):
        if event["ph"] == "C":
            (value,) = event["args"].values()
            counters[event["pid"], event["name"]].append((event["ts"], value))
    for (_, name), samples in counters.items():
        times = [ts for ts, _ in samples]
        assert times[0] == 0
        assert all(a < b for a, b in pairwise(times))
        if name.endswith("occupancy"):
            capacity = timed.arch.buffer_bytes(name.split()[0].lower())
            assert all(0 <= value <= capacity for _, value in samples)
            assert max(value for _, value in samples) > 0
            assert times[-1] == pytest.approx(timed.time_us or 0, abs=0.001)


def test_the_summary_level_is_small_and_exact(long: Result, events: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto_slices, "WINDOWS", 50)
    found = events(replace(long, trace_level="summary"))
    for row in slices(found).values():
        assert len(row) <= 3 * 50
    assert {event["name"] for event in found if event["ph"] == "X"} == {
        "tload",
        "textract",
        "tmatmul",
        "tstore",
        "wait",
    }
    assert not [event for event in found if event["ph"] in "sf"]


def test_a_short_run_has_no_more_windows_than_its_longest_row_has_instructions(timed: Result, events: Read) -> None:
    assert timed.trace is not None
    most = max(len(row.instructions) for row in timed.trace.rows)
    found = slices(events(replace(timed, trace_level="summary")))
    assert all(len(row) <= 3 * max(perfetto_slices.LEAST_WINDOWS, most) for row in found.values())


def test_parallel_rows_become_queues(parallel: Result, events: Read) -> None:
    found = events(parallel)
    threads = [event["args"]["name"] for event in found if event["ph"] == "M" and event["name"] == "thread_name"]
    assert threads == ["MTE2 tload queue 0", "MTE2 tload queue 1", "MTE2 tload queue 2"]
    assert [(e["tid"], e["name"]) for e in found if e["ph"] == "X"] == [
        (1, "tload n0"),
        (2, "tload n1"),
        (3, "wait"),
        (3, "tload n2"),
    ]


def test_parallel_rows_say_why_they_started_and_wait_for_nothing_before_their_first_instruction(events: Read) -> None:
    found = events(simulate(load("neuron_transpose"), values="skip"))
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in found if e["name"] == "thread_name"}
    engines: dict[str, Events] = defaultdict(list)
    for key, row in slices(found).items():
        engines[rows[key].split()[0]] += row
    started = {e["args"]["start_cycle"]: e["args"]["started_after"] for e in engines["PE"] if e["cat"] == BUSY}
    assert started == {
        32: "semaphore PEW ended, by load_weights i0 of PEW",
        308: "the instruction before it",
        584: "the instruction before it",
        860: "the instruction before it",
    }
    assert [e["args"]["started_after"] for e in engines["PEW"] if e["cat"] == BUSY][:2] == [
        "launch",
        "the instruction before it",
    ]
    for row in engines.values():
        assert min(row, key=lambda event: event["ts"])["cat"] == BUSY
    starts = {(e["tid"], e["ts"]) for row in engines.values() for e in row if e["cat"] == BUSY}
    heads = [event for event in found if event["ph"] == "f"]
    assert [e["name"] for e in heads].count("semaphore PE streamed") == 2
    assert all((e["tid"], e["ts"]) in starts for e in heads)


@pytest.mark.parametrize("rate", [Fraction(1650), Fraction(1400), Fraction(10000, 3), Fraction(2800)])
def test_times_cut_to_nanoseconds_are_the_exact_ones_cut(rate: Fraction) -> None:
    clock = Clock(rate)
    for ticks in [*range(5000), 10**6 + 7, 10**9 + 9]:
        assert int(clock.us(ticks) * 1000.0) == ticks * 1000 // rate
        assert clock.us(ticks) == pytest.approx(float(ticks / rate), rel=1e-15)
