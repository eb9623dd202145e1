"""``hwmodel sweep``: a grid of overrides over one scenario, simulated in parallel, best first."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from hwmodel.cli.options import (
    Engine,
    Jobs,
    Json,
    NoColor,
    Out,
    Quiet,
    Resume,
    Scheduler,
    Set,
    StudyTrace,
    Values,
    Verbose,
    check_resume,
    check_study_trace,
    configure,
    written,
)
from hwmodel.errors import choice

if TYPE_CHECKING:
    from hwmodel.cli.console import Console
    from hwmodel.study.sweep import Sweep

SHOWN = 10
"""Rows that are printed; the files have all."""
COSTS = ("l1", "l0c", "gm")
FILES = ("parquet", "csv", "json", "png")


def command(
    context: typer.Context,
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="Path, or name of one that ships.")],
    vary: Annotated[
        list[str],
        typer.Option("--vary", metavar="PATH=V1,V2,...", help="Values of a field of scenario or arch; repeatable."),
    ],
    sets: Set = None,
    out: Out = None,
    as_json: Json = False,
    values: Values = "skip",
    write: Annotated[
        str | None, typer.Option("--write", metavar="NAME,...|none", help="What to write [parquet,csv,json,png].")
    ] = None,
    trace: StudyTrace = None,
    jobs: Jobs = None,
    engine: Engine = "local",
    scheduler: Scheduler = None,
    resume: Resume = False,
    pareto: Annotated[
        str | None,
        typer.Option("--pareto", metavar="l1|l0c|gm", help="What the picture sets against cycles [first that varies]."),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> int:
    """Simulate every combination of values, best first.

    Writes sweep.parquet, .csv, .json and .png, or those that --write names.
    """
    console = configure(context, quiet=quiet, verbose=verbose, as_json=as_json, no_color=no_color)
    choice("--values", values, ("check", "skip"))
    check_study_trace(trace, console)
    names = written(write, FILES)
    check_resume(resume, names)
    cost = None if pareto is None else f"{choice('--pareto', pareto, COSTS)}_bytes"
    from hwmodel.cli.progress import progress
    from hwmodel.study.folder import study_folder
    from hwmodel.study.journal import NAME, Journal
    from hwmodel.study.points import Template, parse_axes
    from hwmodel.study.pool import Workers
    from hwmodel.study.sweep import size, sweep

    axes = parse_axes(vary)
    template = Template.read(scenario, sets)
    workers = Workers(engine, jobs, scheduler).checked()
    folder = study_folder(out, f"{template.name}-sweep-{template.digest(axes, values)}") if names else None
    with nullcontext() if folder is None else Journal(folder / NAME, fresh=not resume) as journal:
        with progress(console, size(axes), "sweep") as tick:
            found = sweep(
                template,
                axes,
                values=cast("Any", values),
                workers=workers,
                journal=journal,
                progress=tick,
            )
        files = [] if folder is None else _write(found, folder, cost, names)
    if as_json:
        console.json({**found.document(), "files": [str(file) for file in files]})
    elif console.wants_text:
        _print(found, console)
    _report(found, files, console)
    return found.code


def _write(found: Sweep, folder: Path, cost: str | None, names: list[str]) -> list[Path]:
    from hwmodel.placing import replace_file
    from hwmodel.writers import sweep_plots
    from hwmodel.writers.tables import write_table

    files = write_table(found.table(), folder, "sweep", found.document(), names)
    if "png" not in names:
        return files
    return [*files, replace_file(folder / "sweep.png", lambda path: sweep_plots.write(found, path, cost))]


def _print(found: Sweep, console: Console) -> None:
    from hwmodel.study.table import text_of

    settings = [axis.name for axis in found.axes]
    rows = []
    for row in found.valid[:SHOWN]:
        cycles = row.get("cycles")
        cells = [text_of(row[name]) for name in settings]
        if cycles is None:
            rows.append([*cells, "", "", "", "", ""])
            continue
        limit = row.get("bound") or ""
        rows.append(
            [
                *cells,
                f"{cycles:,}",
                f"{row['vs_best']:.3f}",
                f"{row['time_us']:,.2f}" if row.get("time_us") is not None else "",
                f"{limit} {100 * row[f'{limit}_utilization']:.0f} %" if limit else "",
                row.get("pareto") or "",
            ]
        )
    if rows:
        console.table((*settings, "cycles", "x best", "us", "limit (busy)", "Pareto front with"), rows)
    if (more := len(found.valid) - len(rows)) > 0:
        console.out(f"... and {more:,} more")


def _report(found: Sweep, files: list[Path], console: Console) -> None:
    from hwmodel.config.resources import shown_path

    problems = Counter(row["problem"] for row in found.rows if row["problem"])
    bad = sum(problems.values())
    if bad:
        console.note(f"{found.name}: {bad:,} of {len(found.rows):,} points are not valid; the table says why:")
        for problem, count in problems.most_common(3):
            console.note(f"  {count:,} x {problem}")
    if found.code == 2:
        console.error(f"{found.name}: expected at least one valid point, but there is none")
    different = sum(row.get("values") == "mismatch" for row in found.rows)
    if different:
        console.error(f"{found.name}: values of {different:,} points differ from the reference")
    if console.wants_text:
        for file in files:
            console.out(shown_path(file))
