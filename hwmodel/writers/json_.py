"""result.json: what `Result.to_dict` says, as one JSON document."""

from __future__ import annotations

import json
from pathlib import Path

from hwmodel.result import Result


def text(result: Result) -> str:
    """The document, with a newline at the end."""
    return json.dumps(result.to_dict(), indent=2, ensure_ascii=False) + "\n"


def write(result: Result, path: Path) -> None:
    """Write the document."""
    path.write_text(text(result), encoding="utf-8", newline="\n")
