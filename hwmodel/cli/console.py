"""What the commands print: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

from hwmodel.errors import HwmodelError, InputError


@dataclass
class Console:
    """How this call prints. Commands fill in their flags; until then the careful defaults hold."""

    quiet: bool = False
    verbose: bool = False
    as_json: bool = False
    no_color: bool = False
    has_status: bool = False
    has_json: bool = False
    errors: list[str] = field(default_factory=list)
    """What has gone wrong, for the document that ``--json`` prints in place of a result."""

    @property
    def color(self) -> bool:
        """True where stdout may carry colours: a terminal, and nobody objects."""
        return not self.no_color and not os.environ.get("NO_COLOR") and sys.stdout.isatty()

    def columns(self, most: int) -> int:
        """Columns that a line may take: those of the terminal (or of COLUMNS), ``most`` at most and without either."""
        named = os.environ.get("COLUMNS", "").isdigit()
        return min(most, shutil.get_terminal_size((most, 0)).columns) if named or sys.stdout.isatty() else most

    @property
    def wants_text(self) -> bool:
        """True where results for people are wanted: neither ``--json`` nor ``-q``."""
        return not self.as_json and not self.quiet

    def out(self, text: str) -> None:
        """Print a result."""
        self.status("")
        with _stdout():
            sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def flush(self) -> None:
        """Let everything printed so far reach stdout. InputError where it cannot, as on a full disk."""
        with _stdout():
            sys.stdout.flush()

    def json(self, document: Any) -> None:
        """Print the one JSON document."""
        self.out(json.dumps(document, indent=2, ensure_ascii=False))
        self.has_json = True

    def json_of_errors(self) -> None:
        """The one JSON document of a call that had no result: what went wrong."""
        if not self.has_json:
            self.json({"schema_version": 1, "error": "; ".join(self.errors) or "failed"})

    def note(self, text: str) -> None:
        """Print to stderr, unless quiet."""
        if not self.quiet:
            self.error(text)

    def error(self, text: object) -> None:
        """Print one line to stderr, where anybody reads it."""
        self.status("")
        self.flush()
        try:
            print(" ".join(str(text).split()), file=sys.stderr, flush=True)  # noqa: T201  the one place
        except OSError:
            discard(sys.stderr)

    def fail(self, error: HwmodelError, name: str = "") -> int:
        """Print an error in one line, with the traceback before it if verbose; returns its exit code."""
        if self.verbose:
            import traceback

            self.status("")
            traceback.print_exception(error)
        text = f"{name}: {error}" if name else str(error)
        self.errors.append(text)
        self.error(text)
        return error.exit_code

    def status(self, text: str) -> None:
        """Show on a terminal what is going on; the next output replaces it."""
        if (text or self.has_status) and not self.quiet and sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K" + text)
            sys.stderr.flush()
        self.has_status = bool(text)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table: fitted to a terminal, else with lines as long as they are. Numbers stand below numbers."""
        texts = [[_text(cell) for cell in row] for row in rows]
        right = [_numeric([row[index] for row in texts]) for index in range(len(columns))]
        if sys.stdout.isatty():
            self._rich_table(columns, texts, right)
            return
        cells = [list(columns), *texts]
        widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
        for row in cells:
            placed = zip(row, widths, right, strict=True)
            self.out("  ".join(cell.rjust(width) if at else cell.ljust(width) for cell, width, at in placed).rstrip())

    def _rich_table(self, columns: Sequence[str], texts: list[list[str]], right: Sequence[bool]) -> None:
        from rich import box
        from rich.console import Console as RichConsole
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column, at in zip(columns, right, strict=True):
            table.add_column(column, overflow="fold", justify="right" if at else "left")
        for row in texts:
            table.add_row(*(Text(cell) for cell in row))
        RichConsole(color_system="auto" if self.color else None, highlight=False).print(table)


def discard(stream: TextIO) -> None:
    """Let what is printed to a stream that failed go nowhere, also what it still holds when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        discard(sys.stdout)
        raise InputError(f"stdout: cannot be written ({error.strerror or error})") from None


NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?( (%|ms|[KMG]iB|bytes))?|")
"""What is aligned on the right: a number with its unit, or nothing."""


def _numeric(cells: Sequence[str]) -> bool:
    return any(cells) and all(NUMBER.fullmatch(cell) for cell in cells)


def _text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, list | tuple):
        return ", ".join(_text(part) for part in cell)
    if isinstance(cell, bool):
        return "true" if cell else "false"  # as in YAML and JSON
    return str(cell)
