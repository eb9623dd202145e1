"""A progress bar with rate and time left: on a terminal only, and gone when the work is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hwmodel.cli.console import Console


@contextmanager
def progress(console: Console, total: int | None, what: str) -> Iterator[Callable[..., None]]:
    """A function to call with how many are done (and ``text=`` to say what is going on)."""
    if console.quiet or not sys.stderr.isatty():
        yield _silent
        return
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        """Points a second."""

        def render(self, task: object) -> Text:
            speed = getattr(task, "finished_speed", None) or getattr(task, "speed", None)
            return Text("" if speed is None else f"{speed:,.1f}/s")

    bar = Progress(
        TextColumn(f"{what} {{task.description}}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
        console=RichConsole(stderr=True, no_color=not console.color),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=total)
        yield lambda done, text="": bar.update(task, completed=done, description=text)


def _silent(_done: int, text: str = "") -> None:
    del text
