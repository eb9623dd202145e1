"""``hwmodel run``: simulate, print, and write a run folder for each scenario."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from hwmodel.cli.console import Console
from hwmodel.cli.options import (
    Json,
    NoColor,
    Out,
    Quiet,
    Scenarios,
    Set,
    Trace,
    Values,
    Verbose,
    Write,
    choice,
    configure,
)
from hwmodel.cli.scenarios import Ready, prepare_all
from hwmodel.errors import HwmodelError, InputError

if TYPE_CHECKING:
    from hwmodel.result import Result
    from hwmodel.writers import Writer

RUNS = Path("reports") / "runs"
VALUES = ("check", "skip")
LEVELS = ("off", "summary", "full")
NOTHING = "none"


def command(
    context: typer.Context,
    scenarios: Scenarios,
    sets: Set = None,
    out: Out = None,
    as_json: Json = False,
    values: Values = "check",
    write: Write = None,
    trace: Trace = None,
    timeline: Annotated[bool, typer.Option("--timeline", help="Print the timeline as text.")] = False,
    max_cycles: Annotated[
        int | None, typer.Option("--max-cycles", metavar="N", help="Cycles that --timeline shows.")
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> int:
    """Simulate scenarios, print a summary and write a run folder for each."""
    console = configure(context, quiet=quiet, verbose=verbose, as_json=as_json, no_color=no_color)
    choice("--values", values, VALUES)
    level = None if trace is None else choice("--trace", trace, LEVELS)
    writers = _writers(write)
    _check_timeline(timeline, max_cycles, as_json)
    ready, code = prepare_all(scenarios, sets, console)
    if code:
        return code
    folders = _folders(ready, out) if writers else [None for _ in ready]
    documents = []
    for position, (each, folder) in enumerate(zip(ready, folders, strict=True), start=1):
        if len(ready) > 1:
            console.status(f"[{position}/{len(ready)}] {each.scenario.name}")
        try:
            result = _simulate(each, values, level)
            code = max(code, result.exit_code)
            documents.append(result.to_dict())
            _show(result, console, timeline=timeline, max_cycles=max_cycles)
            if folder is not None:
                _save(result, folder, writers, console)
        except HwmodelError as error:
            code = max(code, console.fail(error, each.scenario.name))
            documents.append({"schema_version": 1, "name": each.scenario.name, "error": str(error)})
    console.status("")
    if as_json:
        console.json(documents if len(ready) > 1 else documents[0])
    return code


def _simulate(each: Ready, values: str, level: str | None) -> Result:
    from hwmodel import experiment

    return experiment.run(
        each.prepared, values=cast("experiment.ValueMode", values), trace=cast("experiment.TraceLevel | None", level)
    )


def _show(result: Result, console: Console, *, timeline: bool, max_cycles: int | None) -> None:
    for hazard in result.hazards:
        console.error(f"{result.name}: hazard: {hazard}")
    if result.values.status == "mismatch":
        count = f"{result.values.mismatches:,} of {result.values.elements:,} elements differ from the reference"
        console.error(f"{result.name}: values: {count}{', first ' if result.values.first else ''}{result.values.first}")
    for failure in result.expect.failures:
        console.error(f"{result.name}: expected: {failure}")
    if console.wants_text:
        from hwmodel.writers import text

        console.out(text.summary(result))
    if timeline:
        from hwmodel.cli.timeline import timeline_lines

        for line in timeline_lines(result, max_cycles):
            console.out(line)


def _writers(write: str | None) -> list[Writer]:
    """The writers asked for, each file once; none for ``none``."""
    if write == NOTHING:
        return []
    from hwmodel.writers import DEFAULT, WRITERS

    names = DEFAULT if write is None else tuple(name.strip() for name in write.split(","))
    for name in names:
        choice("--write", name, [*WRITERS, NOTHING] if len(names) == 1 else WRITERS)
    return list({WRITERS[name].filename: WRITERS[name] for name in names}.values())


def _check_timeline(timeline: bool, max_cycles: int | None, as_json: bool) -> None:
    if timeline and as_json:
        raise InputError("--timeline: expected without --json, which prints nothing else")
    if max_cycles is not None and not timeline:
        raise InputError("--max-cycles: expected together with --timeline")
    if max_cycles is not None and max_cycles < 1:
        raise InputError(f"--max-cycles: expected a number of at least 1, not {max_cycles}")


def _folders(ready: Sequence[Ready], out: Path | None) -> list[Path | None]:
    """Where each scenario writes, all of them known to be writable."""
    from hwmodel.config import runfolder

    if out is None:
        folders = [RUNS / f"{each.scenario.name}-{each.scenario.hash()}" for each in ready]
    elif len(ready) == 1:
        folders = [out]
    else:
        runfolder.check_parent(out)
        names = [each.scenario.name for each in ready]
        if again := [name for name in names if names.count(name) > 1]:
            raise InputError(f"--out: expected scenarios of different names, not {again[0]} twice in {out}")
        folders = [out / name for name in names]
    for folder in folders:
        runfolder.check_replaceable(folder)
        runfolder.check_writable(folder)
    return list(folders)


def _save(result: Result, folder: Path, writers: Sequence[Writer], console: Console) -> None:
    from hwmodel.config.resources import shown_path
    from hwmodel.runs import save
    from hwmodel.writers import DEFAULT

    for writer in writers:
        if writer.name not in DEFAULT and (reason := writer.missing(result)):
            console.note(f"{result.name}: {writer.filename} is not written: {reason}")
    save(result, folder, tuple(writer.name for writer in writers))
    console.note(f"{result.name}: wrote {shown_path(folder)}")
