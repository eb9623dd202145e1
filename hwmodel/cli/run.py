"""``hwmodel run``: simulate, print, and write a run folder for each scenario."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from hwmodel.cli.console import Console
from hwmodel.cli.options import (
    LEVELS,
    NOTHING,
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
    configure,
)
from hwmodel.cli.scenarios import Ready, prepare_all
from hwmodel.config.resources import shown_path
from hwmodel.errors import HwmodelError, InputError, choice

if TYPE_CHECKING:
    from hwmodel.result import Result
    from hwmodel.writers import Writer

RUNS = Path("reports") / "runs"
VALUES = ("check", "skip")


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
    """Simulate scenarios, print a summary, write a run folder each."""
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
            if folder is not None:
                _save(result, folder, writers)
                _say_what_is_left_out(result, writers if write else [], console)
            _show(result, folder, console)
            if timeline:
                _show_timeline(result, max_cycles, console)
        except HwmodelError as error:
            code = max(code, console.fail(error, each.scenario.name))
            documents.append({"schema_version": 1, "name": each.scenario.name, "error": str(error)})
    console.status("")
    failed = any((document.get("expect") or {}).get("failures") for document in documents)
    if failed and sets and not any(text.lstrip().startswith("expect") for text in sets):
        console.note("the scenario expects this without --set; --set expect={} expects nothing")
    if as_json:
        console.json(documents if len(ready) > 1 else documents[0])
    return code


def _simulate(each: Ready, values: str, level: str | None) -> Result:
    from hwmodel import experiment

    return experiment.run(
        each.prepared, values=cast("experiment.ValueMode", values), trace=cast("experiment.TraceLevel | None", level)
    )


def _show(result: Result, folder: Path | None, console: Console) -> None:
    """The summary to stdout; what went wrong, in one line each, to stderr."""
    written = () if folder is None else (shown_path(folder),)
    if console.wants_text:
        from hwmodel.writers import text

        console.out(text.summary(result, console.columns(text.WIDTH), color=console.color, paths=written))
    else:
        for path in written:
            console.note(f"{result.name}: wrote {path}")
    for hazard in result.hazards:
        console.error(f"{result.name}: hazard: {hazard}")
    values = result.values
    if values.status == "mismatch":
        count = f"{values.mismatches:,} of {values.elements:,} elements differ from the reference"
        console.error(f"{result.name}: values: {count}{', first ' if values.first else ''}{values.first}")
    for failure in result.expect.failures:
        console.error(f"{result.name}: expected: {failure}")


def _show_timeline(result: Result, max_cycles: int | None, console: Console) -> None:
    from hwmodel.writers import text

    console.out(text.timeline_text(result, max_cycles, console.columns(text.LANES), color=console.color))


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


def _save(result: Result, folder: Path, writers: Sequence[Writer]) -> None:
    from hwmodel.runs import save

    save(result, folder, tuple(writer.name for writer in writers))


def _say_what_is_left_out(result: Result, asked: Sequence[Writer], console: Console) -> None:
    for writer in asked:
        if reason := writer.missing(result):
            console.note(f"{result.name}: {writer.filename} is not written: {reason}")
