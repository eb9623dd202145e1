"""Phases: a steady state is found where there is one, with its period, and every phase adds up."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from explain_support import facts_of, shipped, timed_scenarios

from hwmodel.analysis.phases import Phases, phases, steady_state
from hwmodel.analysis.stalls import stalls
from hwmodel.experiment import simulate
from hwmodel.explain import explain
from hwmodel.program.instructions import Instruction, Sync
from hwmodel.scenario import load
from hwmodel.trace import Row


def row(starts: list[int], length: int = 5, ops: str = "") -> Row:
    names = ops or "x" * len(starts)
    made = tuple(Instruction(number, name, "M", Sync("")) for number, name in enumerate(names))
    return Row(0, "M", "cube", made, False, array("q", starts), array("q", [start + length for start in starts]))


def found(path: Path) -> Phases:
    result = shipped(path)
    assert result is not None
    assert result.trace is not None
    assert result.program is not None
    assert result.stats is not None
    facts = facts_of(result.trace, result.program, result.arch)
    return phases(result.trace, stalls(result.trace, facts), result.stats.bound, facts[0].core.core)


def test_equal_distances_are_a_steady_state() -> None:
    steady = steady_state(row([0, 37, 50, 60, 70, 80, 90, 140]))
    assert steady is not None
    assert (steady.start, steady.end, steady.periods, steady.instructions) == (50, 90, 4, 1)


def test_a_pattern_of_several_instructions_is_one_period() -> None:
    starts = [base + step for base in range(0, 600, 100) for step in (0, 10, 60)]
    steady = steady_state(row(starts, ops="abc" * 6))
    assert steady is not None
    assert (steady.periods, steady.instructions, steady.coverage) == (5, 3, 500)


def test_other_work_at_the_same_distance_is_not_the_same() -> None:
    assert steady_state(row([0, 10, 20, 30], ops="abcd")) is None


@pytest.mark.parametrize("starts", [[], [3], [0, 10], [0, 10, 30, 70, 150]])
def test_where_nothing_repeats_there_is_none(starts: list[int]) -> None:
    assert steady_state(row(starts)) is None


@pytest.mark.parametrize("path", timed_scenarios(), ids=lambda path: path.stem)
def test_phases_of_every_shipped_scenario_add_up(path: Path) -> None:
    result = shipped(path)
    assert result is not None
    assert result.stats is not None
    phased = found(path)
    assert sum(phase.cycles for phase in phased.phases) == result.cycles
    for phase in phased.phases:
        for kinds in phase.units.values():
            assert sum(kinds.values()) == pytest.approx(phase.cycles, abs=1e-6)
    for unit, figures in result.stats.units.items():
        busy = sum(phase.units[unit]["busy"] for phase in phased.phases)
        assert busy == pytest.approx(figures.busy_cycles, abs=1e-6)


def test_the_kernel_of_the_requirement_repeats_for_each_slice() -> None:
    phased = found(next(path for path in timed_scenarios() if path.stem == "hif4_512x128x512"))
    assert [(phase.name, phase.cycles) for phase in phased.phases] == [
        ("prologue", 2220), ("steady state", 15192), ("epilogue", 4538),
    ]  # fmt: skip
    assert (phased.period_cycles, phased.limit) == (5064, "fixpipe")
    assert phased.to_dict()["steady_state"] == {
        "periods": 3, "period_cycles": 5064, "instructions": 1, "engine": "FIX",
    }  # fmt: skip


def test_one_tile_has_no_steady_state() -> None:
    phased = found(next(path for path in timed_scenarios() if path.stem == "hif4_128x128x128"))
    assert [phase.name for phase in phased.phases] == ["run"]
    assert phased.to_dict()["steady_state"] is None


def test_the_steady_state_begins_once_the_pipeline_is_filled() -> None:
    """DMA repeats from cycle 0; the sums are first drained at 11,508, within its fourth period of 4,080."""
    phased = explain(simulate(load("neuron_gemm_mx", {"expect": {}}), values="skip"), whatif=False).phases
    named = {phase.name: phase for phase in phased.phases}
    assert [(phase.name, phase.start_cycle) for phase in phased.phases] == [
        ("prologue", 0), ("steady state", 12240), ("epilogue", 28560),
    ]  # fmt: skip
    assert named["prologue"].units["evacuate"]["busy"] < 0.1 * 12240
    assert (phased.period_cycles, phased.to_dict()["steady_state"]["periods"]) == (4080, 4)
