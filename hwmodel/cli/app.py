"""The typer application around the commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any

import typer

from hwmodel import __version__
from hwmodel.cli.interrupt import interrupts

HELP = {"help_option_names": ["-h", "--help"]}


def application(commands: Mapping[str, Callable[..., int]]) -> typer.Typer:
    """An application with these commands. It raises its errors: ``hwmodel.cli.main`` turns them into exit codes."""
    app = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, context_settings=HELP
    )
    app.callback()(_root)
    for name, command in commands.items():
        app.command(name)(_carried(command))
    return app


class CarriedError(Exception):
    """An interrupt or a closed pipe on its way out: typer would end the process for these in its own way."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause


def _carried(command: Callable[..., int]) -> Callable[..., int]:
    @wraps(command)
    def call(*arguments: Any, **flags: Any) -> int:
        interrupts.work()
        try:
            return command(*arguments, **flags)
        except (KeyboardInterrupt, BrokenPipeError) as stop:
            raise CarriedError(stop) from stop

    return call


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hwmodel {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Bits and cycles of NPU matmul pipelines, from one run."""
    del version
