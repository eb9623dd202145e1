"""compare, sweep and tune from the command line: flags, files, exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from hwmodel.study.journal import Journal
from hwmodel.study.measure import Record
from tests.cli.conftest import Cli

ONE, TWO = "hif4_512x128x512", "hif4_512x128x512_l0c2"


# -- compare -----------------------------------------------------------------------------------------------------------


def test_compare_prints_tables_and_writes_page_and_picture(cli: Cli, here: Path) -> None:
    call = cli("compare", ONE, TWO, "-o", "out")
    assert call.code == 0
    assert f"{TWO}  38,250  1.743" in call.out
    assert "equal" in call.out
    assert "L0C peak" in call.out
    assert sorted(path.name for path in (here / "out").iterdir()) == ["compare.json", "compare.md", "compare.png"]
    assert cli("compare", ONE, TWO, "-o", "out").code == 0  # replaces its own


def test_the_tables_of_compare_fit_a_terminal_with_numbers_below_numbers(cli: Cli, here: Path) -> None:
    call = cli("compare", ONE, TWO, "--write", "md", "-o", "out")
    head, first, second, empty = call.out.splitlines()[:4]
    assert empty == ""
    for column in ("cycles", "ratio", "us", "of peak"):
        end = head.index(column) + len(column)
        assert all(line[end - 1] in "0123456789%" and line[end : end + 1] in ("", " ") for line in (first, second))
    tables = call.out.split(f"{TWO}: ")[0]
    assert max(len(line) for line in tables.splitlines()) <= 100
    assert (here / "out" / "compare.md").read_text().startswith(f"# {ONE} and 1 other run\n")


def test_compare_to_one_markdown_file(cli: Cli, here: Path) -> None:
    assert cli("compare", ONE, TWO, "-o", "page.md", "-q").code == 0
    assert "](page.png)" in (here / "page.md").read_text()
    assert (here / "page.png").read_bytes().startswith(b"\x89PNG")
    assert cli("compare", ONE, TWO, "-o", "only", "--write", "md", "-q").code == 0
    assert [path.name for path in (here / "only").iterdir()] == ["compare.md"]


def test_the_page_of_a_comparison_says_what_the_runs_said_of_their_values(cli: Cli, here: Path) -> None:
    assert cli("compare", ONE, TWO, "-o", "pages", "--write", "html", "-q").code == 0
    page = (here / "pages" / "compare.html").read_text(encoding="utf-8")
    assert page.count('"values":{"status":"bit_exact"') == 2


def test_a_limit_on_runs_without_timing_is_not_met_in_silence(cli: Cli) -> None:
    call = cli("compare", ONE, "quantize_hif4", "--fail-above", "5%", "--write", "none")
    assert call.code == 2
    assert "quantize_hif4: --fail-above: expected a time here and in the baseline, but there is none" in call.err
    assert cli("compare", ONE, "quantize_hif4", "--write", "none").code == 0


def test_fields_of_runs_that_have_ended_are_not_set(cli: Cli, here: Path) -> None:
    assert cli("run", "hif4_64x64x64", "-o", "run", "-q").code == 0
    call = cli("compare", "run", "run", "--set", "problem.m=16", "--write", "none")
    assert (call.code, call.err) == (2, "--set: expected a scenario to change, but these are runs that have ended\n")
    mixed = cli("compare", "run", "hif4_64x64x64", "--set", "problem.m=16", "--set", "expect={}", "--write", "none")
    assert mixed.code == 0


def test_compare_json_is_one_document(cli: Cli) -> None:
    call = cli("compare", ONE, TWO, "--json", "--write", "none")
    assert call.code == 0
    assert call.json["baseline"] == ONE
    assert [run["bits"] for run in call.json["runs"]] == ["baseline", "equal"]
    assert call.json["files"] == []


@pytest.mark.parametrize(("limit", "code"), [("75%", 0), ("74", 1), ("0", 1)])
def test_fail_above_is_exit_1(cli: Cli, limit: str, code: int) -> None:
    call = cli("compare", ONE, TWO, "--write", "none", "--fail-above", limit, "-q")
    assert call.code == code
    if code:
        assert f"{TWO}: expected at most {limit} % slower than the baseline, not 74.26 %" in call.err


@pytest.mark.parametrize("limit", ["five", "-1", "nan", "inf"])
def test_fail_above_needs_a_percentage(cli: Cli, limit: str) -> None:
    call = cli("compare", ONE, TWO, f"--fail-above={limit}")
    assert call.code == 2
    assert "--fail-above: expected a percentage" in call.error


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_compare_goes_on_after_a_kill(cli: Cli, here: Path) -> None:
    """The quick run is in the journal as the slow one is killed; a change of its record shows that it is taken."""
    slow = "silicon/trn1_bf16_fully_blocked"
    arguments = ["compare", ONE, slow, "-o", "out", "--values", "skip", "--write", "json"]
    with subprocess.Popen([sys.executable, "-m", "hwmodel", *arguments, "-q"], cwd=here) as process:
        deadline, journals = time.monotonic() + 60, list[Path]()
        while time.monotonic() < deadline and not (journals and journals[0].stat().st_size):
            time.sleep(0.01)
            journals = list((here / "out").glob(".hwmodel-*.jsonl"))
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert [path.suffix for path in (here / "out").iterdir()] == [".jsonl"]
    with Journal(journals[0], fresh=False) as journal:
        ((key, record),) = journal.records.items()
    with Journal(journals[0], fresh=True) as journal:
        journal.add(key, Record({**record.columns, "note": "from the journal"}))
    call = cli(*arguments, "--resume", "--json")
    assert call.code == 0
    assert call.json["notes"] == [f"{ONE}: from the journal"]
    assert [path.name for path in (here / "out").iterdir()] == ["compare.json"]
    assert "--resume: expected something to write" in cli("compare", ONE, TWO, "--write", "none", "--resume").error


def test_compare_takes_run_folders(cli: Cli) -> None:
    assert cli("run", ONE, "-o", "run", "-q").code == 0
    call = cli("compare", "run", TWO, "--write", "none", "--json")
    assert [run["bits"] for run in call.json["runs"]] == ["baseline", "equal"]
    assert call.json["runs"][0]["l0c_peak_bytes"] == 262144


def test_compare_checks_all_before_it_runs_any(cli: Cli, here: Path) -> None:
    (here / "bad.yaml").write_text((here / "small.yaml").read_text().replace("m: 32", "m: 0"))
    call = cli("compare", ONE, "bad.yaml", "nothing_of_that_name")
    assert call.code == 2
    assert call.out == ""
    assert call.err.count("\n") == 2
    assert not (here / "reports").exists()


def test_compare_refuses_a_folder_with_other_things(cli: Cli, here: Path) -> None:
    (here / "out").mkdir()
    (here / "out" / "notes.txt").write_text("mine")
    call = cli("compare", ONE, TWO, "-o", "out")
    assert call.code == 2
    assert "notes.txt" in call.error


def test_compare_sees_a_mismatch(cli: Cli, here: Path) -> None:
    text = (here / "small.yaml").read_text() + "expect: {cycles: 1}\n"
    (here / "wrong.yaml").write_text(text.replace("name: small", "name: wrong"))
    call = cli("compare", "small.yaml", "wrong.yaml", "--write", "none", "-q")
    assert call.code == 1
    assert "wrong: values or expectations failed" in call.err


# -- sweep -------------------------------------------------------------------------------------------------------------


def test_sweep_prints_the_best_first_and_writes_files(cli: Cli, here: Path) -> None:
    call = cli("sweep", ONE, "--vary", "tiling.tile_n=64,128,192", "-o", "out")
    assert call.code == 0
    lines = call.out.splitlines()
    assert lines[1].split()[:3] == ["128", "21,950", "1.000"]
    assert "1 of 3 points are not valid" in call.err
    assert "largest tile_n that fits is 128" in call.err
    names = ["journal.jsonl", "sweep.csv", "sweep.json", "sweep.parquet", "sweep.png"]
    assert sorted(path.name for path in (here / "out").iterdir()) == names
    assert pl.read_parquet(here / "out" / "sweep.parquet")["cycles"].to_list() == [21950, 40140, None]


def test_sweep_json(cli: Cli) -> None:
    call = cli("sweep", "small.yaml", "--vary", "problem.m=16,32", "--vary", "arch.launch_cycles=0,100", "--json")
    assert call.code == 0
    document = call.json
    assert (document["points"], document["valid"]) == (4, 4)
    assert document["best"]["arch.launch_cycles"] == 0
    assert [axis["path"] for axis in document["axes"]] == ["problem.m", "arch.launch_cycles"]


def test_sweep_over_set_fields_keeps_the_scenarios_expectation_out(cli: Cli) -> None:
    call = cli("sweep", ONE, "--set", "problem.k=64", "--vary", "problem.m=128,256", "--values", "check", "--json")
    assert call.code == 0
    assert {row["values"] for row in call.json["rows"]} == {"bit_exact"}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--vary", "problem.m"), "--vary: expected PATH=V1,V2"),
        (("--vary", "problem.m=[1"), "balanced brackets"),
        (("--vary", "problem.m=64", "--vary", "problem.m=32"), "each path once"),
        (("--vary", "problem.m=64", "--jobs", "0"), "--jobs: expected a number of at least 1"),
        (("--vary", "problem.m=64", "--engine", "spark"), "engine"),
        (("--vary", "problem.m=64", "--scheduler", "tcp://127.0.0.1:1"), "--scheduler: expected together with"),
        (("--vary", "problem.m=64", "--values", "maybe"), "--values: expected one of check, skip"),
        (("--vary", "problem.m=64", "--pareto", "l3"), "--pareto: expected one of l1, l0c, gm"),
        ((), "--vary"),
    ],
)
def test_sweep_refuses(cli: Cli, here: Path, arguments: tuple[str, ...], part: str) -> None:
    call = cli("sweep", "small.yaml", *arguments)
    assert call.code == 2
    assert part in call.error
    assert not (here / "reports").exists()


def test_sweep_without_a_valid_point_is_exit_2(cli: Cli) -> None:
    call = cli("sweep", "small.yaml", "--vary", "problem.m=0,-1", "-o", "out")
    assert call.code == 2
    assert "expected at least one valid point" in call.err
    assert "field" not in call.err


def test_sweep_refuses_a_folder_with_other_things(cli: Cli, here: Path) -> None:
    (here / "out").mkdir()
    (here / "out" / "notes.txt").write_text("mine")
    call = cli("sweep", "small.yaml", "--vary", "problem.m=16,32", "-o", "out")
    assert call.code == 2
    assert "notes.txt" in call.error


def test_sweep_resumes_from_its_journal(cli: Cli, here: Path) -> None:
    arguments = ("sweep", "small.yaml", "--vary", "problem.m=16,32,48", "-o", "out", "-q")
    assert cli(*arguments).code == 0
    journal = here / "out" / "journal.jsonl"
    first = (here / "out" / "sweep.csv").read_text()
    whole = journal.read_text()
    journal.write_text(whole[: len(whole) - 30])
    assert cli(*arguments, "--resume").code == 0
    assert (here / "out" / "sweep.csv").read_text() == first
    assert sorted(journal.read_text().splitlines()) == sorted(whole.splitlines())


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_is_one_line_and_130(here: Path) -> None:
    command = [sys.executable, "-m", "hwmodel", "sweep", ONE, "-o", "out", "-j", "2"]
    command += ["--vary", f"arch.launch_cycles={','.join(map(str, range(3000)))}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here, start_new_session=True
    ) as process:
        journal, deadline = here / "out" / "journal.jsonl", time.monotonic() + 20
        while time.monotonic() < deadline and (not journal.exists() or not journal.stat().st_size):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert (out, err) == ("", "interrupted\n")


# -- tune --------------------------------------------------------------------------------------------------------------


def test_tune_writes_a_best_that_runs(cli: Cli, here: Path) -> None:
    call = cli("tune", ONE, "--set", "tiling.kind=blocked", "--max-cores", "1", "-o", "out")
    assert call.code == 0
    assert call.out.splitlines()[1].startswith("best ")
    assert call.out.splitlines()[2].startswith("runner-up ")
    assert "no other tiling of this space is faster (proven by lower bounds)" in call.out
    names = ["best.yaml", "journal.jsonl", "tune.csv", "tune.json", "tune.parquet"]
    assert sorted(path.name for path in (here / "out").iterdir()) == names
    run = cli("run", "out/best.yaml", "--json", "--write", "none")
    assert run.code == 0
    assert run.json["expect"]["status"] == "met"


def test_tune_json_and_trials(cli: Cli) -> None:
    call = cli("tune", "small.yaml", "--json")
    assert call.code == 0
    assert call.json["proven"] is True
    assert call.json["best"]["cycles"] <= call.json["runner_up"]["cycles"]
    assert call.json["hazards"] == []
    assert call.json["values"] == "skipped"
    assert cli("tune", "small.yaml", "--json", "--values", "check").json["values"] == "bit_exact"
    for flag in ("--trials", "--max-cores"):
        assert f"{flag}: expected a number of at least 1" in cli("tune", "small.yaml", flag, "0").error
    assert "--search: expected one of auto, bounds, optuna" in cli("tune", "small.yaml", "--search", "luck").error


def test_tune_says_which_tilings_are_another_space(cli: Cli) -> None:
    call = cli("tune", "small.yaml", "--write", "none")
    assert "blocked tilings are another space: --set tiling.kind=blocked searches it" in call.out.splitlines()
    assert call.code == cli("tune", "small.yaml", "--write", "none", "--set", "tiling.kind=blocked").code == 0


def test_tune_needs_a_matmul(cli: Cli) -> None:
    call = cli("tune", "quantize_hif4", "-o", "out")
    assert call.code == 2
    assert "expected a scenario with a matmul problem" in call.error


def test_compare_needs_two(cli: Cli) -> None:
    assert cli("compare", ONE).error == (
        f"compare: expected a baseline and something to compare with it, not {ONE} alone"
    )


@pytest.mark.parametrize("arguments", [("run", ONE), ("compare", ONE, TWO), ("tune", ONE)])
def test_stdout_is_no_folder(cli: Cli, here: Path, arguments: tuple[str, ...]) -> None:
    call = cli(*arguments, "-o", "-")
    assert (call.code, call.error) == (2, "--out: expected a folder, not - (stdout); a folder of that name is ./-")
    assert not (here / "-").exists()


@pytest.mark.parametrize(
    ("arguments", "all_files"),
    [
        (("sweep", ONE, "--vary", "problem.k=64,128", "--set", "expect={}"), "parquet csv json png"),
        (("tune", "small.yaml"), "best parquet csv json"),
        (("compare", ONE, TWO), "json md png svg html"),
    ],
)
def test_write_and_trace_as_for_run(cli: Cli, here: Path, arguments: tuple[str, ...], all_files: str) -> None:
    call = cli(*arguments, "-o", "out", "--write", "none", "--trace", "off")
    assert (call.code, call.err.count("\n")) == (0, 1)
    assert call.err.startswith("--trace: no effect here")
    assert not (here / "out").exists()
    assert cli(*arguments, "-o", "out", "--write", "json", "--trace", "full", "-q").err == ""
    assert {path.name for path in (here / "out").iterdir()} - {"journal.jsonl"} == {f"{arguments[0]}.json"}
    assert cli(*arguments, "--trace", "some").error == "--trace: expected one of off, summary, full, not 'some'"
    assert f"--write: expected one of {', '.join(all_files.split())}" in cli(*arguments, "--write", "jsn").error
    assert "--resume: expected something to write" in cli(*arguments, "--write", "none", "--resume").error


def test_help_names_every_flag(cli: Cli) -> None:
    for name in ("compare", "sweep", "tune"):
        out = cli(name, "--help").out
        assert cli(name, "-h").out == out
        assert all(
            flag in out
            for flag in ("--jobs", "--engine", "--scheduler", "--json", "--set", "--out", "--write", "--trace")
        )
