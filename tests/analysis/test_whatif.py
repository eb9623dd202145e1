"""What-if: answers are those of a run with the same overrides, the baseline comes out again, and nothing is guessed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hwmodel.analysis import whatif
from hwmodel.analysis.whatif import Change, Outcome, changes, ranked
from hwmodel.experiment import simulate
from hwmodel.explain import answer, explain
from hwmodel.result import Result
from hwmodel.scenario import load

SMALL = {"problem.m": 64, "problem.n": 128, "problem.k": 64, "expect": {}}


def run(name: str, overrides: dict[str, Any] | None = None) -> Result:
    return simulate(load(name, {**(overrides or {}), "expect": {}}), values="skip")


def found(result: Result, **how: Any) -> whatif.WhatIf:
    answered = answer(result, explain(result, whatif=False).path, **how)
    assert answered is not None
    return answered


@pytest.mark.parametrize("name", ["hif4_512x128x512", "blocked_remainders", "silicon/a5_mxfp8_2048"])
def test_every_answer_is_what_a_run_with_its_overrides_gives(name: str) -> None:
    answered = found(run(name))
    assert answered.reproduced
    assert answered.outcomes
    for outcome in answered.outcomes:
        again = run(name, dict(outcome.change.overrides))
        assert (outcome.cycles, outcome.time_us) == (again.cycles, again.time_us), outcome.change.command


def test_the_command_can_be_typed() -> None:
    change = next(one for one in changes(run("hif4_64x64x64").arch, None, {}, ["hbm"]) if one.target == "cube")
    flags = change.command.split("--set ")[1:]
    again = simulate(load("hif4_64x64x64", [*(flag.strip() for flag in flags), "expect={}"]), values="skip")
    assert again.cycles is not None


def test_units_buffers_links_launch_and_clock_are_asked_about() -> None:
    result = run("silicon/a5_mxfp8_2048")
    asked = {(one.change.target, one.change.kind) for one in found(result).outcomes}
    for unit in ("tload", "textract", "cube", "fixpipe"):
        assert {(unit, "double"), (unit, "unlimited"), (unit, "no start-up")} <= asked
    assert {("hbm", "double"), ("hbm", "unlimited"), ("launch", "launch"), ("clock", "clock")} <= asked
    assert {("l0c", "more"), ("l0c", "both"), ("l0c", "larger"), ("l1", "larger"), ("l2", "larger")} <= asked
    assert {("l0a", "larger"), ("l0b_mx", "larger")} <= asked
    assert {(buffer, "unlimited size") for buffer in ("l1", "l0", "l0c", "l2")} <= asked


def test_the_ranking_goes_by_time_and_ends_with_the_change_worth_most() -> None:
    answered = found(run("hif4_512x128x512"))
    gains = [one.gain_us for one in answered.outcomes]
    assert gains == sorted(gains, reverse=True)
    assert answered.best is not None
    assert (answered.best.change.target, answered.best.change.kind) == ("l0c", "larger")
    assert answered.to_dict()["worth_most"]["cycles"] == answered.best.cycles


def test_an_unlimited_l0c_needs_no_slices() -> None:
    answered = found(run("hif4_512x128x512"))
    by = {(one.change.target, one.change.kind): one for one in answered.outcomes}
    alone = run("hif4_512x128x512", {"arch.buffers.l0c.capacity_bytes": 512 * 512 * 4})
    assert alone.tiling["n_tiles"] == 1
    assert by["l0c", "unlimited size"].cycles == alone.cycles


def test_faster_units_never_make_it_slower_and_unlimited_ones_help_most() -> None:
    answered = found(run("hif4_512x128x512"))
    by = {(one.change.target, one.change.kind): one for one in answered.outcomes}
    for unit in ("tload", "textract", "cube", "fixpipe"):
        assert 0 <= by[unit, "double"].gain <= by[unit, "unlimited"].gain


def test_what_does_not_fit_is_named_and_not_answered() -> None:
    result = run("hif4_512x128x512", {"tiling.tile_n": 128})
    answered = found(result)
    impossible = {(one.change.target, one.change.kind): one.problem for one in answered.impossible}
    assert "l0c" in impossible["l0c", "more"]
    assert not {(one.change.target, one.change.kind) for one in answered.outcomes} & set(impossible)


def test_a_long_run_asks_what_it_can_afford_and_names_the_rest() -> None:
    result = run("hif4_512x128x512")
    assert result.program is not None
    answered = found(result, budget=4 * result.program.count)
    assert len(answered.outcomes) == 3
    assert len(answered.outcomes) + len(answered.left_out) == len(found(result).outcomes)
    assert len(answered.to_dict()["left_out"]) == len(answered.left_out)


def test_nothing_is_said_where_the_baseline_does_not_come_out_again() -> None:
    result, other = run("hif4_512x128x512"), run("hif4_64x64x64")
    mixed = replace(result, scenario=other.scenario)
    answered = found(mixed)
    assert (answered.reproduced, answered.outcomes, answered.best) == (False, (), None)
    assert answered.baseline_cycles == other.cycles


def test_without_a_scenario_there_is_no_answer() -> None:
    result = run("hif4_64x64x64")
    assert answer(replace(result, scenario=None), explain(result, whatif=False).path) is None


def test_equal_gains_stay_in_the_order_they_were_asked_in() -> None:
    outcomes = [
        Outcome(Change(name, "double", "", {}), 1, 1.0, gain, gain) for name, gain in (("a", 0), ("b", 2), ("c", 0))
    ]
    assert [one.change.target for one in ranked(outcomes)] == ["b", "a", "c"]
