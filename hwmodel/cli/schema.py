"""``hwmodel schema``: JSON schema of the files."""

from __future__ import annotations

from typing import Annotated

import typer

from hwmodel.cli.options import Json, NoColor, Quiet, Verbose, configure
from hwmodel.errors import choice

WHAT = ("scenario", "arch")


def command(
    context: typer.Context,
    what: Annotated[str, typer.Argument(metavar="[scenario|arch]", help="Which file.")] = "scenario",
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> int:
    """Print the JSON schema of a scenario or arch file, for editors."""
    console = configure(context, quiet=quiet, verbose=verbose, as_json=as_json, no_color=no_color)
    choice("schema", what, WHAT)
    from hwmodel.config import schema

    console.json(schema.scenario_schema() if what == "scenario" else schema.arch_schema())
    return 0
