"""Sweeps: the same table in any order and any number of jobs, bad points in rows, journals that survive a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hwmodel
from hwmodel.errors import InputError
from hwmodel.experiment import simulate
from hwmodel.scenario import load
from hwmodel.study.journal import Journal
from hwmodel.study.measure import Record, footprint, measure, task_of
from hwmodel.study.points import Template, parse_axes
from hwmodel.study.pool import Workers
from hwmodel.study.sweep import Sweep, sweep
from hwmodel.study.table import best_first, data_frame, flat, front
from hwmodel.writers import sweep_plots
from hwmodel.writers.tables import write_table

VARY = {"tiling.tile_n": [64, 128, 192], "arch.units.fixpipe.bytes_per_cycle": [33, 66]}


def swept(vary: Any = VARY, name: str = "hif4_512x128x512", **options: Any) -> Sweep:
    return sweep(Template.read(name), parse_axes(vary), workers=Workers("local", 1), **options)


def test_a_sweep_is_best_first_with_the_reason_of_each_bad_point() -> None:
    found = swept()
    assert [row["cycles"] for row in found.valid] == sorted(row["cycles"] for row in found.valid)
    assert len(found.valid) == 4
    assert found.best is not None
    assert (found.best["tiling.tile_n"], found.best["arch.units.fixpipe.bytes_per_cycle"]) == (128, 66)
    assert found.best["vs_best"] == 1.0
    bad = [row for row in found.rows if row["problem"]]
    assert {row["tiling.tile_n"] for row in bad} == {192}
    assert all("l0c" in row["problem"] and "largest tile_n that fits is 128" in row["problem"] for row in bad)
    assert found.rows[-2:] == tuple(bad)
    assert found.code == 0


def test_a_row_has_the_figures_of_a_run() -> None:
    row = swept({"tiling.tile_n": [128]}).rows[0]
    result = simulate(load("hif4_512x128x512", {"expect": {}, "tiling.tile_n": 128}))
    assert result.stats is not None
    assert row["cycles"] == result.cycles
    assert row["gm_read_bytes"] == result.stats.gm_read_bytes
    assert row["fixpipe_utilization"] == result.stats.units["fixpipe"].utilization
    assert row["l0c_bytes"] == 512 * 128 * 4
    checked = swept({"tiling.tile_n": [128]}, values="check").rows[0]
    assert checked["sha256"] == result.values.sha256
    same = row.keys() - {"sha256", "values"}
    assert {name: row[name] for name in same} == {name: checked[name] for name in same}


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_values_axes_and_points_changes_nothing(order: int) -> None:
    vary = {name: values[::order] for name, values in list(VARY.items())[::order]}
    assert swept(vary).table().equals(swept().table())


def test_any_number_of_jobs_gives_the_same_table() -> None:
    template, axes = Template.read("hif4_512x128x512"), parse_axes(VARY)
    alone = sweep(template, axes, workers=Workers("local", 1)).table()
    assert sweep(template, axes, workers=Workers("local", 2)).table().equals(alone)
    assert sweep(template, axes).table().equals(alone)


def test_no_valid_point_is_exit_2() -> None:
    assert swept({"problem.m": [0, -1]}).code == 2
    mixed = swept({"problem.m": [0, 64]})
    assert mixed.code == 0
    assert mixed.rows[-1]["problem"] == "problem.m: expected a number greater than 0, not 0"


def test_columns_are_typed() -> None:
    vary = {"tiling.base": [[128, 64, 256], [64, 64, 256]], "arch": ["ascend_a3"], "tiling.panel_slices": [2, 999]}
    table = swept({**vary, "arch.clock_mhz": [1000, 1850.5]}, "silicon/a3_gemm_1536").table()
    kinds = dict(table.schema)
    assert kinds["tiling.base"] == pl.List(pl.Int64)
    assert kinds["arch"] == pl.String
    assert kinds["arch.clock_mhz"] == pl.Float64
    assert kinds["cycles"] == pl.Int64
    assert kinds["problem"] == pl.String
    assert kinds["cube_utilization"] == pl.Float64
    assert table["problem"].null_count() == 4
    assert flat(table)["tiling.base"][0] == "[128, 64, 256]"


def test_clocks_that_differ_are_compared_by_time() -> None:
    found = swept({"arch.clock_mhz": [800, 1600]}, "hif4_64x64x64")
    assert found.metric == "time_us"
    assert [row["arch.clock_mhz"] for row in found.rows] == [1600, 800]
    assert found.rows[1]["vs_best"] == pytest.approx(2.0)


def test_mixed_values_become_text() -> None:
    table = data_frame([{"a": 1}, {"a": "x"}, {"a": None}], ["a"], ["a"])
    assert table["a"].to_list() == ["1", '"x"', None]
    assert data_frame([{"a": True}, {"a": False}], ["a"], ["a"]).schema["a"] == pl.Boolean
    assert data_frame([{"a": {"x": 1}}], ["a"], ["a"])["a"].to_list() == ['{"x": 1}']


def test_ties_are_broken_by_traffic_then_l1_then_settings() -> None:
    rows = [
        {"cycles": 5, "gm_bytes": 2, "l1_bytes": 1, "x": 1, "problem": None},
        {"cycles": 5, "gm_bytes": 1, "l1_bytes": 2, "x": 2, "problem": None},
        {"cycles": 5, "gm_bytes": 1, "l1_bytes": 1, "x": 10, "problem": None},
        {"cycles": 5, "gm_bytes": 1, "l1_bytes": 1, "x": 9, "problem": None},
        {"x": 0, "problem": "bad"},
        {"cycles": None, "x": 3, "problem": None},
    ]
    assert [row["x"] for row in best_first(rows, ["x"])] == [9, 10, 2, 1, 3, 0]


def test_the_front_has_what_nothing_beats() -> None:
    points = [(10, 5), (8, 7), (8, 6), (12, 5), (7, 9), (20, 1), (10, 5)]
    rows = [{"cycles": cycles, "cost": cost} for cycles, cost in points]
    assert sorted(front(rows, "cost")) == [0, 2, 4, 5]
    for index, (cycles, cost) in enumerate(points):
        beaten = any(c <= cycles and k <= cost and (c, k) != (cycles, cost) for c, k in points)
        assert (points[index] in [points[i] for i in front(rows, "cost")]) is not beaten


def test_equal_points_run_once(tmp_path: Path) -> None:
    with Journal(tmp_path / "j", fresh=True) as journal:
        found = swept({"arch.name": ["x"], "tiling.tile_n": [512, 600]}, "hif4_64x64x64", journal=journal)
    assert len(found.rows) == 2
    assert len(journal.records) in (1, 2)


# -- journal -----------------------------------------------------------------------------------------------------------


def test_a_line_of_a_journal_that_was_changed_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path, fresh=True) as journal:
        for key, cycles in (("a", 1), ("b", 2)):
            journal.add(key, Record({"cycles": cycles, "time_us": 0.1}))
    path.write_text(path.read_text().replace('"cycles":1', '"cycles":9') + '[]\n5\n{"version":2}\n\xff\n')
    with Journal(path, fresh=False) as journal:
        assert journal.records == {"b": Record({"cycles": 2, "time_us": 0.1})}


def test_the_order_of_axes_shows_in_no_row() -> None:
    forth, back = (swept(dict(items)).document() for items in (VARY.items(), reversed(VARY.items())))
    assert list(forth["best"]) == list(back["best"])
    assert json.dumps([forth["best"], forth["rows"]]) == json.dumps([back["best"], back["rows"]])


def test_a_journal_is_read_back_and_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path, fresh=True) as journal:
        journal.add("a", Record({"cycles": 1}))
        journal.add("b", Record(problem="does not fit", code=2))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"version":1,"key":"c","colu')
    with Journal(path, fresh=False) as journal:
        assert journal.records == {"a": Record({"cycles": 1}), "b": Record(problem="does not fit", code=2)}
        journal.add("d", Record({"cycles": 4}))
    assert path.read_bytes().startswith(whole)
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["a", "b", "d"]
    with Journal(path, fresh=True) as journal:
        assert journal.records == {}


def test_resume_runs_only_what_is_missing_and_a_changed_scenario_uses_nothing_stale(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path, fresh=True) as journal:
        first = swept(journal=journal)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]))
    with Journal(path, fresh=False) as journal:
        again = swept(journal=journal)
    assert again.table().equals(first.table())
    assert sorted(path.read_text().splitlines()) == sorted("".join(lines).splitlines())
    with Journal(path, fresh=False) as journal:
        before = len(journal.records)
        other = sweep(
            Template.read("hif4_512x128x512", {"problem.k": 64}), parse_axes(VARY), workers=Workers("local", 1),
            journal=journal,
        )  # fmt: skip
        assert len(journal.records) == 2 * before
    assert not other.table().equals(first.table())


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_a_killed_sweep_loses_at_most_what_was_under_way(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "hwmodel", "sweep", "hif4_512x128x512", "-o", str(out), "-j", "2", "--json"]
    command += ["--vary", "tiling.tile_n=64,128", "--vary", f"arch.launch_cycles={','.join(map(str, range(60)))}"]
    journal = out / "journal.jsonl"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and (not journal.exists() or journal.read_bytes().count(b"\n") < 20):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    done = journal.read_bytes().count(b"\n")
    assert 20 <= done < 120
    finished = subprocess.run([*command, "--resume"], capture_output=True, check=True, text=True)
    assert len(json.loads(finished.stdout)["rows"]) == 120
    lines = journal.read_text().splitlines()
    assert len(lines) == 120
    assert len({json.loads(line)["key"] for line in lines}) == 120


# -- files and Python --------------------------------------------------------------------------------------------------


def test_files_hold_the_same_table(tmp_path: Path) -> None:
    found = swept()
    write_table(found.table(), tmp_path, "sweep", found.document())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep.csv", "sweep.json", "sweep.parquet"]
    assert pl.read_parquet(tmp_path / "sweep.parquet").equals(found.table())
    assert pl.read_csv(tmp_path / "sweep.csv")["cycles"].to_list() == found.table()["cycles"].to_list()
    document = json.loads((tmp_path / "sweep.json").read_text())
    assert [row["cycles"] for row in document["rows"]] == found.table()["cycles"].to_list()


def test_the_python_interface_gives_the_same_table() -> None:
    table = hwmodel.sweep(load("hif4_512x128x512"), VARY, jobs=1)
    assert isinstance(table, pl.DataFrame)
    assert table.equals(swept().table())
    assert hwmodel.sweep("hif4_512x128x512", VARY).equals(table)


@pytest.mark.parametrize(
    "vary",
    [
        {"arch.units.fixpipe.bytes_per_cycle": [20, 40, 66]},
        {"tiling.tile_n": [64, 128, 192], "arch.units.fixpipe.bytes_per_cycle": [33, 66]},
        {"tiling.buffers.l0": [1, 2], "tiling.buffers.l0c": [1, 2], "tiling.tile_n": [64, 128]},
        {"accumulate.order": ["seq", "f64"]},
        {"problem.m": [0]},
    ],
)
def test_pictures_are_the_same_bytes_for_the_same_sweep(vary: dict[str, list[Any]], tmp_path: Path) -> None:
    found = swept(vary)
    sweep_plots.write(found, tmp_path / "a.png")
    sweep_plots.write(found, tmp_path / "b.png")
    first = (tmp_path / "a.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert first == (tmp_path / "b.png").read_bytes()


def test_what_is_measured_does_not_depend_on_where_it_runs() -> None:
    scenario = load("blocked_remainders", {"expect": {}})
    assert measure(task_of(scenario, "skip")).columns["cycles"] == simulate(scenario).cycles
    bad = load("hif4_512x128x512", {"expect": {}, "tiling.tile_n": 65})
    record = measure(task_of(bad, "skip"))
    assert record.code == InputError.exit_code
    assert "tiling.tile_n: expected a multiple of 64, not 65" in record.problem


def test_the_footprint_counts_each_byte_once() -> None:
    result = simulate(load("hif4_512x128x512"), values="skip")
    assert result.program is not None
    assert footprint(result.program)["l0a"] == 512 * 128 // 2
    assert footprint(result.program)["l0c"] == 512 * 128 * 4


def test_values_of_another_name_are_refused() -> None:
    with pytest.raises(InputError, match="values: expected one of check, skip, not 'chek', did you mean 'check'"):
        hwmodel.sweep(hwmodel.load("hif4_64x64x64"), {"problem.m": [64]}, values="chek")  # type: ignore[arg-type]
