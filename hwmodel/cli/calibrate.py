"""``hwmodel calibrate``: fit numbers of a machine to measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hwmodel.cli.options import Json, NoColor, Quiet, Verbose, configure
from hwmodel.cli.output import check_json, is_stdout, write_file
from hwmodel.errors import InputError

if TYPE_CHECKING:
    from hwmodel.cli.console import Console
    from hwmodel.validation.fit import Fit


def command(
    context: typer.Context,
    table: Annotated[Path, typer.Option("--table", metavar="FILE", help="CSV of measurements of one machine.")],
    free: Annotated[
        list[str],
        typer.Option("--free", metavar="PATH,PATH", help="Fields of the machine to fit: units.tload.bytes_per_cycle."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Where the variant goes [ARCH_fit.yaml]; - is stdout."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> int:
    """Fit fields of a machine to measurements.

    By least squares; writes a variant of the machine in which those fields have confidence ``fit``.
    """
    console = configure(context, quiet=quiet, verbose=verbose, as_json=as_json, no_color=no_color)
    check_json(out, as_json=as_json)
    from hwmodel.config.resources import shown_path
    from hwmodel.validation.fit import FITTED_BY, fit
    from hwmodel.validation.table import read_table

    names = [name.strip() for text in free for name in text.split(",") if name.strip()]
    rows = read_table(table)
    if out is None:
        _check_own(Path(f"{rows[0].arch}_fit.yaml"), FITTED_BY)
    found = fit(
        rows, names, progress=lambda count, error: console.status(f"{count} evaluations, mean error {error:.2f} %")
    )
    console.status("")
    name = f"{found.arch}_fit" if out is None or is_stdout(out) else out.stem
    target = out or Path(f"{name}.yaml")
    text = found.variant(name, table.name)
    if write_file(target, lambda path: path.write_text(text, encoding="utf-8", newline="\n")) is None:
        _warn(found, console)
        return 0
    if as_json:
        console.json(_document(found, target))
    elif console.wants_text:
        changes = [(path, f"{found.before[path]:g}", f"{value:g}") for path, value in found.after.items()]
        console.table(("field", "before", "fitted"), changes)
        errors = f"{found.error_before:.2f} % before, {found.error_after:.2f} % after"
        console.out(f"mean error of {found.rows} measured times: {errors}")
        console.out(shown_path(target))
    _warn(found, console)
    return 0


def _warn(found: Fit, console: Console) -> None:
    from hwmodel.validation.fit import RANGE

    for path in found.at_edge:
        console.note(
            f"{path}: {found.after[path]:g} lies at the edge of what was tried, a factor of {RANGE:g} from "
            f"{found.before[path]:g}: the best may lie beyond, or something else in the model differ"
        )


def _check_own(target: Path, mark: str) -> None:
    """InputError where the file that nobody named holds something other than an earlier fit."""
    if target.is_file() and mark not in target.read_text(encoding="utf-8", errors="replace"):
        raise InputError(f"{target}: expected an earlier fit or no file there; -o FILE names another place")


def _document(found: Fit, target: Path) -> dict[str, object]:
    return {
        "schema_version": 1,
        "arch": found.arch,
        "rows": found.rows,
        "before": found.before,
        "fitted": found.after,
        "mape_before_percent": found.error_before,
        "mape_after_percent": found.error_after,
        "at_edge": list(found.at_edge),
        "file": str(target),
    }
