"""Causes of stalls: they add up, agree with the statistics, and are the right ones, worked out by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from explain_support import facts_of, programs, shipped, timed_scenarios
from hypothesis import given
from support import Script, machine, traced

from hwmodel.analysis.contention import alone_ticks, slowdown
from hwmodel.analysis.stalls import CATEGORIES, KIND_NUMBERS, Share, Stalls, stalls
from hwmodel.analysis.statistics import Statistics, statistics
from hwmodel.arch import Arch
from hwmodel.program.instructions import Extract, Load, Matmul, Store, Sync
from hwmodel.program.memory import Tile, Window
from hwmodel.program.program import Program

ARCH = machine()


def found(arch: Arch, program: Program) -> tuple[Stalls, Statistics]:
    trace = traced(arch, program)
    return stalls(trace, facts_of(trace, program, arch)), statistics(trace, program, arch)


def agrees(causes: Stalls, stats: Statistics) -> None:
    """Sums are the cycles of the run, and each kind has the cycles that result.json says."""
    assert causes.cycles == stats.cycles
    for unit, figures in stats.units.items():
        kinds = {"busy": causes.busy[unit], "wait_input": 0.0, "wait_space": 0.0, "idle": 0.0}
        for share in causes.of(unit):
            kinds[share.cause.kind] += share.cycles
            assert share.cause.category in CATEGORIES
        assert sum(kinds.values()) == stats.cycles
        assert kinds == {
            "busy": figures.busy_cycles,
            "wait_input": figures.wait_input_cycles,
            "wait_space": figures.wait_space_cycles,
            "idle": figures.idle_cycles,
        }
    for stretch in causes.stretches if causes.cycles else ():
        assert stretch.starts[0] == 0
        assert stretch.ends[-1] == causes.cycles
        assert np.array_equal(stretch.starts[1:], stretch.ends[:-1])
        assert set(stretch.kinds.tolist()) <= set(KIND_NUMBERS.values())


def share(causes: Stalls, unit: str, category: str) -> Share:
    (one,) = [each for each in causes.of(unit) if each.cause.category == category]
    return one


@pytest.mark.parametrize("path", timed_scenarios(), ids=lambda path: path.stem)
def test_causes_of_every_shipped_scenario_add_up(path: Path) -> None:
    result = shipped(path)
    assert result is not None
    assert result.trace is not None
    assert result.program is not None
    assert result.stats is not None
    agrees(stalls(result.trace, facts_of(result.trace, result.program, result.arch)), result.stats)


@given(programs())
def test_causes_of_any_program_add_up(program: Program) -> None:
    agrees(*found(ARCH, program))


@given(programs())
def test_causes_add_up_with_several_clocks_and_a_launch(program: Program) -> None:
    arch = machine({"units.fixpipe.clock_mhz": 1000, "launch_cycles": 77})
    agrees(*found(arch, program))


@given(programs())
def test_causes_of_several_cores_are_means_of_all_of_them(program: Program) -> None:
    (core,) = program.cores
    both = Program({}, (core, type(core)(1, core.instructions[: len(core.instructions) // 2], {}, ({}, {}))))
    try:
        causes, stats = found(ARCH, both)
    except Exception:  # half a program may wait for ever
        return
    agrees(causes, stats)


def tile(space: str, which: int = 0, size: int = 640) -> Tile:
    return Tile(space, size * which, size, "int8", 1, size, "ND", "acc" if space == "l0c" else "data", (1, size))


def load(script: Script, which: int = 0, **sync: str) -> None:
    """A TLOAD of 640 bytes: 100 + 10 cycles."""
    script.add("MTE2", Load(640, 1, 640, 0), Window("a", 0, 0, 1, 640), tile("l1", which), **sync)


def extract(script: Script, which: int = 0, **sync: str) -> None:
    """A TEXTRACT of 640 bytes into L0B: 10 + 5 cycles."""
    script.add("MTE1", Extract(640, "l0b"), tile("l1", which), tile("l0b"), **sync)


def test_a_wait_for_data_names_the_producer_and_what_it_makes() -> None:
    script = Script()
    load(script)
    load(script, 1, sets="ready")
    extract(script, 0)
    extract(script, 1, wait="ready")
    causes, _ = found(ARCH, script.program())
    waiting = share(causes, "textract", "input")
    assert waiting.cause == ("textract", "wait_input", "input", "tload a", "tload")
    assert (waiting.cycles, waiting.waits) == (220 - 15, 1)
    assert waiting.worst[0] == (205, 15, 0, 3, "textract", "")


def test_a_flag_that_comes_after_the_data_is_the_flags_fault() -> None:
    script = Script()
    load(script, 0)
    load(script, 1, sets="ready")
    extract(script, 1)
    extract(script, 0, wait="ready")
    causes, _ = found(ARCH, script.program())
    assert share(causes, "textract", "input").cycles == 110 - 15
    late = share(causes, "textract", "order")
    assert late.cause.text == "flag ready, set after tload a"
    assert late.cycles == 110


def test_a_full_buffer_is_named_by_the_bytes_that_are_still_read() -> None:
    script = Script()
    load(script, sets="ready")
    extract(script, wait="ready", sets="free")
    load(script, wait="free")
    causes, _ = found(ARCH, script.program())
    full = share(causes, "tload", "space")
    assert full.cause == ("tload", "wait_space", "space", "l1 full (textract uses it)", "textract")
    assert full.cycles == 15


def test_before_the_first_instruction_the_pipeline_fills_and_after_the_last_it_has_finished() -> None:
    script = Script()
    load(script, sets="ready")
    extract(script, wait="ready")
    arch = machine({"launch_cycles": 40})
    causes, _ = found(arch, script.program())
    for unit in ("tload", "textract"):
        assert share(causes, unit, "launch").cycles == 40
    fill = share(causes, "textract", "fill")
    assert (fill.cause.kind, fill.cause.text, fill.cycles) == ("idle", "tload a", 110)
    assert share(causes, "tload", "drain").cycles == 15
    assert share(causes, "cube", "unused").cycles == 165 - 40


def test_a_flag_set_by_itself_stands_for_the_work_before_it() -> None:
    script = Script()
    load(script)
    script.add("MTE2", Sync("set_flag"), sets="ready")
    script.add("MTE1", Sync("wait_flag"), wait="ready")
    extract(script)
    causes, _ = found(ARCH, script.program())
    assert share(causes, "textract", "fill").cause.text == "tload a"


def test_a_bank_is_named_and_so_is_who_held_it() -> None:
    script = Script()
    script.add("M", Matmul(16, 64, 64, "bf16", "bf16", False), (), tile("l0c"))
    script.add("FIX", Store(1, 64, 2, 128, 0), tile("l0c", 1), ())
    script.add("FIX", Store(1, 64, 2, 128, 0), tile("l0c", 1), (), sets="go")
    script.add("FIX", Store(1, 64, 2, 128, 0), tile("l0c", 0), ())
    script.add("M", Matmul(16, 64, 64, "bf16", "bf16", False), (), tile("l0c", 0), wait="go")
    causes, _ = found(ARCH, script.program())
    held = share(causes, "cube", "bank")
    assert held.cause == ("cube", "wait_space", "bank", "bank l0c:0", "fixpipe")


def test_a_flag_of_either_half_is_one_cause() -> None:
    script = Script()
    load(script, 0)
    load(script, 1, sets="half:0")
    load(script, 2, sets="half:1")
    extract(script, 0)
    extract(script, 0, wait="half:0")
    extract(script, 0, wait="half:1")
    causes, _ = found(ARCH, script.program())
    assert {one.cause.text for one in causes.of("textract") if one.cause.category == "order"} == {
        "flag half, set after tload a"
    }


def test_the_longest_waits_come_with_their_tiles() -> None:
    result = shipped(next(path for path in timed_scenarios() if path.stem == "hif4_512x128x512"))
    assert result is not None
    assert result.trace is not None
    assert result.program is not None
    causes = stalls(result.trace, facts_of(result.trace, result.program, result.arch))
    top = next(one for one in causes.shares if one.cause.kind != "idle")
    assert (top.cause.unit, top.cause.text) == ("cube", "l0c full (tstore uses it)")
    assert [worst.tile for worst in top.worst] == ["n1", "n2", "n3"]
    assert list(causes.shares) == sorted(causes.shares, key=lambda one: -one.cycles)
    waits = Counter(one.cause.category for one in causes.shares)
    assert set(waits) == {"drain", "fill", "input", "order", "space"}


def test_slow_down_on_a_link_is_what_the_others_took() -> None:
    script = Script()
    script.add("MTE2", Load(6400, 1, 6400, 6400), Window("a", 0, 0, 1, 6400), tile("l1", 0, 6400))
    arch = machine({"links.hbm.bytes_per_cycle": 64})
    program = script.program(cores=2)
    trace = traced(arch, program)
    assert alone_ticks(trace.rows[0], arch).tolist() == [200]
    assert [row.ends[0] for row in trace.rows_of("tload")] == [300, 300]
    lost = slowdown(trace, program.cores, arch)
    assert lost == {"tload": (100.0, "link hbm", True)}
    assert slowdown(traced(arch, script.program()), program.cores, arch) == {}
