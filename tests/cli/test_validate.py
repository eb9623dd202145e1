"""``hwmodel validate`` and ``hwmodel calibrate``."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwmodel.config.arch import load_arch
from tests.cli.conftest import Cli

HEAD = "id,arch,kernel,dtype_a,dtype_b,dtype_out,m,k,n,core_grid,base_m,base_k,base_n,panel_slices,time_ms\n"
ROWS = (
    "one,ascend_a3,my_gemm,fp16,fp16,fp32,256,256,256,1x1,128,64,256,4,{}\n"
    "two,ascend_a3,my_gemm,fp16,fp16,fp32,512,256,256,1x1,128,64,256,4,{}\n"
)


@pytest.fixture
def table(here: Path) -> Path:
    """Two rows with the times that the model gives, to four digits."""
    file = here / "mine.csv"
    file.write_text(HEAD + ROWS.format(0.0164, 0.0214), encoding="utf-8")
    return file


def test_prints_rows_and_machines(cli: Cli, table: Path) -> None:
    call = cli("validate", "--table", table, "--max-mape", 50, "--jobs", 1)
    assert call.code == 0, call.err
    assert call.out.splitlines()[0].split()[:5] == ["row", "arch", "measured", "modelled", "error"]
    assert "one" in call.out
    assert "ascend_a3: mean error" in call.out
    assert "over 2 rows" in call.out


def test_json_is_the_whole_document(cli: Cli, table: Path) -> None:
    call = cli("validate", "--table", table, "--json", "--max-mape", 50, "--jobs", 1)
    assert [row["id"] for row in call.json["rows"]] == ["one", "two"]
    assert call.json["status"] == "met"
    assert call.json["machines"][0]["rows"] == 2


def test_above_the_threshold_is_exit_1(cli: Cli, table: Path) -> None:
    table.write_text(HEAD + ROWS.format(0.001, 0.002), encoding="utf-8")
    call = cli("validate", "--table", table, "--jobs", 1)
    assert call.code == 1
    assert "ascend_a3: expected a mean error of at most 5 %, not" in call.err


@pytest.mark.parametrize(
    ("factor", "unit"), [(1e3, "microseconds"), (1e6, "nanoseconds"), (1e-3, "seconds"), (3e3, "microseconds")]
)
def test_a_time_in_another_unit_is_named(cli: Cli, table: Path, factor: float, unit: str) -> None:
    table.write_text(HEAD + ROWS.format(0.0164, 0.0214 * factor), encoding="utf-8")
    call = cli("validate", "--table", table, "--jobs", 1, "--max-mape", 1e9)
    assert call.code == 2
    assert "mine.csv:3: time_ms: expected milliseconds, not " in call.err
    assert f"is it in {unit}?" in call.err
    assert "mine.csv:2" not in call.err
    call = cli("calibrate", "--table", table, "--free", "launch_cycles")
    assert call.code == 2
    assert call.err.count("\n") == 1
    assert f"mine.csv:3: time_ms: expected milliseconds, not {0.0214 * factor:g}" in call.err


def test_a_table_of_which_nothing_runs_has_not_met_its_target(cli: Cli, table: Path) -> None:
    table.write_text(HEAD + ROWS.format(1, 1).replace("1x1,128", "1x1,100"), "utf-8")
    call = cli("validate", "--table", table, "--json", "--jobs", 1)
    assert (call.code, call.json["status"]) == (2, "failed")


def test_a_column_counts_once(cli: Cli, table: Path) -> None:
    table.write_text("\n".join(line + "," + line.split(",")[0] for line in table.read_text().splitlines()), "utf-8")
    call = cli("validate", "--table", table)
    assert (call.code, call.err) == (2, f"{table}:1: expected each column once, not 'id' 2 times\n")


def test_bad_rows_are_told_and_the_others_run(cli: Cli, table: Path) -> None:
    table.write_text(HEAD + ROWS.format(0.0164, 0.0214).replace("512,256,256,1x1,128", "512,256,256,1x1,100"), "utf-8")
    call = cli("validate", "--table", table, "--max-mape", 50, "--jobs", 1)
    assert call.code == 2  # the worst one wins
    assert "mine.csv:3: two: not simulated: " in call.err
    assert "over 1 row" in call.out
    call = cli("validate", "--table", table, "--max-mape", 50, "--jobs", 1, "--json")
    assert (call.code, call.json["status"], call.json["machines"][0]["rows"]) == (2, "failed", 1)
    table.write_text(HEAD + ROWS.format(1, 1).replace("1x1,128", "1x1,100"), "utf-8")
    assert cli("validate", "--table", table, "--jobs", 1).code == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--table", "none.csv"), "none.csv: expected a CSV file of measurements, but there is none of that name"),
        (("--max-mape", "-1"), "--max-mape: expected a percentage of at least 0, not -1"),
        (("--jobs", "0"), "--jobs: expected a number of at least 1, not 0"),
    ],
)
def test_wrong_use(cli: Cli, arguments: tuple[str, ...], error: str) -> None:
    call = cli("validate", *arguments)
    assert call.code == 2
    assert call.error == error


def test_calibrate_writes_a_variant(cli: Cli, table: Path, here: Path) -> None:
    pytest.importorskip("scipy")
    call = cli("calibrate", "--table", table, "--free", "launch_cycles", "-o", here / "out" / "mine.yaml")
    assert call.code == 0, call.err
    assert "launch_cycles" in call.out
    assert load_arch("mine.yaml", here / "out").sources["launch_cycles"].confidence == "fit"
    assert [path.name for path in (here / "out").iterdir()] == ["mine.yaml"]


def test_calibrate_json_and_default_name(cli: Cli, table: Path, here: Path) -> None:
    pytest.importorskip("scipy")
    call = cli("calibrate", "--table", table, "--free", "launch_cycles", "--json")
    assert call.json["file"] == "ascend_a3_fit.yaml"
    assert call.json["fitted"].keys() == {"launch_cycles"}
    assert (here / "ascend_a3_fit.yaml").is_file()


def test_calibrate_replaces_only_fits_where_nobody_named_the_file(cli: Cli, table: Path, here: Path) -> None:
    pytest.importorskip("scipy")
    arguments = ("calibrate", "--table", table, "--free", "launch_cycles")
    assert cli(*arguments).code == 0
    assert cli(*arguments).code == 0
    (here / "ascend_a3_fit.yaml").write_text("name: mine\nbase: ascend_a3\n")
    assert cli(*arguments).error == (
        "ascend_a3_fit.yaml: expected an earlier fit or no file there; -o FILE names another place"
    )
    assert (here / "ascend_a3_fit.yaml").read_text() == "name: mine\nbase: ascend_a3\n"
    assert cli(*arguments, "-o", "ascend_a3_fit.yaml").code == 0


def test_calibrate_says_when_a_number_ends_at_the_edge(cli: Cli, table: Path, here: Path) -> None:
    pytest.importorskip("scipy")
    arguments = ("calibrate", "--table", table, "--free", "launch_cycles")
    assert "edge" not in cli(*arguments).err
    table.write_text(HEAD + ROWS.format(0.4, 0.4), encoding="utf-8")
    call = cli(*arguments)
    assert call.code == 0
    assert "launch_cycles: " in call.err
    assert "lies at the edge of what was tried, a factor of 10 from " in call.err
    assert "at the edge of what was tried" in (here / "ascend_a3_fit.yaml").read_text()
    assert cli(*arguments, "--json").json["at_edge"] == ["launch_cycles"]


def test_calibrate_to_stdout(cli: Cli, table: Path, here: Path) -> None:
    pytest.importorskip("scipy")
    call = cli("calibrate", "--table", table, "--free", "launch_cycles", "-o", "-")
    assert (call.code, call.err) == (0, "")
    assert call.out.startswith("name: ascend_a3_fit\nbase: ascend_a3\n")
    assert not (here / "-").exists()


def test_calibrate_refuses_unknown_fields(cli: Cli, table: Path) -> None:
    pytest.importorskip("scipy")
    call = cli("calibrate", "--table", table, "--free", "lunch_cycles")
    assert call.code == 2
    assert call.error.startswith("--free: unknown number 'lunch_cycles', did you mean 'launch_cycles'?")
    assert cli("calibrate", "--table", table).code == 2
