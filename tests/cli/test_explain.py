"""``hwmodel explain``: one screen, the document, the page, and one clear line where there is nothing to explain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hwmodel.cli.entry import run

SECTIONS = ("critical path", "stalls", "phases", "roofs", "what if")
SCREEN = 46


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An earlier run."""
    assert run(["run", "hif4_64x64x64", "-o", str(tmp_path / "earlier"), "-q"]) == 0
    return tmp_path / "earlier"


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", ["hif4_512x128x512", "blocked_remainders", "hif4_64x64x64"])
def test_it_fits_on_one_screen(
    name: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run(["explain", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= SCREEN
    assert max(map(len, lines)) <= columns
    for section in SECTIONS:
        assert any(line.startswith(section) for line in lines), section
    assert any(line.strip().startswith("worth most of what can be built: ") for line in lines)


def test_json_has_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "hif4_512x128x512", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema_version"], document["cycles"], document["bound"]) == (1, 21950, "fixpipe")
    for unit, stalls in document["stalls"].items():
        assert stalls["busy_cycles"] + sum(cause["cycles"] for cause in stalls["causes"]) == 21950, unit
    assert sum(step["cycles"] for step in document["critical_path"]["steps"]) == 21950
    assert document["what_if"]["baseline_reproduced"]
    assert document["what_if"]["worth_most"]["target"] == "l0c"
    assert document["phases"]["steady_state"]["periods"] == 3
    assert document["alone_cycles"]["fixpipe"] == 18152


def test_a_run_folder_and_no_whatif(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", str(folder), "--no-whatif", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cycles"] == json.loads((folder / "result.json").read_text())["cycles"]
    assert document["what_if"] is None


def test_html_goes_into_the_folder_and_shows_the_verdict_of_the_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", str(folder), "--html"]) == 0
    page = (folder / "explain.html").read_text()
    assert capsys.readouterr().out.strip().endswith("explain.html")
    assert '"status":"bit_exact"' in page
    assert run(["explain", str(folder), "--html", "-o", "-"]) == 0
    assert capsys.readouterr().out.strip() == page.strip()
    assert run(["explain", str(folder), "--html", "-o", "-", "--json"]) == 2
    capsys.readouterr()
    assert run(["explain", str(folder), "--html", "-o", str(folder.parent / "deep" / "other.html"), "-q"]) == 0
    assert (folder.parent / "deep" / "other.html").read_text() == page
    assert run(["export", str(folder), "--to", "html", "-o", str(folder.parent / "third.html"), "-q"]) == 0
    assert (folder.parent / "third.html").read_text() == page


def test_overrides_of_a_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "hif4_64x64x64", "--set", "problem.n=128", "--no-whatif", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cycles"] != 2063


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


def test_what_cannot_be_explained_is_said_in_one_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", "quantize_hif4"]) == 2
    assert "no timing model, so there is no trace to explain" in one_line(capsys)
    (tmp_path / "empty").mkdir()
    assert run(["explain", str(tmp_path / "empty")]) == 2
    assert "expected a run folder or a scenario, not another folder" in one_line(capsys)
    assert run(["explain", str(folder), "--set", "problem.m=3"]) == 2
    assert "--set: expected with a scenario" in one_line(capsys)
    assert run(["explain", str(folder), "-o", "x.html"]) == 2
    assert "--out: expected together with --html" in one_line(capsys)


def test_incomplete_and_foreign_folders(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**summary, "schema_version": 7}))
    assert run(["explain", str(folder)]) == 2
    assert "expected schema_version 1, not 7" in one_line(capsys)
    (folder / "result.json").write_text(json.dumps({**summary, "cycles": 5}))
    assert run(["explain", str(folder)]) == 2
    assert "the run had 5 cycles" in one_line(capsys)
    (folder / "result.json").write_text(json.dumps({name: summary[name] for name in summary if name != "cycles"}))
    assert run(["explain", str(folder)]) == 2
    assert "incomplete run folder: result.json has no cycles" in one_line(capsys)
    (folder / "result.json").write_text("{")
    assert run(["explain", str(folder)]) == 2
    assert "incomplete run folder: result.json is not whole" in one_line(capsys)
    (folder / "result.json").unlink()
    assert run(["explain", str(folder)]) == 2
    assert "incomplete run folder: result.json is missing" in one_line(capsys)


@pytest.mark.parametrize("command", ["explain {}", "export {} --to html", "compare {} hif4_64x64x64 --write none"])
def test_a_folder_that_has_lost_its_scenario(folder: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "scenario.resolved.yaml").unlink()
    assert run(command.format(folder).split()) == 2
    assert "incomplete run folder: scenario.resolved.yaml is missing" in one_line(capsys)


@pytest.mark.parametrize("command", ["explain {}", "export {} --to html", "compare {} hif4_64x64x64 --write none"])
def test_a_folder_whose_output_is_cut_short(folder: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with (folder / "out.bin").open("r+b") as file:
        file.truncate(10)
    assert run(command.format(folder).split()) == 2
    assert "incomplete run folder: out.bin is cut short or changed" in one_line(capsys)


@pytest.mark.parametrize("command", ["explain {} --no-whatif", "export {} --to html"])
def test_a_folder_without_a_trace_says_so(folder: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command.format(folder).split()) == 0
    assert not capsys.readouterr().err
    (folder / "trace.perfetto.json").unlink()
    assert run(command.format(folder).split()) == 0
    assert f"no trace in {folder}: its timing was simulated again" in one_line(capsys)


@pytest.mark.parametrize("command", ["export {} --to html", "compare {} hif4_64x64x64 --write none"])
def test_a_folder_without_a_result_says_so(folder: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "result.json").unlink()
    assert run(command.format(folder).split()) == 0
    assert f"no result.json in {folder}: simulated again" in one_line(capsys)


def test_a_page_that_cannot_be_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder.parent / "file").write_text("")
    assert run(["explain", str(folder), "--html", "-o", str(folder.parent / "file" / "x.html")]) == 2
    assert "cannot be written" in one_line(capsys)


def test_the_page_of_a_scenario_has_its_own_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "explain.html").write_text("mine")
    written = set()
    for depth in (64, 128):
        arguments = ["explain", "hif4_64x64x64", "--html", "--no-whatif", "--set", f"problem.k={depth}"]
        assert run(arguments) == 0
        written.add(capsys.readouterr().out.strip())
    assert len(written) == 2
    assert all(path.startswith("reports/runs/hif4_64x64x64-explain-") for path in written)
    assert all(Path(path).is_file() for path in written)
    assert (tmp_path / "explain.html").read_text() == "mine"
