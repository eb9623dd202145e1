"""``hwmodel tune``: search the tiling space of a scenario, and write the best one as a scenario."""

from __future__ import annotations

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
from hwmodel.errors import HwmodelError, InputError, choice

if TYPE_CHECKING:
    from hwmodel.cli.console import Console
    from hwmodel.study.tune import Search, Tuned

SHOWN = 5
BEST = "best.yaml"
FILES = ("best", "parquet", "csv", "json")
SEARCHES = ("auto", "bounds", "optuna")


def command(
    context: typer.Context,
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="Path, or name of one that ships.")],
    sets: Set = None,
    out: Out = None,
    as_json: Json = False,
    values: Values = "skip",
    write: Annotated[
        str | None, typer.Option("--write", metavar="NAME,...|none", help="What to write [best,parquet,csv,json].")
    ] = None,
    trace: StudyTrace = None,
    max_cores: Annotated[
        int | None, typer.Option("--max-cores", metavar="N", help="Most cores to use [all of the machine].")
    ] = None,
    search: Annotated[
        str, typer.Option("--search", metavar="auto|bounds|optuna", help="To the proof by bounds, or by sampling.")
    ] = "auto",
    trials: Annotated[
        int | None,
        typer.Option("--trials", metavar="N", help="Most to simulate [bounds: to the proof; sampling: 300]."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the sampling.")] = 0,
    jobs: Jobs = None,
    engine: Engine = "local",
    scheduler: Scheduler = None,
    resume: Resume = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> int:
    """Find the fastest tiling of a problem.

    Searches the scenario's kind of tiling (n_split or blocked; on Neuron every loop structure) in the order of
    lower bounds until none can beat the best, and writes best.yaml, a scenario.
    """
    console = configure(context, quiet=quiet, verbose=verbose, as_json=as_json, no_color=no_color)
    choice("--search", search, SEARCHES)
    choice("--values", values, ("check", "skip"))
    check_study_trace(trace, console)
    names = written(write, FILES)
    check_resume(resume, names)
    for flag, value in (("--max-cores", max_cores), ("--trials", trials)):
        if value is not None and value < 1:
            raise InputError(f"{flag}: expected a number of at least 1, not {value}")
    from hwmodel.cli.progress import progress
    from hwmodel.scenario import load
    from hwmodel.study.folder import study_folder
    from hwmodel.study.journal import NAME, Journal
    from hwmodel.study.points import Template
    from hwmodel.study.pool import Workers
    from hwmodel.study.tune import best_file, check_best, tune

    loaded = load(scenario, sets)
    workers = Workers(engine, jobs, scheduler).checked()
    folder = study_folder(out, f"{loaded.name}-tune-{loaded.hash()}") if names else None
    kept = nullcontext() if folder is None else Journal(folder / NAME, fresh=not resume)
    with kept as journal, progress(console, trials, "tune") as tick:
        try:
            found = tune(
                loaded,
                max_cores=max_cores,
                search=cast("Search", search),
                trials=trials,
                seed=seed,
                workers=workers,
                journal=journal,
                progress=lambda done, best, bound: tick(done, text=f"best {best:,}, open from {bound:,} cycles"),
            )
        except InputError as error:
            raise loaded.locate(error, "tiling") from error
    hazards, verdict = check_best(found, cast("Any", values))
    expect = {"values": "bit_exact"} if loaded.expect.values is not None else {}
    files = []
    if folder is not None:
        files = _write(found, folder, best_file(found, Template.read(scenario, sets), expect, folder), names)
    if as_json:
        status = "skipped" if verdict is None else verdict.status
        checked = {"hazards": list(hazards), "values": status}
        console.json({**found.document(), **checked, "files": [str(file) for file in files]})
    elif console.wants_text:
        _print(found, files, console)
        if verdict is not None and verdict.status == "bit_exact":
            console.out(f"values of the best tiling: all {verdict.elements:,} are those of the reference")
    for hazard in hazards:
        console.error(f"{found.name}: hazard in the best tiling: {hazard}")
    if verdict is not None and verdict.status == "mismatch":
        console.error(f"{found.name}: {verdict.mismatches} values of the best tiling differ, first {verdict.first}")
        return 1
    return HwmodelError.exit_code if hazards else 0


def _write(found: Tuned, folder: Path, text: str, names: list[str]) -> list[Path]:
    from hwmodel.placing import replace_file
    from hwmodel.writers.tables import write_table

    tables = write_table(found.table(), folder, "tune", found.document(), names)
    if "best" not in names:
        return tables
    return [replace_file(folder / BEST, lambda path: path.write_text(text, encoding="utf-8")), *tables]


def _print(found: Tuned, files: list[Path], console: Console) -> None:
    from hwmodel.config.resources import shown_path

    names = ("best", "runner-up", *("" for _ in range(SHOWN)))
    rows = []
    for name, row in zip(names, found.rows[:SHOWN], strict=False):
        limit = row.get("bound") or ""
        busy = f"{limit} {100 * row[f'{limit}_utilization']:.0f} %" if limit else ""
        rows.append((name, f"{row['cycles']:,}", f"{row['vs_best']:.3f}", busy, row.get("plan") or ""))
    console.table(("", "cycles", "x best", "limit (busy)", "tiling"), rows)
    count = f"{len(found.rows):,} tilings simulated of {max(found.considered, len(found.rows)):,} looked at"
    if found.proven:
        console.out(f"{count}: no other tiling of this space is faster (proven by lower bounds)")
    else:
        gap = 100 * (1 - (found.open_bound or 0) / found.best["cycles"])
        console.out(f"{count}: not proven; a tiling that was left out could be at most {gap:.1f} % faster")
    for kind in found.not_searched:
        console.out(f"{kind} tilings are another space: --set tiling.kind={kind} searches it")
    for file in files:
        console.out(shown_path(file))
