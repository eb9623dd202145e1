"""The page: one file to look at, with everything in it. A timeline to zoom, buffers, path, stalls, roofs, what-if.

Scripts, styles, the charting library (uPlot, MIT licence, in ``page/``) and the numbers all lie in the file, and its
own policy forbids it to load anything. Several results share one page and one time axis.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from hwmodel.explain import Explanation, explain
from hwmodel.result import Result
from hwmodel.writers import style
from hwmodel.writers.html_data import Columns, encode, how_names, page_run

SCRIPTS = ("data.js", "text.js", "rows.js", "timeline.js", "hover.js", "panels.js", "roofline.js", "main.js")
"""In the order in which they build on each other."""


def write(result: Result, path: Path) -> None:
    """Write the page of one result, its what-if answers simulated."""
    write_pages([explain(result)], path)


def write_side_by_side(results: Sequence[Result], path: Path, *, whatif: bool = False) -> None:
    """Write one page of several results with a common time axis, the baseline first."""
    write_pages([explain(result, whatif=whatif) for result in results], path)


def write_pages(explanations: Sequence[Explanation], path: Path) -> None:
    """Write one page of runs that have been explained."""
    path.write_text(page(explanations), encoding="utf-8", newline="\n")


def page(explanations: Sequence[Explanation]) -> str:
    """The page as text."""
    columns = Columns()
    runs = [page_run(explanation, columns) for explanation in explanations]
    about = {
        "runs": runs,
        "columns": columns.entries,
        "how": list(how_names()),
        "colours": {phase: _hex(colour) for phase, colour in style.PHASE_COLOURS.items()},
        "waits": {kind: {"label": look.label, "line": _hex(look.line)} for kind, look in style.WAITS.items()},
    }
    packed = base64.b64encode(zlib.compress(b"".join(columns.parts), 9)).decode()
    names = " / ".join(explanation.result.name for explanation in explanations)
    scripts = "\n".join(f"<script>\n{_asset(name)}</script>" for name in SCRIPTS)
    return Template(_asset("template.html")).substitute(
        title=escape(f"{names}: why it takes that long"),
        library_style=_asset("uPlot.min.css"),
        style=_asset("page.css"),
        library=_asset("uPlot.iife.min.js"),
        licence=_asset("uPlot.LICENSE").strip(),
        about=encode(about),
        columns=packed,
        scripts=scripts,
    )


def _asset(name: str) -> str:
    return files("hwmodel.writers").joinpath("page", name).read_text(encoding="utf-8")


def _hex(colour: style.Colour) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)
