"""``hwmodel check``, ``export``, ``list``, ``schema`` and the whole: help, version, unknown commands."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hwmodel import __version__
from hwmodel import numerics as nm
from hwmodel.cli.entry import COMMANDS
from hwmodel.config.reader import read_text
from hwmodel.config.resources import shipped_archs, shipped_scenarios
from hwmodel.experiment import Prepared
from hwmodel.program.hazards import Hazard
from hwmodel.scenario import load, loads
from hwmodel.tiling import TILINGS
from hwmodel.units import UNITS
from hwmodel.writers import WRITERS

Cli = Callable[..., Any]
Write = Callable[..., str]

# -- check -----------------------------------------------------------------------------------------------------------


def test_check_says_what_was_found(cli: Cli, here: Path) -> None:
    call = cli("check", "small.yaml")
    assert (call.code, call.err) == (0, "")
    assert call.out.startswith("small: ")
    assert "instructions on 1 core, no hazards" in call.out
    assert not (here / "reports").exists()
    assert cli("check", "small.yaml", "-q").out == ""


def test_check_shows_the_config(cli: Cli, here: Path) -> None:
    call = cli("check", "small.yaml", "--show", "config", "--set", "problem.m=48")
    assert call.code == 0
    assert loads(call.out, here) == load("small.yaml", {"problem.m": 48})


def test_check_shows_plan_program_and_hazards(cli: Cli) -> None:
    plan = cli("check", "small.yaml", "--show", "plan")
    assert read_text(plan.out, "f").data["kind"] == "n_split"
    program = cli("check", "small.yaml", "--show", "program")
    assert "tmatmul_mx" in program.out
    assert program.out.startswith("tensor a: hif4 [32, 64] row-major\n")
    hazards = cli("check", "small.yaml", "--show", "hazards")
    assert hazards.out.endswith("no hazards\n")


def test_check_json(cli: Cli, scenario: Write) -> None:
    document = cli("check", "small.yaml", "--json").json
    assert document["name"] == "small"
    assert document["status"] == "ok"
    assert document["hazards"] == []
    assert document["tiling"]["kind"] == "n_split"
    scenario("other.yaml", ("name: small", "name: other"))
    documents = cli("check", "small.yaml", "other.yaml", "--json", "--show", "program").json
    assert [each["name"] for each in documents] == ["small", "other"]
    assert documents[0]["instructions"] == sum(line.lstrip()[0].isdigit() for line in documents[0]["program"])


def test_check_names_all_places_beyond_a_buffer_which_run_refuses(cli: Cli, here: Path) -> None:
    """A region beyond L1, a scale buffer overrun and a race in one program: all are reported, in text and in JSON."""
    text = shipped_scenarios()["program_ascend_hif4"].read_text()
    for old, new in (
        ("a_l1: {space: l1, ", "a_l1: {space: l1, offset: 522240, "),
        ("offset: 2048}", "offset: 4032}"),
        ("    - {op: wait_flag, src: MTE1, dst: M, id: 1}\n", ""),
    ):
        assert old in text
        text = text.replace(old, new)
    (here / "bad.yaml").write_text(text)
    found = cli("check", "bad.yaml", "--json")
    assert (found.code, found.err, found.json["status"]) == (2, "", "hazards")
    kinds = {hazard.split(":")[0] for hazard in found.json["hazards"]}
    assert {"beyond", "scale overrun", "race", "left set"} <= kinds
    plain = cli("check", "bad.yaml")
    assert (plain.code, plain.err) == (2, "")
    assert all(f"program_ascend_hif4: hazard: {hazard}\n" in plain.out for hazard in found.json["hazards"])
    refused = cli("run", "bad.yaml", "--json")
    assert refused.code == 2
    assert refused.error.startswith("bad.yaml:5: program: beyond: tload ")


def test_check_of_an_operation_without_timing(cli: Cli, here: Path) -> None:
    text = "name: q\narch: ascend_a6\nproblem: {op: quantize, rows: 16, cols: 64, source: bf16, to: hif4}\n"
    (here / "q.yaml").write_text(text)
    assert cli("check", "q.yaml").out == "q: no program, no hazards\n"
    assert cli("check", "q.yaml", "--show", "program").out == ""
    assert cli("check", "q.yaml", "--json").json["instructions"] is None


def test_hazards_exit_with_2(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Hazard("race", 0, (3, 5), "5 textract reads l1[0:4] while 3 tload may still write it")
    monkeypatch.setattr(Prepared, "hazards", lambda _: (found,))
    call = cli("check", "small.yaml")
    assert call.code == 2
    assert f"small: hazard: {found}" in call.out
    assert call.out.endswith(", 1 hazard\n")
    assert cli("check", "small.yaml", "--json").json["status"] == "hazards"
    call = cli("run", "small.yaml", "--json", "--write", "none")
    assert call.code == 0
    assert f"small: hazard: {found}" in call.err
    assert call.json["hazards"] == [str(found)]


def test_check_goes_on_past_a_bad_scenario(cli: Cli, scenario: Write) -> None:
    scenario("bad.yaml", ("m: 32", "m: 0"))
    call = cli("check", "bad.yaml", "small.yaml")
    assert call.code == 2
    assert call.err.startswith("bad.yaml:4: problem.m: ")
    assert call.out.startswith("small: ")
    assert len(cli("check", "bad.yaml", "small.yaml", "--json").json) == 1
    assert "did you mean 'program'?" in cli("check", "small.yaml", "--show", "progam").error


# -- export ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(cli: Cli, here: Path) -> Path:
    assert cli("run", "small.yaml", "-q", "-o", "x", "--write", "result").code == 0
    return here / "x"


def test_export_goes_into_the_run_folder(cli: Cli, run: Path) -> None:
    call = cli("export", "x", "--to", "csv")
    assert (call.code, call.out) == (0, "x/spans.csv\n")
    assert (run / "spans.csv").is_file()
    assert cli("export", "x", "--to", "json", "-q").out == ""
    assert sorted(path.name for path in run.iterdir()) == ["result.json", "scenario.resolved.yaml", "spans.csv"]


def test_export_to_a_file_and_to_stdout(cli: Cli, run: Path, here: Path) -> None:
    call = cli("export", "x", "--to", "csv", "-o", "a/b.csv")
    assert call.out == "a/b.csv\n"
    assert cli("export", "x", "--to", "csv", "-o", "-").out == (here / "a" / "b.csv").read_text()
    document = cli("export", "x", "--to", "out", "-o", "a/y.bin", "--json").json
    assert document == {"schema_version": 1, "writer": "out", "files": ["a/y.bin", "a/y.npy"]}
    assert (here / "a" / "y.npy").is_file()


def test_exported_is_what_the_run_writes(cli: Cli, run: Path, here: Path) -> None:
    cli("run", "small.yaml", "-q", "-o", "y", "--write", "result,perfetto")
    cli("export", "x", "--to", "perfetto")
    name = "trace.perfetto.json"
    assert (run / name).read_bytes() == (here / "y" / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["x", "--to", "cvs"], "--to: expected one of result, out,"),
        (["x", "--to", "cvs"], "not 'cvs', did you mean 'csv'?"),
        (["x"], "Missing option '--to'"),
        (["none", "--to", "csv"], "none: expected a run folder, but there is none"),
        ([".", "--to", "csv"], ".: expected a run folder, not another folder"),
        (["small.yaml", "--to", "csv"], "small.yaml: expected a run folder, not a file"),
        (["x", "--to", "csv", "-o", "small.yaml/y"], "small.yaml/y: cannot be written"),
        (["x", "--to", "csv", "-o", "x"], "x: cannot be written"),
        (["x", "--to", "csv", "-o", "-", "--json"], "--json: expected a file to write to"),
    ],
)
def test_bad_exports(cli: Cli, run: Path, arguments: list[str], problem: str) -> None:
    call = cli("export", *arguments)
    assert call.code == 2
    assert problem in call.error


def test_export_of_a_half_run(cli: Cli, run: Path) -> None:
    (run / "result.json").write_text('{"schema_')
    assert "x: incomplete run folder: result.json is not whole" in cli("export", "x", "--to", "csv").error


# -- list ------------------------------------------------------------------------------------------------------------

TABLES = {
    "arch": shipped_archs,
    "dtypes": lambda: nm.DTYPES,
    "units": lambda: UNITS,
    "tilings": lambda: TILINGS,
    "rules": lambda: nm.RULES,
    "writers": lambda: WRITERS,
    "scenarios": shipped_scenarios,
}


@pytest.mark.parametrize("topic", TABLES)
def test_lists_are_printed_from_the_tables(cli: Cli, topic: str) -> None:
    call = cli("list", topic)
    assert (call.code, call.err) == (0, "")
    assert [line.split()[0] for line in call.out.splitlines()[1:]] == list(TABLES[topic]())
    rows = cli("list", topic, "--json").json
    assert [next(iter(row.values())) for row in rows] == list(TABLES[topic]())


def test_list_of_topics(cli: Cli) -> None:
    assert [line.split()[0] for line in cli("list").out.splitlines()[1:]] == list(TABLES)


def test_list_of_one_machine_shows_every_number_with_its_source(cli: Cli) -> None:
    rows = cli("list", "arch", "ascend_a6", "--json").json
    found = {row["field"]: row for row in rows}
    assert found["buffers.l0c.capacity_bytes"]["value"] == 262144
    assert found["buffers.l0c.capacity_bytes"]["confidence"] == "spec"
    assert found["units.fixpipe.row_floor_cycles"]["value"] == 4.59
    assert all(row["source"] and row["confidence"] for row in rows)


def test_what_is_true_or_false_is_so_in_json(cli: Cli) -> None:
    calibrated = {row["arch"]: row["calibrated"] for row in cli("list", "arch", "--json").json}
    assert (calibrated["ascend_a3"], calibrated["ascend_a6"]) == (True, False)
    usual = [row["writer"] for row in cli("list", "writers", "--json").json if row["by default"] is True]
    assert usual == ["result", "out", "trace", "timeline"]
    assert "ascend_a6    ascend  false " in cli("list", "arch").out


def test_list_of_a_machine_of_ones_own(cli: Cli, here: Path) -> None:
    (here / "mine.yaml").write_text("base: ascend_a6\ncores: 3\n")
    rows = cli("list", "arch", "mine.yaml", "--json").json
    assert {"field": "cores", "value": 3, "confidence": "assumed", "source": "override"} in rows


def test_list_of_one_entry(cli: Cli) -> None:
    assert cli("list", "dtypes", "hif4").out.splitlines()[1].startswith("hif4 ")
    assert "startup_cycles  required" in cli("list", "units", "cube").out
    fields = cli("list", "tilings", "n_split", "--json").json
    assert {"field": "buffers.l0c", "default": 1}.items() <= fields[-1].items()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["dtype"], "list: expected one of arch, dtypes,"),
        (["dtypes", "hif5"], "unknown dtype 'hif5'"),
        (["arch", "ascend_a66"], "unknown arch 'ascend_a66', did you mean 'ascend_a6'?"),
        (["units", "cubes"], "unknown unit 'cubes', did you mean 'cube'?"),
        (["tilings", "nsplit"], "unknown tiling 'nsplit', did you mean 'n_split'?"),
        (["arch", "bad.yaml"], "bad.yaml:1: cores: expected an integer, not 'x'"),
    ],
)
def test_bad_lists(cli: Cli, here: Path, arguments: list[str], problem: str) -> None:
    (here / "bad.yaml").write_text("{base: ascend_a6, cores: x}")
    call = cli("list", *arguments)
    assert call.code == 2
    assert problem in call.error


def test_tables_on_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    lines = cli("list", "dtypes", "--no-color").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("hif4") for line in lines)


# -- schema, and the whole -------------------------------------------------------------------------------------------


def test_schema(cli: Cli) -> None:
    schema = cli("schema").json
    assert schema == cli("schema", "scenario").json
    assert "problem" in schema["properties"]
    assert "buffers" in cli("schema", "arch").json["properties"]
    assert "did you mean 'arch'?" in cli("schema", "archs").error


def test_version_and_help(cli: Cli) -> None:
    assert cli("--version").out == f"hwmodel {__version__}\n"
    text = cli("--help").out
    for command in COMMANDS:
        assert f"  {command} " in text
        assert cli(command, "--help").code == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [([], "Missing command"), (["rnu"], "No such command 'rnu'"), (["--frobnicate"], "No such option: --frobnicate")],
)
def test_unknown_commands(cli: Cli, arguments: list[str], problem: str) -> None:
    call = cli(*arguments)
    assert call.code == 2
    assert problem in call.error


def test_json_has_no_colours_and_ends_with_a_newline(cli: Cli) -> None:
    out = cli("list", "--json").out
    assert out.endswith("]\n")
    assert json.loads(out)


def test_export_and_explain_never_replace_a_device(cli: Cli, run: Path, here: Path) -> None:
    pipe = here / "pipe"
    os.mkfifo(pipe)
    for arguments in (["export", run, "--to", "out"], ["explain", run, "--html", "--no-whatif"]):
        found: list[bytes] = []
        reader = threading.Thread(target=lambda found=found: found.append(pipe.read_bytes()))  # type: ignore[misc]
        reader.start()
        assert cli(*arguments, "-o", pipe).code == 0
        reader.join(10)
        assert found[0]
        assert pipe.is_fifo()
    assert not (here / "pipe.npy").exists()


def test_the_list_of_commands_says_each_whole_in_80_columns(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = cli("--help").out
    commands = out.split("Commands:\n")[1].splitlines()
    for name in COMMANDS:
        (line,) = [line for line in commands if line.split()[:1] == [name]]
        text = line.split(maxsplit=1)[1]
        assert text.endswith((".", ", ...")), text
        assert text in cli(name, "--help").out


def test_wrong_use_points_to_the_help_of_its_command(cli: Cli) -> None:
    assert cli("calibrate").error == ("hwmodel calibrate: Missing option '--table'. (see hwmodel calibrate --help)")
    assert cli("quantise").error == "hwmodel: No such command 'quantise'. (see hwmodel --help)"
