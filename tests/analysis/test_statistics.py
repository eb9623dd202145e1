"""Statistics of a trace: every cycle has one reason, with numbers worked out by hand."""

from __future__ import annotations

from array import array
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Script, machine, prepared, program_of, simulated, timeline, traced

from hwmodel.analysis.statistics import alone_cycles, row_cycles, statistics, unit_cycles
from hwmodel.experiment import run
from hwmodel.program import Extract, Load, Matmul, Store
from hwmodel.quantities import exact_means
from hwmodel.trace import WAIT_INPUT, WAIT_SPACE, Row, Stall, Trace, check_well_formed, spans


def row(times: list[tuple[int, int]], stalls: list[tuple[int, int, int, str]] = (), *, parallel: bool = False) -> Row:  # type: ignore[assignment]
    script = Script()
    for _ in times:
        script.add("MTE1", Extract(1, "l0a"))
    return Row(
        0, "MTE1", "textract", tuple(script.instructions), parallel,
        array("q", [start for start, _ in times]), array("q", [end for _, end in times]),
        [Stall(start, end, position, kind, "flag f", "M", 0) for start, end, position, kind in stalls],
    )  # fmt: skip


def test_every_cycle_of_a_row_has_one_reason() -> None:
    waits = [(0, 10, 0, WAIT_INPUT), (20, 25, 1, WAIT_INPUT), (30, 40, 2, WAIT_SPACE)]
    one = row([(10, 20), (25, 30), (40, 45)], waits)
    # busy 10 + 5 + 5; before the first instruction it is idle, whatever it waits for; after the last one too
    assert row_cycles(one, 100, 1) == (20, 5, 10, 65)
    assert [(s.start, s.end, s.kind) for s in spans(one, 100)] == [
        (0, 10, "idle"), (10, 20, "busy"), (20, 25, "wait_input"), (25, 30, "busy"), (30, 40, "wait_space"),
        (40, 45, "busy"), (45, 100, "idle"),
    ]  # fmt: skip


def test_two_waits_before_one_instruction() -> None:
    one = row([(0, 5), (20, 25)], [(5, 12, 1, WAIT_INPUT), (12, 20, 1, WAIT_SPACE)])
    assert row_cycles(one, 25, 1) == (10, 7, 8, 0)


def test_flags_standing_alone_take_no_time_and_start_nothing() -> None:
    """A set_flag at 0 does not make the wait after it a wait: nothing has been issued that takes time."""
    one = row([(0, 0), (10, 20), (30, 30), (30, 35), (50, 50)], [
        (0, 10, 1, WAIT_INPUT), (20, 30, 2, WAIT_SPACE), (35, 50, 4, WAIT_SPACE),
    ])  # fmt: skip
    assert row_cycles(one, 60, 1) == (15, 0, 10, 35)
    assert [(s.start, s.end, s.kind) for s in spans(one, 60)] == [
        (0, 10, "idle"), (10, 20, "busy"), (20, 30, "wait_space"), (30, 35, "busy"), (35, 60, "idle"),
    ]  # fmt: skip


def test_a_row_that_never_ran_is_idle() -> None:
    assert row_cycles(row([]), 42, 1) == (0, 0, 0, 42)
    assert [(s.start, s.end, s.kind, s.cause) for s in spans(row([]), 42)] == [(0, 42, "idle", "not used")]


def test_boundaries_are_rounded_up_before_differences_are_taken() -> None:
    """Three ticks a cycle: ticks 1, 5, 11 and 13 are cycles 1, 2, 4 and 5."""
    one = row([(1, 5), (11, 13)], [(5, 11, 1, WAIT_INPUT)])
    assert row_cycles(one, 5, 3) == (1 + 1, 2, 0, 1)


def test_a_parallel_row_is_busy_when_any_instruction_is() -> None:
    one = row([(0, 10), (4, 12), (20, 25), (21, 22)], parallel=True)
    assert row_cycles(one, 30, 1)[0] == 12 + 5
    assert unit_cycles([one], 30, 1) == (17, 0, 0, 13)


def test_a_unit_of_several_rows_is_busy_when_any_row_is() -> None:
    first = row([(0, 10), (20, 30)], [(10, 20, 1, WAIT_SPACE)])
    second = row([(5, 12), (28, 40)], [(12, 28, 1, WAIT_INPUT)])
    # busy 0..12 and 20..40; not busy 12..20, when the second waits for input (and the first for space)
    assert unit_cycles([first, second], 50, 1) == (32, 8, 0, 10)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from([WAIT_INPUT, WAIT_SPACE])), max_size=8),
       st.integers(1, 5), st.integers(0, 20))  # fmt: skip
def test_the_four_kinds_always_sum_to_the_cycles(steps: list[tuple[int, int, str]], ticks: int, rest: int) -> None:
    now, times, stalls = 0, [], []
    for position, (wait, length, kind) in enumerate(steps):
        if wait:
            stalls.append((now, now + wait, position, kind))
        times.append((now + wait, now + wait + length))
        now += wait + length
    one = row(times, stalls)
    cycles = -(-(now + rest) // ticks)
    parts = row_cycles(one, cycles, ticks)
    assert sum(parts) == cycles
    assert min(parts) >= 0
    trace = Trace([one], now + rest, 0, ticks, (1,))
    assert check_well_formed(trace) == []
    by_kind = dict.fromkeys(("busy", "wait_input", "wait_space", "idle"), 0)
    for span in spans(one, now + rest):
        by_kind[span.kind] += -(-span.end // ticks) + (-span.start // ticks)
    assert tuple(by_kind.values()) == parts


def test_two_clocks() -> None:
    """Reference 1000 MHz, FIXPIPE 1500: ticks at 3000 MHz, 3 a cycle, 2 of FIXPIPE's.

    The matmul ends at cycle 537 (test_timeline), tick 1611. The store takes 338 of its own cycles, 676 ticks: until
    tick 2287, 762.33 cycles, 763 rounded up.
    """
    result = simulated(64, 64, 64, arch__clock_mhz=1000, arch__units__fixpipe__clock_mhz=1500)
    assert result.cycles == 763
    assert result.stats is not None
    fixpipe = result.stats.units["fixpipe"]
    assert (fixpipe.busy_cycles, fixpipe.idle_cycles) == (763 - 537, 537)
    assert fixpipe.alone_cycles == 226  # 676 / 3 = 225.33
    assert result.stats.units["cube"].busy_cycles == 21
    assert result.stats.units["tload"].alone_cycles == 472  # links too count in cycles of the reference clock
    assert result.time_us == 0.763
    for unit in result.stats.units.values():
        assert unit.busy_cycles + unit.wait_input_cycles + unit.wait_space_cycles + unit.idle_cycles == 763


def test_two_clocks_that_are_no_multiples() -> None:
    """1650 and 1000 MHz: common rate 33,000, 20 ticks a cycle, 33 a FIXPIPE cycle. 537 x 20 + 338 x 33 = 21,894."""
    ready = prepared(64, 64, 64, arch__clock_mhz=1650, arch__units__fixpipe__clock_mhz=1000)
    assert ready.scenario.arch.ticks_per_cycle == 20
    result = run(ready)
    assert result.trace is not None
    assert result.trace.end == 21894
    assert result.cycles == 1095  # 1094.7
    assert result.values.status == "bit_exact"


def test_alone_is_what_the_instructions_take_uncontended() -> None:
    """Loads: 100 + bytes/64 each, whatever others do on the link; the run itself may take longer."""
    tiling = {"kind": "blocked", "core_grid": [2, 2], "base": [64, 128, 64], "panel_slices": 2, "cores": "all"}
    free = simulated(128, 256, 128, tiling=tiling)
    tight = simulated(128, 256, 128, tiling=tiling, arch__links__hbm__bytes_per_cycle=80)
    assert free.stats is not None
    assert tight.stats is not None
    # a core loads A 64 x 256 / 2 = 8,192 bytes (+ 4 x 4 cells x 64 = 1,024) and B the same, in 4 loads: 400 + 288
    assert free.stats.units["tload"].alone_cycles == tight.stats.units["tload"].alone_cycles == 688
    assert free.stats.units["tload"].busy_cycles == 688
    assert tight.stats.units["tload"].busy_cycles > 688
    assert tight.cycles > free.cycles  # type: ignore[operator]


def test_several_cores_are_a_mean_padded_to_the_last_end() -> None:
    """Rows 64 + 36: the second core has less to do and is idle in the end; traffic and work are sums."""
    tiling = {"kind": "blocked", "core_grid": [2, 1], "base": [64, 64, 64], "panel_slices": 1, "cores": "all"}
    result = simulated(100, 64, 64, tiling=tiling)
    stats, trace = result.stats, result.trace
    assert stats is not None
    assert trace is not None
    assert stats.cores == 2
    drains = [sum(end - start for start, end in zip(r.starts, r.ends, strict=True)) for r in trace.rows_of("fixpipe")]
    assert drains == [50 + 288, 50 + 162]  # rows x 4.5
    assert stats.units["fixpipe"].busy_cycles == sum(drains) / 2 == 275
    assert stats.units["fixpipe"].instructions == 2 * (1 + 1)  # the store, and the flag that it primes
    assert stats.gm_write_bytes == 100 * 64 * 2
    assert stats.macs == 100 * 64 * 64
    for unit in stats.units.values():
        total = unit.busy_cycles + unit.wait_input_cycles + unit.wait_space_cycles + unit.idle_cycles
        assert total == stats.cycles


def test_means_of_a_number_of_cores_that_is_no_power_of_two_sum_exactly() -> None:
    """Over 27 cores a third of a cycle is left in each sum, which plain divisions do not give back."""
    tiling = {"kind": "blocked", "core_grid": [5, 6], "base": [64, 64, 128], "panel_slices": 1, "cores": "all"}
    stats = simulated(333, 300, 777, tiling=tiling).stats
    assert stats is not None
    assert stats.cores % 3 == 0
    parts = [(u.idle_cycles, u.wait_space_cycles, u.wait_input_cycles, u.busy_cycles) for u in stats.units.values()]
    assert any(not float(value).is_integer() for values in parts for value in values)
    for values in parts:
        assert sum(values) == sum(reversed(values)) == stats.cycles


@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=6), st.integers(1, 64), st.integers(0, 10**9))
def test_exact_means(totals: list[int], count: int, rest: int) -> None:
    """Parts of a whole number of cycles: their means sum to it in any order, and each is the mean to 2**-20."""
    totals = [*totals, rest, -(sum(totals) + rest) % count]
    means = exact_means(totals, count)
    assert sum(means) == sum(reversed(means)) == sum(totals) // count
    for total, mean in zip(totals, means, strict=True):
        assert abs(Fraction(mean) - Fraction(total, count)) < Fraction(1, 2**20)
        assert isinstance(mean, int) == (mean == int(mean))
    if all(total % count == 0 for total in totals):
        assert means == [total // count for total in totals]


def test_the_bound_is_the_unit_with_most_work_of_its_own() -> None:
    result = simulated(512, 128, 512)
    assert result.stats is not None
    alone = {name: unit.alone_cycles for name, unit in result.stats.units.items()}
    assert alone == {"tload": 1552, "textract": 676, "cube": 2068, "fixpipe": 9416}
    assert result.stats.bound == "fixpipe"
    quick = {"arch__units__fixpipe__row_floor_cycles": 0.5, "arch__units__fixpipe__bytes_per_cycle": 512}
    fast = simulated(512, 128, 512, **quick)
    assert fast.stats is not None
    assert fast.stats.bound == "cube"


@pytest.mark.parametrize("order", [("tload", "textract", "cube", "fixpipe"), ("fixpipe", "cube", "textract", "tload")])
def test_ties_go_to_the_first_in_the_pipeline(order: tuple[str, ...]) -> None:
    """All four units work 64 cycles; the arch file may name them in any order."""
    arch = machine(
        {"units.tload.startup_cycles": 0, "units.textract.startup_cycles": 0, "units.cube.startup_cycles": 0,
         "units.fixpipe.startup_cycles": 0, "units.fixpipe.row_floor_cycles": 4}
    )  # fmt: skip
    arch = replace(arch, spec=arch.spec.model_copy(update={"units": {name: arch.spec.units[name] for name in order}}))
    script = Script()
    script.add("MTE2", Load(4096, 1, 4096, 0))
    script.add("MTE1", Extract(256 * 64, "l0a"))
    script.add("M", Matmul(64, 64, 256, "hif4", "hif4", False))
    script.add("FIX", Store(16, 64, 2, 128, 0))
    program = script.program()
    assert set(alone_cycles(program, arch).values()) == {64}
    found = statistics(traced(arch, program), program, arch)
    assert found.bound == "tload"
    assert list(found.units) == ["tload", "textract", "cube", "fixpipe"]


def test_work_and_peak() -> None:
    result = simulated(128, 128, 128)
    stats = result.stats
    assert stats is not None
    assert stats.macs == 128**3
    assert stats.peak_macs_per_cycle == 16384
    assert Fraction(stats.peak_fraction).limit_denominator(10**6) == Fraction(128**3, 16384 * stats.cycles)
    assert stats.tflops == pytest.approx(2 * 128**3 / (stats.cycles / 1650e6) / 1e12, rel=1e-12)
    assert stats.time_us == stats.cycles / 1650


def test_figures_in_the_document_are_those_of_the_statistics() -> None:
    result = simulated(64, 64, 64)
    document: dict[str, Any] = result.to_dict()
    assert document["cycles"] == 875
    assert document["time_us"] == 875 / 1650
    assert document["bound"] == "tload"
    assert document["units"]["tload"] == {
        "busy_cycles": 472, "wait_input_cycles": 0, "wait_space_cycles": 0, "idle_cycles": 403,
        "utilization": 472 / 875, "alone_cycles": 472, "instructions": 4,
    }  # fmt: skip
    assert document["traffic"] == {"gm_read_bytes": 2 * (2048 + 256), "gm_write_bytes": 8192}
    assert document["work"]["flops"] == 2 * 64**3
    assert document["calibrated"] is False


def test_timelines_and_statistics_agree() -> None:
    ready = prepared(96, 192, 300, tiling={"kind": "n_split", "tile_n": 64, "buffers": {"l0": 2, "l0c": 2}})
    result = run(ready)
    assert result.trace is not None
    assert result.stats is not None
    for name, unit in result.stats.units.items():
        assert unit.busy_cycles == sum(end - start for _, start, end in timeline(result.trace, name))
        assert unit.instructions == sum(len(r.instructions) for r in result.trace.rows_of(name))
    assert result.trace.instructions == program_of(ready).count
