"""The screen of ``explain`` and the record behind it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from explain_support import shipped, timed_scenarios

from hwmodel.analysis.critical_path import Link
from hwmodel.explain import explain
from hwmodel.writers.explain_text import WIDTH, fold, screen


def link(what: str, cycles: int = 1) -> Link:
    return Link("unit", what, 1, cycles, what, what)


def test_repetitions_of_a_chain_are_taken_together() -> None:
    names = ["load", *["multiply", "store"] * 3, "end", "end"]
    groups = fold([link(name, place) for place, name in enumerate(names)])
    told = [(times, [(one.what, one.times, one.cycles) for one in links]) for links, times in groups]
    assert told == [
        (1, [("load", 1, 0)]),
        (3, [("multiply", 3, 1 + 3 + 5), ("store", 3, 2 + 4 + 6)]),
        (2, [("end", 2, 7 + 8)]),
    ]
    assert fold([]) == []


def test_folding_keeps_every_cycle() -> None:
    links = [link("abcabdab"[place % 8], place) for place in range(100)]
    assert sum(one.cycles for group, _ in fold(links) for one in group) == sum(one.cycles for one in links)


@pytest.mark.parametrize("path", timed_scenarios(), ids=lambda path: path.stem)
def test_every_shipped_scenario_is_explained_on_one_screen(path: Path) -> None:
    result = shipped(path)
    assert result is not None
    explanation = explain(result, whatif=False)
    for width in (WIDTH, 80):
        lines = screen(explanation, width).splitlines()
        assert len(lines) < 40
        assert max(map(len, lines)) <= width
    document = explanation.to_dict()
    assert document["cycles"] == result.cycles
    assert sum(step["cycles"] for step in document["critical_path"]["steps"]) == result.cycles
    for stalls in document["stalls"].values():
        assert stalls["busy_cycles"] + sum(one["cycles"] for one in stalls["causes"]) == pytest.approx(result.cycles)


def test_colours_only_where_they_are_wanted() -> None:
    result = shipped(next(path for path in timed_scenarios() if path.stem == "hif4_64x64x64"))
    assert result is not None
    explanation = explain(result, whatif=False)
    assert "\x1b[" not in screen(explanation)
    assert "\x1b[1m" in screen(explanation, color=True)
    colored = re.sub(r"\x1b\[\d*m", "", screen(explanation, 80, color=True))
    assert colored == screen(explanation, 80)
