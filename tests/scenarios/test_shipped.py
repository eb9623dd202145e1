"""Every shipped scenario: it meets what it expects, and its cycles and output bits are the golden ones.

``pytest tests/scenarios --rewrite-golden`` writes new golden numbers where they differ and shows old -> new: a change
of numbers is a decision, its reason belongs into the commit.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hwmodel.experiment import prepare, run
from hwmodel.result import Result
from hwmodel.scenario import load
from hwmodel.trace import check_well_formed

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = sorted((ROOT / "scenarios").glob("*.yaml"))
IN_FOLDERS = sorted((ROOT / "scenarios").glob("*/*.yaml"))
LARGE = sorted((ROOT / "scenarios" / "large").glob("*.yaml"))
GOLDEN = Path(__file__).with_name("golden.json")
README = ROOT / "scenarios" / "README.md"
BEGIN, END = "<!-- table: begin (tests/scenarios/test_shipped.py writes it) -->", "<!-- table: end -->"


def key(path: Path) -> str:
    return path.relative_to(ROOT / "scenarios").with_suffix("").as_posix()


@cache
def result_of(path: Path) -> Result:
    return run(prepare(load(path)))


@cache
def cycles_of(path: Path) -> int | None:
    """Of a scenario that is too large for its values."""
    return run(prepare(load(path)), values="skip").cycles


@pytest.fixture(params=SCENARIOS, ids=key)
def path(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def golden() -> dict[str, Any]:
    return dict(json.loads(GOLDEN.read_text(encoding="utf-8")))


@pytest.fixture(scope="module", autouse=True)
def _rewrite(request: pytest.FixtureRequest) -> None:
    """With --rewrite-golden: before the tests, so that they then see what is written."""
    if not request.config.getoption("--rewrite-golden"):
        return
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    known = golden() if GOLDEN.exists() else {}
    entries = known.get("scenarios", {})
    written = {}
    for path in SCENARIOS:
        name, result = key(path), result_of(path)
        written[name] = {"cycles": result.cycles, "sha256": result.values.sha256}
        for what, new in written[name].items():
            old = entries.get(name, {}).get(what)
            if old != new:
                reporter.write_line(f"{name}: {what}: {old} -> {new}")
        if result.cycles is not None:
            expect(path, result.cycles)
    for path in LARGE:
        cycles, old = cycles_of(path), load(path).expect.cycles
        if cycles is not None and cycles != old:
            reporter.write_line(f"{key(path)}: cycles: {old} -> {cycles}")
            expect(path, cycles)
    note = "cycles and SHA-256 of out.bin of each shipped scenario; pytest tests/scenarios --rewrite-golden writes it"
    GOLDEN.write_text(json.dumps({"_meta": note, "scenarios": written}, indent=1) + "\n", encoding="utf-8")
    head, rest = README.read_text(encoding="utf-8").split(BEGIN)
    README.write_text(head + BEGIN + table() + END + rest.split(END)[1], encoding="utf-8")
    result_of.cache_clear()


def expect(path: Path, cycles: int) -> None:
    """Write the cycles into the scenario, where it expects some."""
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"(cycles: )\d+", rf"\g<1>{cycles}", text), encoding="utf-8")


def table() -> str:
    """The table of scenarios/README.md."""
    lines = ["", "", "| scenario | question it answers | cycles |", "| --- | --- | ---: |"]
    for path in SCENARIOS:
        scenario, entry = load(path), golden()["scenarios"][key(path)]
        cycles = "no timing model" if entry["cycles"] is None else f"{entry['cycles']:,}"
        link = f"[{key(path)}]({path.relative_to(README.parent).as_posix()})"
        lines.append(f"| {link} | {scenario.question} | {cycles} |")
    return "\n".join([*lines, "", ""])


@pytest.mark.parametrize("path", IN_FOLDERS, ids=key)
def test_scenarios_in_folders_load_and_ask_a_question(path: Path) -> None:
    """Measured kernels and published sizes: too large for a check of values here; validation runs them."""
    scenario = load(path)
    assert scenario.name == path.stem
    assert "?" in scenario.question
    assert f"`{path.parent.name}/`" in README.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", LARGE, ids=key)
def test_large_scenarios_take_the_cycles_they_expect(path: Path) -> None:
    assert cycles_of(path) == load(path).expect.cycles, "if it is meant: pytest tests/scenarios --rewrite-golden"


def test_there_are_scenarios_for_each_test_case_of_the_requirement_c6() -> None:
    names = {key(path) for path in SCENARIOS}
    shapes = "128x128x128 128x256x128 256x128x128 64x64x64 256x256x256 128x512x128 512x128x512 128x128x256 256x128x512"
    assert {f"hif4_{shape}" for shape in shapes.split()} | {"e1m2_128x128x128", "hif4_512x128x512_l0c2"} <= names


def test_a_scenario_is_called_as_its_file_and_asks_a_question(path: Path) -> None:
    scenario = load(path)
    assert scenario.name == path.stem
    assert "?" in scenario.question
    assert scenario.expect.values == "bit_exact"


def test_expectations_are_met_and_nothing_is_hazardous_c4_c6(path: Path) -> None:
    result = result_of(path)
    assert result.values.status == "bit_exact"
    assert result.values.mismatches == 0
    assert result.expect.failures == ()
    assert result.expect.status == "met"
    assert result.hazards == ()
    assert result.hazards_checked
    assert result.exit_code == 0


def test_a_scenario_with_timing_expects_its_cycles(path: Path) -> None:
    assert load(path).expect.cycles == result_of(path).cycles


def test_golden_cycles_and_bits(path: Path) -> None:
    result = result_of(path)
    found = {"cycles": result.cycles, "sha256": result.values.sha256}
    assert golden()["scenarios"].get(key(path)) == found, "if it is meant: pytest tests/scenarios --rewrite-golden"


def test_no_golden_entry_is_left_over() -> None:
    assert sorted(golden()["scenarios"]) == sorted(key(path) for path in SCENARIOS)


def test_the_table_of_the_readme_is_true() -> None:
    text = README.read_text(encoding="utf-8")
    assert text.split(BEGIN)[1].split(END)[0] == table()


def test_skipping_values_takes_the_same_cycles(path: Path) -> None:
    result, fast = result_of(path), run(prepare(load(path)), values="skip")
    assert fast.cycles == result.cycles
    assert fast.values.status == "skipped"
    assert fast.out is None
    if result.stats is not None:
        assert fast.stats == result.stats
        assert result.trace is not None
        assert fast.trace is not None
        assert [row.stalls for row in fast.trace.rows] == [row.stalls for row in result.trace.rows]


def test_traces_are_well_formed_and_sum_to_the_cycles_c7(path: Path) -> None:
    result = result_of(path)
    if result.trace is None:
        assert result.cycles is None
        return
    assert check_well_formed(result.trace) == []
    assert result.stats is not None
    for unit in result.stats.units.values():
        parts = (unit.busy_cycles, unit.wait_input_cycles, unit.wait_space_cycles, unit.idle_cycles)
        assert min(parts) >= 0
        assert sum(parts) == result.cycles
        assert unit.alone_cycles <= unit.busy_cycles
