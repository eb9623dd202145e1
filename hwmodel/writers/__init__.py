"""Writers: each turns a `Result` into files. One file and one entry in the table below for a new one.

Modules are loaded when a writer is used, so that asking for a result does not import what draws pictures. The same
result gives the same bytes, whenever and wherever it is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal

from hwmodel.errors import InputError, unknown_name

if TYPE_CHECKING:
    from hwmodel.result import Result

Needs = Literal["", "trace", "values"]


@dataclass(frozen=True)
class Writer:
    """One entry of the table: ``module`` is in this package and has a function ``write(result, path)``."""

    name: str
    filename: str
    """Name of its file in a run folder."""
    needs: Needs
    """What a result must have: nothing, a trace, or output values."""
    summary: str
    module: str
    function: str = "write"

    @property
    def extension(self) -> str:
        """Extension of its file, with the dot."""
        return PurePath(self.filename).suffix

    def missing(self, result: Result) -> str:
        """Why this writer has nothing to write for ``result``; empty where it has."""
        if self.needs == "trace" and (result.trace is None or result.program is None):
            return "this operation has no timing model, so there is no trace"
        if self.needs == "values" and not result.outputs:
            return "values were skipped, so there is no output"
        if self.filename == "trace.perfetto.json" and result.trace_level == "off":
            return "the trace is off"
        return ""

    def write(self, result: Result, path: Path) -> tuple[Path, ...]:
        """Write ``result`` to ``path`` (and to files beside it, where the format has several); returns all paths.

        Raises InputError where the result lacks what the writer needs.
        """
        if reason := self.missing(result):
            raise InputError(f"cannot write {self.name}: {reason}")
        module = import_module(f"hwmodel.writers.{self.module}")
        written: tuple[Path, ...] | None = getattr(module, self.function)(result, path)
        return written or (path,)


_RESULT = Writer("result", "result.json", "", "cycles, units, values, traffic of the run: one JSON document", "json_")
_TRACE = Writer("trace", "trace.perfetto.json", "trace", "for ui.perfetto.dev and chrome://tracing", "perfetto")
_TIMELINE = Writer("timeline", "timeline.png", "trace", "picture: one row an engine, and what L0C holds", "timeline")

WRITERS: dict[str, Writer] = {
    "result": _RESULT,
    "out": Writer("out", "out.bin", "values", "output: raw bytes, and the same values as out.npy", "out"),
    "trace": _TRACE,
    "timeline": _TIMELINE,
    "perfetto": _TRACE,
    "png": _TIMELINE,
    "svg": Writer("svg", "timeline.svg", "trace", "the timeline picture as SVG", "timeline", "write_svg"),
    "csv": Writer("csv", "spans.csv", "trace", "one line for each span of each row: what, when, why", "csv_"),
    "json": _RESULT,
    "md": Writer("md", "report.md", "", "the summary as a Markdown page", "markdown"),
    "html": Writer("html", "explain.html", "trace", "one page: timeline to zoom, stalls, path, what-if", "html"),
    "roofline": Writer("roofline", "roofline.png", "trace", "picture: the run under its machine's roofs", "roofline"),
}
"""All writers by name; ``perfetto``, ``png`` and ``json`` are the format names of trace, timeline and result."""

DEFAULT = ("result", "out", "trace", "timeline")
"""What a run writes when it is not told otherwise."""


def writer(name: str) -> Writer:
    """The writer of that name.

    Raises InputError for an unknown name, with the known ones.
    """
    if name not in WRITERS:
        raise InputError(unknown_name("writer", name, WRITERS))
    return WRITERS[name]


__all__ = ["DEFAULT", "WRITERS", "Writer", "writer"]
