"""The flags that several commands share, each said once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from hwmodel.cli.console import Console
from hwmodel.cli.output import folder
from hwmodel.errors import InputError, choice

LEVELS = ("off", "summary", "full")
NOTHING = "none"

Scenarios = Annotated[list[str], typer.Argument(metavar="SCENARIO", help="Path, or name of one that ships.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Replace a field of the scenario or its arch: --set problem.m=256."
    ),
]
Out = Annotated[
    Path | None, typer.Option("-o", "--out", metavar="DIR", callback=folder, help="Where the run folder goes.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else on stdout.")]
Values = Annotated[
    str, typer.Option("--values", metavar="check|skip", help="Compute and compare values, or only the timing.")
]
Write = Annotated[
    str | None, typer.Option("--write", metavar="NAME,...|none", help="What to write [result,out,trace,timeline].")
]
Trace = Annotated[
    str | None,
    typer.Option("--trace", metavar="off|summary|full", help="Detail of the trace [full up to 20,000 instructions]."),
]
StudyTrace = Annotated[
    str | None,
    typer.Option("--trace", metavar="off|summary|full", help="As of run; no effect here, as no traces are kept."),
]
Jobs = Annotated[int | None, typer.Option("-j", "--jobs", metavar="N", help="Processes [one a processor, if it pays].")]
Engine = Annotated[str, typer.Option("--engine", metavar="local|dask", help="Where simulations run.")]
Scheduler = Annotated[
    str | None, typer.Option("--scheduler", metavar="ADDRESS", help="tcp://host:port of a dask scheduler.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where an earlier call with the same output stopped.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Say more; tracebacks for errors.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colours (also: NO_COLOR).")]


def configure(
    context: typer.Context, *, quiet: bool = False, verbose: bool = False, as_json: bool = False, no_color: bool = False
) -> Console:
    """The console of this call, with the command's flags."""
    console = context.obj if isinstance(context.obj, Console) else Console()
    console.quiet, console.verbose, console.as_json, console.no_color = quiet, verbose, as_json, no_color
    return console


def check_study_trace(trace: str | None, console: Console) -> None:
    """Take ``--trace`` where many scenarios run: it is checked, and said to change nothing."""
    if trace is not None:
        choice("--trace", trace, LEVELS)
        console.note("--trace: no effect here: figures do not depend on it, and no traces are kept")


def written(write: str | None, known: Iterable[str]) -> list[str]:
    """What ``--write`` names, each once, of what there is: all of it without the flag, nothing for ``none``."""
    names = list(known)
    if write is None:
        return names
    asked = [name.strip() for name in write.split(",")]
    for name in asked:
        choice("--write", name, [*names, NOTHING] if len(asked) == 1 else names)
    return [name for name in dict.fromkeys(asked) if name != NOTHING]


def check_resume(resume: bool, names: Sequence[str]) -> None:
    """InputError for ``--resume`` where nothing is written."""
    if resume and not names:
        raise InputError("--resume: expected something to write, as an earlier study is found where it is written")
