"""``hwmodel compare``: scenarios or run folders side by side; the first is the baseline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from hwmodel.cli.options import (
    Engine,
    Jobs,
    Json,
    NoColor,
    Quiet,
    Resume,
    Scheduler,
    Set,
    StudyTrace,
    Values,
    Verbose,
    check_study_trace,
    configure,
)
from hwmodel.cli.output import folder
from hwmodel.errors import HwmodelError, InputError, choice

if TYPE_CHECKING:
    from hwmodel.cli.console import Console
    from hwmodel.study.compare import Comparison, Job
    from hwmodel.study.pool import Workers

NAMES = ("json", "md", "png", "svg", "html", "none")
DEFAULT = "json,md,png"


def command(
    context: typer.Context,
    runs: Annotated[list[str], typer.Argument(metavar="BASE OTHER...", help="Scenarios or run folders.")],
    sets: Set = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR|FILE.md",
            callback=folder,
            help="Where it is written [reports/runs/compare-...].",
        ),
    ] = None,
    as_json: Json = False,
    values: Values = "check",
    write: Annotated[
        str | None, typer.Option("--write", metavar="json,md,png,svg,html|none", help="What to write [json,md,png].")
    ] = None,
    trace: StudyTrace = None,
    fail_above: Annotated[
        str | None, typer.Option("--fail-above", metavar="P%", help="Exit 1 if a run is more than P % slower.")
    ] = None,
    jobs: Jobs = None,
    engine: Engine = "local",
    scheduler: Scheduler = None,
    resume: Resume = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> int:
    """Put runs side by side: time, limit, traffic, buffers, bits.

    The first is the baseline; also written as one page with one picture.
    """
    console = configure(context, quiet=quiet, verbose=verbose, as_json=as_json, no_color=no_color)
    choice("--values", values, ("check", "skip"))
    check_study_trace(trace, console)
    limit = None if fail_above is None else _percent(fail_above)
    names = _names(write, out)
    if len(runs) < 2:
        raise InputError(f"compare: expected a baseline and something to compare with it, not {runs[0]} alone")
    from hwmodel.cli.progress import progress
    from hwmodel.study.compare import check_job, digest, job_of
    from hwmodel.study.pool import Workers

    workers = Workers(engine, jobs, scheduler).checked()
    if sets and all(_is_folder(name) for name in runs):
        raise InputError("--set: expected a scenario to change, but these are runs that have ended")
    found: list[Job] = []
    faults: dict[str, HwmodelError] = {}
    for name in runs:
        try:
            job = job_of(name, cast("Any", values), sets if not _is_folder(name) else None)
            check_job(job)
            found.append(job)
        except HwmodelError as error:
            faults.setdefault(str(error), error)
    if faults:
        return max(console.fail(error) for error in faults.values())
    target = _target(out, f"compare-{found[0].label}-{digest(found)}") if names else None
    if resume and target is None:
        raise InputError("--resume: expected something to write, as an earlier comparison is found where it is written")
    with progress(console, len(found), "compare") as tick:
        result, files = _run(found, workers, target, names, tick, resume=resume)
    slow = [] if limit is None else result.slower_than(limit)
    if as_json:
        status = {"fail_above_percent": limit, "slower": [entry.label for entry in slow]}
        console.json({**result.document(), **status, "files": [str(file) for file in files]})
    elif console.wants_text:
        _print(result, files, console)
    untimed = [] if limit is None else [entry for entry in result.entries[1:] if not result.ratio(entry)]
    for entry in untimed:
        console.error(f"{entry.label}: --fail-above: expected a time here and in the baseline, but there is none")
    for entry in slow:
        ratio = result.ratio(entry) or 1
        console.error(
            f"{entry.label}: expected at most {limit:g} % slower than the baseline, not {100 * (ratio - 1):.2f} %"
        )
    for entry in result.entries:
        if entry.failed:
            console.error(f"{entry.label}: values or expectations failed (hwmodel run says more)")
        if entry.note:
            console.note(f"{entry.label}: {entry.note}")
    failed = int(bool(slow) or any(entry.failed for entry in result.entries))
    return max(failed, InputError.exit_code if untimed else 0)


def _run(
    jobs: list[Job],
    workers: Workers,
    target: Path | None,
    names: list[str],
    progress: Callable[[int], None],
    *,
    resume: bool,
) -> tuple[Comparison, list[Path]]:
    """Simulate and write. What is done is kept in a journal beside the files until they are all there."""
    from hwmodel.placing import ASIDE
    from hwmodel.study.compare import compare, digest
    from hwmodel.study.journal import Journal

    if target is None:
        return compare(jobs, workers, None, progress), []
    with Journal(target.with_name(f"{ASIDE}compare-{digest(jobs)}.jsonl"), fresh=not resume) as journal:
        result = compare(jobs, workers, journal, progress)
        files = _write(result, jobs, target, names)
    journal.path.unlink(missing_ok=True)
    return result, files


def _percent(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise InputError(f"--fail-above: expected a percentage of at least 0, not {text!r}")
    return value


def _names(write: str | None, out: Path | None) -> list[str]:
    """What to write; a file name after ``-o`` means the page and its picture."""
    if write is None and out is not None and out.suffix == ".md":
        return ["md", "png"]
    names = [name.strip() for name in (DEFAULT if write is None else write).split(",")]
    for name in names:
        choice("--write", name, NAMES)
    return [] if names == ["none"] else list(dict.fromkeys(name for name in names if name != "none"))


def _is_folder(name: str) -> bool:
    from hwmodel.config.runfolder import is_run

    return is_run(Path(name))


def _target(out: Path | None, name: str) -> Path:
    """Path without suffix that all files share."""
    from hwmodel.study.folder import RUNS

    if out is not None and out.suffix == ".md":
        if out.is_dir():
            raise InputError(f"{out}: expected a file, not a folder")
        return out.with_suffix("")
    folder = out if out is not None else RUNS / name
    if folder.exists():
        if not folder.is_dir():
            raise InputError(f"{folder}: expected a folder or a name that ends in .md, not a file")
        others = [entry.name for entry in folder.iterdir() if entry.stem != "compare" and entry.name[0] != "."]
        if others:
            raise InputError(f"{folder}: expected an earlier comparison or an empty folder, not one with {others[0]}")
    return folder / "compare"


def _write(result: Comparison, jobs: list[Job], target: Path, names: list[str]) -> list[Path]:
    from hwmodel.placing import replace_file
    from hwmodel.writers import comparison
    from hwmodel.writers.tables import json_text

    picture = next((f"{target.name}.{name}" for name in names if name in ("png", "svg")), None)
    files = []
    for name in names:
        file = target.with_name(f"{target.name}.{name}")
        if name == "md":
            page = "\n".join(comparison.markdown(result, picture)) + "\n"
            files.append(replace_file(file, lambda path, page=page: path.write_text(page, encoding="utf-8")))  # type: ignore[misc]
        elif name == "json":
            text = json_text(result.document())
            files.append(replace_file(file, lambda path, text=text: path.write_text(text, encoding="utf-8")))  # type: ignore[misc]
        elif name == "html":
            files.append(replace_file(file, lambda path: _write_page(jobs, result, path)))
        else:
            files.append(replace_file(file, lambda path: comparison.write(result, path)))
    return files


def _write_page(jobs: list[Job], found: Comparison, path: Path) -> None:
    """The page needs traces, which a comparison does not carry: the runs are simulated once more, without values.

    What they said about values is kept.
    """
    from hwmodel.experiment import simulate
    from hwmodel.runs import as_it_was
    from hwmodel.writers.html import write_side_by_side

    pairs = zip(jobs, found.entries, strict=True)
    write_side_by_side([as_it_was(simulate(job.scenario, values="skip"), entry.document) for job, entry in pairs], path)


def _print(result: Comparison, files: list[Path], console: Console) -> None:
    from hwmodel.config.resources import shown_path
    from hwmodel.writers import comparison

    for table in comparison.tables(result):
        console.table(*table)
        console.out("")
    for entry in result.entries[1:]:
        if text := result.change(entry):
            console.out(text)
    for file in files:
        console.out(shown_path(file))
