"""``hwmodel export``: write an earlier run in another form."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hwmodel.cli.options import Json, NoColor, Quiet, Verbose, configure
from hwmodel.cli.output import check_json, is_stdout
from hwmodel.errors import InputError, choice
from hwmodel.placing import folder_aside, is_stream, put

if TYPE_CHECKING:
    from hwmodel.result import Result
    from hwmodel.writers import Writer


def command(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder: hwmodel run says where it wrote.")],
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="Writer (hwmodel list writers).")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where to write [into RUN]; - is stdout.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> int:
    """Write an earlier run in another form: perfetto, csv, html, ..."""
    console = configure(context, quiet=quiet, verbose=verbose, as_json=as_json, no_color=no_color)
    from hwmodel.config.resources import shown_path
    from hwmodel.config.runfolder import is_run
    from hwmodel.writers import WRITERS

    writer = WRITERS[choice("--to", to, WRITERS)]
    if not is_run(run):
        if not run.exists():
            raise InputError(f"{run}: expected a run folder, but there is none; hwmodel run says where it wrote one")
        raise InputError(f"{run}: expected a run folder, not {'another folder' if run.is_dir() else 'a file'}")
    check_json(out, as_json=as_json)
    from hwmodel.runs import lacking, load_folder

    result, missing = load_folder(run), lacking(run)
    files = _write(result, writer, out if out is not None else run / writer.filename)
    if missing:
        console.note(missing)
    if as_json:
        console.json({"schema_version": 1, "writer": writer.name, "files": [str(file) for file in files]})
    elif not quiet:
        for file in files:
            console.out(shown_path(file))
    return 0


def _write(result: Result, writer: Writer, target: Path) -> list[Path]:
    """Write aside, then put each file in its place; returns the files, none for stdout. A device gets the first."""
    to_stdout = is_stdout(target)
    place = Path(os.devnull) if to_stdout else target
    try:
        with folder_aside(place) as aside:
            written = writer.write(result, aside / (writer.filename if to_stdout else target.name))
            if to_stdout:
                with written[0].open("rb") as file:
                    shutil.copyfileobj(file, sys.stdout.buffer)
                return []
            if is_stream(target):
                put(written[0], target)
                return [target]
            places = [target.with_name(path.name) for path in written]
            for path, place in zip(written, places, strict=True):
                put(path, place)
            return places
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror or error})") from None
