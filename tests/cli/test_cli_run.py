"""``hwmodel run``: every flag's effect, every exit code, and what is written where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwmodel import experiment
from hwmodel.errors import DeadlockError
from hwmodel.scenario import load

Cli = Callable[..., Any]
Write = Callable[..., str]
FILES = ["out.bin", "out.npy", "result.json", "scenario.resolved.yaml", "timeline.png", "trace.perfetto.json"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- output ----------------------------------------------------------------------------------------------------------


def test_a_run_prints_a_summary_and_writes_its_folder(cli: Cli, here: Path) -> None:
    call = cli("run", "small.yaml")
    assert call.code == 0
    assert "small" in call.out
    folder = here / "reports" / "runs" / f"small-{load('small.yaml').hash()}"
    assert names(folder) == FILES
    assert str(folder.relative_to(here)) in call.out
    assert call.err == ""
    document = json.loads((folder / "result.json").read_text())
    assert document["values"]["status"] == "bit_exact"
    assert len((folder / "out.bin").read_bytes()) == 32 * 64 * 2
    assert np.load(folder / "out.npy").shape == (32, 64)
    again = load(folder / "scenario.resolved.yaml")
    assert again == load("small.yaml")
    assert again.hash() == load("small.yaml").hash()


def test_the_same_inputs_give_the_same_folder(cli: Cli, here: Path) -> None:
    for _ in range(2):
        assert cli("run", "small.yaml", "--write", "result").code == 0
    cli("run", "small.yaml", "--write", "result", "--set", "problem.m=16")
    assert len(names(here / "reports" / "runs")) == 2


def test_out_with_one_scenario_is_the_folder_itself(cli: Cli, here: Path) -> None:
    assert cli("run", "small.yaml", "-o", "a/b", "--write", "result").code == 0
    assert names(here / "a" / "b") == ["result.json", "scenario.resolved.yaml"]
    assert cli("run", "small.yaml", "-o", "a/b", "--write", "out").code == 0
    assert names(here / "a" / "b") == ["out.bin", "out.npy", "scenario.resolved.yaml"]


def test_out_with_several_scenarios_holds_a_folder_each(cli: Cli, here: Path, scenario: Write) -> None:
    scenario("other.yaml", ("name: small", "name: other"))
    for _ in range(2):
        call = cli("run", "small.yaml", "other.yaml", "--out", "runs", "--write", "result")
        assert call.code == 0
    assert names(here / "runs") == ["other", "small"]


def test_json_is_one_document_and_nothing_else(cli: Cli, here: Path) -> None:
    call = cli("run", "small.yaml", "--json", "--write", "result", "-o", "x")
    assert call.code == 0
    assert call.json == json.loads((here / "x" / "result.json").read_text())
    assert call.json["name"] == "small"
    assert isinstance(call.json["cycles"], int)


def test_json_is_an_array_for_several(cli: Cli, scenario: Write) -> None:
    scenario("other.yaml", ("name: small", "name: other"))
    call = cli("run", "small.yaml", "other.yaml", "--json", "--write", "none")
    assert [document["name"] for document in call.json] == ["small", "other"]


def test_write_none_writes_nothing(cli: Cli, here: Path) -> None:
    call = cli("run", "small.yaml", "--write", "none", "-q")
    assert (call.code, call.out, call.err) == (0, "", "")
    assert names(here) == ["small.yaml"]


def test_write_takes_any_writer(cli: Cli, here: Path) -> None:
    assert cli("run", "small.yaml", "-o", "x", "--write", "csv,json, result").code == 0
    assert names(here / "x") == ["result.json", "scenario.resolved.yaml", "spans.csv"]


def test_values_skip_takes_the_same_cycles_and_writes_no_output(cli: Cli, here: Path) -> None:
    check = cli("run", "small.yaml", "--json", "--write", "none").json
    call = cli("run", "small.yaml", "--json", "-o", "x", "--values", "skip")
    assert call.code == 0
    assert call.json["cycles"] == check["cycles"]
    assert call.json["values"]["status"] == "skipped"
    assert call.json["values"]["sha256"] is None
    assert "out.bin" not in names(here / "x")


def test_a_writer_that_was_asked_for_and_has_nothing_to_write_says_so(cli: Cli, here: Path) -> None:
    call = cli("run", "small.yaml", "-o", "x", "--trace", "off", "--write", "result,perfetto")
    assert call.code == 0
    assert "trace.perfetto.json is not written: the trace is off" in call.err
    assert names(here / "x") == ["result.json", "scenario.resolved.yaml"]


@pytest.mark.parametrize("level", ["off", "summary", "full"])
def test_trace_level(cli: Cli, here: Path, level: str) -> None:
    call = cli("run", "small.yaml", "--json", "--trace", level, "-o", "x", "--write", "result,trace")
    assert call.json["trace"] == level
    assert (here / "x" / "trace.perfetto.json").exists() == (level != "off")


def test_timeline(cli: Cli) -> None:
    lines = cli("run", "small.yaml", "--write", "none", "-q", "--timeline").out.splitlines()
    assert lines[0].startswith("cycles 0 to ")
    assert [line.split()[0] for line in lines[2:6]] == ["MTE2", "MTE1", "M", "FIX"]
    short = cli("run", "small.yaml", "--write", "none", "-q", "--timeline", "--max-cycles", "300").out.splitlines()
    assert short[0].startswith("cycles 0 to 300 of ")
    assert short[2] != lines[2]


def test_set_changes_scenario_and_machine(cli: Cli) -> None:
    plain = cli("run", "small.yaml", "--json", "--write", "none").json
    sets = ["--set", "problem.n=96", "--set", "arch.units.fixpipe.startup_cycles=9999", "--set", "name=changed"]
    changed = cli("run", "small.yaml", "--json", "--write", "none", *sets).json
    assert changed["name"] == "changed"
    assert changed["problem"]["n"] == 96
    assert changed["cycles"] > plain["cycles"] + 9000


def test_quiet_and_verbose(cli: Cli) -> None:
    assert cli("run", "small.yaml", "-q", "-o", "x").err == ""
    call = cli("run", "small.yaml", "-v", "--set", "problem.m=0", "--write", "none")
    assert call.code == 2
    assert "Traceback" in call.err
    assert call.err.rstrip().endswith("--set problem.m: problem.m: expected a number greater than 0, not 0")


def test_no_color(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert "\x1b[" not in cli("run", "small.yaml", "--write", "none", "--no-color").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in cli("run", "small.yaml", "--write", "none").out


# -- exit codes ------------------------------------------------------------------------------------------------------


def test_a_changed_scenario_that_fails_its_expectation_says_how_to_expect_nothing(cli: Cli, scenario: Any) -> None:
    path = scenario("stated.yaml", ("n_split}", "n_split}\nexpect: {cycles: 1}"))
    hint = "--set expect={} expects nothing"
    assert hint not in cli("run", path, "--write", "none").err
    assert hint in cli("run", path, "--write", "none", "--set", "problem.m=48").err
    assert hint not in cli("run", path, "--write", "none", "--set", "problem.m=48", "-q").err
    assert hint not in cli("run", path, "--write", "none", "--set", "expect.cycles=2").err


def test_a_failed_expectation_exits_with_1(cli: Cli, here: Path) -> None:
    call = cli("run", "small.yaml", "--set", "expect.cycles=1", "-q", "-o", "x")
    assert call.code == 1
    assert "small: expected: cycles: expected 1, not " in call.error
    document = json.loads((here / "x" / "result.json").read_text())
    assert document["expect"]["status"] == "failed"


def test_a_golden_that_differs_says_how_many_where_and_how(cli: Cli, here: Path) -> None:
    cli("run", "small.yaml", "-q", "-o", "x", "--write", "out")
    good = (here / "x" / "out.bin").read_bytes()
    bad = bytearray(good)
    bad[2 * (64 * 3 + 5)] ^= 1
    bad[-1] ^= 0x80
    (here / "golden.bin").write_bytes(good)
    assert cli("run", "small.yaml", "-q", "--write", "none", "--set", "expect.out={path: golden.bin}").code == 0
    (here / "golden.bin").write_bytes(bad)
    call = cli("run", "small.yaml", "-q", "--write", "none", "--set", "expect.out={path: golden.bin}")
    assert call.code == 1
    assert "2 of 2048 elements differ from the golden file, first [3, 5] is 0x" in call.error


def test_the_worst_exit_code_wins(cli: Cli, scenario: Write) -> None:
    scenario("failing.yaml", ("name: small", "name: failing"), ("n_split}", "n_split}\nexpect: {cycles: 1}"))
    assert cli("run", "failing.yaml", "small.yaml", "-q", "--write", "none").code == 1


def test_a_failing_model_exits_with_3_and_the_others_run(
    cli: Cli, here: Path, scenario: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario("other.yaml", ("name: small", "name: other"))
    real = experiment.run

    def run(prepared: experiment.Prepared, **how: object) -> object:
        if prepared.scenario.name == "small":
            raise DeadlockError(7, ("M waits for MTE1",))
        return real(prepared, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(experiment, "run", run)
    call = cli("run", "small.yaml", "other.yaml", "--json", "-o", "x", "--write", "result")
    assert call.code == 3
    assert "small: deadlock at cycle 7: M waits for MTE1\n" in call.err
    assert call.json[0] == {"schema_version": 1, "name": "small", "error": "deadlock at cycle 7: M waits for MTE1"}
    assert call.json[1]["name"] == "other"
    assert names(here / "x") == ["other"]


def test_an_unexpected_error_is_one_line_and_3(cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(experiment, "run", run)
    call = cli("run", "small.yaml", "-o", "x")
    assert call.code == 3
    assert call.error == "internal error: ZeroDivisionError: division by zero (-v shows where)"
    assert names(here) == ["small.yaml"]
    call = cli("run", "small.yaml", "-v", "-o", "x")
    assert call.code == 3
    assert "Traceback" in call.err


def test_an_interrupt_is_one_line_and_130(cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "run", run)
    call = cli("run", "small.yaml", "-o", "x")
    assert (call.code, call.error) == (130, "interrupted")
    assert names(here) == ["small.yaml"]


def test_nothing_runs_when_one_scenario_is_bad(cli: Cli, here: Path, scenario: Write) -> None:
    scenario("bad.yaml", ("m: 32", "m: 0"))
    scenario("worse.yaml", ("n_split", "nsplit"))
    call = cli("run", "small.yaml", "bad.yaml", "worse.yaml", "none.yaml")
    assert call.code == 2
    assert call.out == ""
    assert [line.split(":")[0] for line in call.err.splitlines()] == ["bad.yaml", "worse.yaml", "none.yaml"]
    assert not (here / "reports").exists()


def test_one_bad_override_is_said_once(cli: Cli, scenario: Write) -> None:
    scenario("other.yaml", ("name: small", "name: other"))
    assert "did you mean 'm'?" in cli("run", "small.yaml", "other.yaml", "--set", "problem.mm=3").error


USAGE = [
    ([], "Missing argument 'SCENARIO'"),
    (["small.yaml", "--frobnicate"], "No such option: --frobnicate"),
    (["small.yaml", "--values", "chek"], "--values: expected one of check, skip, not 'chek', did you mean 'check'?"),
    (["small.yaml", "--trace", "fll"], "--trace: expected one of off, summary, full, not 'fll', did you mean 'full'?"),
    (["small.yaml", "--write", "reslt"], "--write: expected one of result, out, trace, timeline,"),
    (["small.yaml", "--write", "result,none"], "--write: expected one of result,"),
    (["small.yaml", "--write", ""], "--write: expected one of result,"),
    (["small.yaml", "--set", "problem.m"], "--set: expected PATH=VALUE, not 'problem.m'"),
    (["small.yaml", "--set", "problem.m={"], "--set problem.m: expected YAML text"),
    (["small.yaml", "--timeline", "--json"], "--timeline: expected without --json"),
    (["small.yaml", "--max-cycles", "5"], "--max-cycles: expected together with --timeline"),
    (["small.yaml", "--timeline", "--max-cycles", "0"], "--max-cycles: expected a number of at least 1, not 0"),
    (["small.yaml", "--timeline", "--max-cycles", "x"], "--max-cycles"),
    (["none"], "unknown scenario 'none'"),
    (["."], ".: expected a scenario, not a folder"),
]


@pytest.mark.parametrize(("arguments", "problem"), USAGE)
def test_usage_errors_are_one_line_and_2(cli: Cli, here: Path, arguments: list[str], problem: str) -> None:
    call = cli("run", *arguments)
    assert call.code == 2
    assert problem in call.error


# -- bad input -------------------------------------------------------------------------------------------------------

A = "n_split}\ninputs: {a: "
BAD = [
    ("m: 32", "m: 0", "small2.yaml:4: problem.m: expected a number greater than 0, not 0"),
    ("m: 32", "m: -1", "small2.yaml:4: problem.m: expected a number greater than 0, not -1"),
    ("m: 32", "m: x", "small2.yaml:4: problem.m: expected an integer, not 'x'"),
    ("m: 32", "m: 32, m: 32", "small2.yaml:4: problem.m: expected each key once"),
    ("m: 32", "mm: 32", "small2.yaml:4: problem.mm: expected one of"),
    ("a: hif4", "a: hif44", "did you mean 'hif4'?"),
    ("ascend_a6", "ascend_6", "small2.yaml:3: arch: unknown arch 'ascend_6', did you mean 'ascend_a6'?"),
    ("a: hif4, b: hif4", "a: fp32, b: hif4", "small2.yaml:4: problem: ascend_a6 has no matmul of fp32 x hif4"),
    ("m: 32", "m: 5000", "small2.yaml:5: tiling: m of one matmul instruction: expected at most 4095"),
    ("k: 64", "k: 4032", "small2.yaml:5: tiling: l0a"),
    ("n_split}", "n_split, tile_n: 7}", "small2.yaml:5: tiling.tile_n: expected a multiple of 64, not 7"),
    ("n_split}", A + "{kind: npy, path: no.npy}}", "small2.yaml:6: inputs.a.path: "),
    ("n_split}", A + "{kind: npy, path: no.npy}}", "no.npy: expected a file, but there is none of that name"),
    ("n_split}", A + "{kind: npy, path: nan.npy}}", "not NaN at [2, 3] (1 in all"),
    ("n_split}", A + "{kind: npy, path: shape.npy}}", "expected shape [32, 64], not [64, 32]"),
    ("n_split}", A + "{kind: packed, data: short, scales: short}}", "small2.yaml:6: inputs.a.data: "),
    ("n_split}", A + "{kind: packed, data: short, scales: short}}", "expected 1,024 bytes (32 x 64 hif4), not 10"),
    ("n_split}", A + "{kind: packed, data: right, scales: short}}", "expected 128 bytes (scale cells of 32 rows x 64"),
    ("n_split}", "n_split}\nexpect: {out: {path: short}}", "small2.yaml:6: expect.out.path: "),
    ("n_split}", "n_split}\nexpect: {out: {path: short}}", "expected 4,096 bytes (32 x 64 bf16), not 10"),
    ("n_split}", "n_split}\nexpect: {out: {path: none}}", "expected a file, but there is none of that name"),
]


@pytest.mark.parametrize(("old", "new", "problem"), BAD)
@pytest.mark.parametrize("command", [["run"], ["check"]])
def test_bad_input_is_one_line_and_2(
    cli: Cli, here: Path, scenario: Write, command: list[str], old: str, new: str, problem: str
) -> None:
    array = np.zeros((32, 64), np.float32)
    np.save(here / "shape.npy", array.T)
    array[2, 3] = np.nan
    np.save(here / "nan.npy", array)
    (here / "short").write_bytes(bytes(10))
    (here / "right").write_bytes(bytes(1024))
    call = cli(*command, scenario("small2.yaml", (old, new)))
    assert call.code == 2
    assert problem in call.error
    assert not (here / "reports").exists()


def test_nan_can_be_let_in(cli: Cli, here: Path, scenario: Write) -> None:
    array = np.zeros((32, 64), np.float32)
    array[2, 3] = np.nan
    np.save(here / "nan.npy", array)
    name = scenario("s.yaml", ("n_split}", A + "{kind: npy, path: nan.npy, nonfinite: keep}}"))
    assert cli("run", name, "-q", "-o", "x").code == 0
    assert np.isnan(np.load(here / "x" / "out.npy")[2]).all()


def test_equal_names_are_refused(cli: Cli, here: Path) -> None:
    call = cli("run", "small.yaml", "small.yaml", "-o", "x")
    assert call.code == 2
    assert "not small twice" in call.error
    assert not (here / "x").exists()
    assert cli("run", "small.yaml", "small.yaml", "-q", "--write", "result").code == 0


@pytest.mark.parametrize("several", [False, True])
def test_folders_of_something_else_are_refused(cli: Cli, here: Path, scenario: Write, several: bool) -> None:
    scenario("other.yaml", ("name: small", "name: other"))
    (here / "x").mkdir()
    (here / "x" / "thesis.txt").write_text("years of work")
    call = cli("run", "small.yaml", *(["other.yaml"] if several else []), "-o", "x")
    assert call.code == 2
    assert "x: expected a new folder, an empty one or an earlier run, not one that holds thesis.txt" in call.error
    assert names(here / "x") == ["thesis.txt"]
    call = cli("run", "small.yaml", "-o", "x/thesis.txt")
    assert call.code == 2
    assert "expected a folder for the run, not a file" in call.error
    call = cli("run", "small.yaml", "-o", "x/thesis.txt/run")
    assert call.code == 2
    assert "cannot write the run folder" in call.error


def test_a_writer_that_fails_leaves_nothing(cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hwmodel.writers import json_

    def write(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json_, "write", write)
    call = cli("run", "small.yaml", "-q", "-o", "x")
    assert call.code == 2
    assert "x: cannot write the run folder (No space left on device)" in call.error
    assert names(here) == ["small.yaml"]
