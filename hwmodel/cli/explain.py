"""``hwmodel explain``: why a run takes as long as it does, and what would help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hwmodel.cli.options import Json, NoColor, Quiet, Set, Verbose, configure
from hwmodel.cli.output import check_json, write_file
from hwmodel.errors import InputError

if TYPE_CHECKING:
    from hwmodel.result import Result

HTML = "explain.html"


def command(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN|SCENARIO", help="A run folder, or a scenario by path or name.")],
    html: Annotated[
        bool, typer.Option("--html", help="Write a page to look at, into RUN or, of a scenario, below reports/runs.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where the page goes; - is stdout.")
    ] = None,
    no_whatif: Annotated[bool, typer.Option("--no-whatif", help="Do not simulate what would help.")] = False,
    sets: Set = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> int:
    """Say why a run takes that long, and what would help.

    Stalls with their causes, critical path, phases, roofs, and what-if answers, each of them simulated.
    """
    console = configure(context, quiet=quiet, verbose=verbose, as_json=as_json, no_color=no_color)
    if out is not None and not html:
        raise InputError("--out: expected together with --html")
    check_json(out, as_json=as_json)
    from hwmodel.config.resources import shown_path
    from hwmodel.explain import explain
    from hwmodel.runs import lacking

    result, folder = _result(run, sets)
    if folder is not None and (missing := lacking(folder)):
        console.note(missing)
    explanation = explain(result, whatif=not no_whatif, progress=console.status)
    console.status("")
    target = None
    if html:
        from hwmodel.writers.html import write_pages

        target = write_file(
            out or (folder or _own_folder(result)) / HTML, lambda path: write_pages([explanation], path)
        )
    if as_json:
        console.json(explanation.to_dict())
    elif console.wants_text and not html:
        from hwmodel.writers.explain_text import WIDTH, screen

        console.out(screen(explanation, console.columns(WIDTH), color=console.color))
    if target is not None and not as_json and not quiet:
        console.out(shown_path(target))
    return 0


def _own_folder(result: Result) -> Path:
    """Where the page of a scenario goes: one folder for the same inputs, as for a run, so no other page is lost."""
    from hwmodel.study.folder import RUNS

    assert result.scenario is not None
    return RUNS / f"{result.name}-explain-{result.scenario.hash()}"


def _result(run: str, sets: list[str] | None) -> tuple[Result, Path | None]:
    """The result to explain, simulated without values, and the folder where it is an earlier run."""
    from hwmodel.config.runfolder import is_run
    from hwmodel.experiment import simulate
    from hwmodel.scenario import load

    folder = Path(run)
    if not folder.is_dir():
        return simulate(load(run, sets), values="skip"), None
    if not is_run(folder):
        raise InputError(f"{run}: expected a run folder or a scenario, not another folder")
    if sets:
        raise InputError("--set: expected with a scenario, not with a run folder, which has been simulated")
    return _earlier(folder), folder


def _earlier(folder: Path) -> Result:
    """An earlier run, its timing simulated again; what it said about values still holds."""
    from hwmodel.experiment import simulate
    from hwmodel.runs import as_it_was, load_scenario, read_summary

    summary = read_summary(folder)
    result = simulate(load_scenario(folder, summary), values="skip")
    if summary.get("cycles") != result.cycles:
        raise InputError(
            f"{folder}: the run had {summary.get('cycles')} cycles, this version gives {result.cycles}; run it again"
        )
    return as_it_was(result, summary)
