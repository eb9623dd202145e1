"""``hwmodel validate``: the model against measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hwmodel.cli.options import Json, NoColor, Quiet, Verbose, configure
from hwmodel.errors import InputError

if TYPE_CHECKING:
    from hwmodel.cli.console import Console
    from hwmodel.validation.compare import Row, Validation

Table = Annotated[
    Path | None, typer.Option("--table", metavar="FILE", help="CSV of measurements [the published ones that ship].")
]


def command(
    context: typer.Context,
    table: Table = None,
    max_mape: Annotated[
        float, typer.Option("--max-mape", metavar="P", help="Largest mean error of a machine in per cent, else exit 1.")
    ] = 5.0,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", metavar="N", help="Rows simulated at a time [one for each processor].")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> int:
    """Compare the model with measured kernels.

    Simulates each row of a table and prints measured, modelled and error; exit 1 above the threshold, 2 where a row
    cannot be simulated.
    """
    console = configure(context, quiet=quiet, verbose=verbose, as_json=as_json, no_color=no_color)
    if not max_mape >= 0:
        raise InputError(f"--max-mape: expected a percentage of at least 0, not {max_mape:g}")
    from hwmodel.engines import check_engine, default_jobs
    from hwmodel.validation.compare import validate
    from hwmodel.validation.table import SHIPPED, read_table

    check_engine("local", jobs=jobs)
    rows = read_table(table or SHIPPED)
    found = validate(
        rows, jobs=jobs or default_jobs(), progress=lambda done, of: console.status(f"[{done}/{of}] rows simulated")
    )
    console.status("")
    too_far = [machine for machine in found.machines if machine.mape_percent > max_mape]
    if as_json:
        document = found.to_dict()
        met = found.machines and not too_far and not found.problems
        console.json({**document, "max_mape_percent": max_mape, "status": "met" if met else "failed"})
    elif console.wants_text:
        _print(found, console)
    for row in found.problems:
        console.error(f"{row.measurement.where}: {row.measurement.id}: not simulated: {row.problem}")
    scaled = [row for row in found.rows if row.wrong_unit]
    for row in scaled:
        console.error(f"{row.measurement.where}: time_ms: {row.wrong_unit}")
    for machine in too_far:
        found_error = f"{machine.mape_percent:.2f} %"
        console.error(f"{machine.arch}: expected a mean error of at most {max_mape:g} %, not {found_error}")
    if found.problems or scaled:
        return InputError.exit_code
    return int(bool(too_far))


def _print(found: Validation, console: Console) -> None:
    shown = [_cells(row) for row in found.rows if not row.problem]
    columns = ("row", "arch", "measured", "modelled", "error", "active shares: modelled / measured")
    width = len(columns) if any(row.ratios for row in found.rows) else len(columns) - 1
    console.table(columns[:width], [cells[:width] for cells in shown])
    for machine in found.machines:
        rows = f"{machine.rows} row{'s' if machine.rows > 1 else ''}"
        console.out(
            f"{machine.arch}: mean error {machine.mape_percent:.2f} %, worst {machine.worst_percent:.2f} %, over {rows}"
        )


def _cells(row: Row) -> tuple[str, ...]:
    assert row.modelled_ms is not None
    shares = (f"{ratio.unit} {ratio.modelled:.3f} / {ratio.measured:.3f}" for ratio in row.ratios)
    measured = row.measurement.time_ms
    return (
        row.measurement.id,
        row.measurement.arch,
        f"{measured:.4f} ms",
        f"{row.modelled_ms:.4f} ms",
        f"{row.error_percent:+.2f} %",
        "  ".join(shares),
    )
