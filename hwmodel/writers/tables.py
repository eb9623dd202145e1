"""Tables as files: Parquet, CSV and JSON, each written aside and renamed, so that no reader sees half of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwmodel.placing import replace_file
from hwmodel.study.table import flat

if TYPE_CHECKING:
    import polars as pl


FORMS = ("parquet", "csv", "json")
"""What a table is written as."""


def write_table(
    table: pl.DataFrame, folder: Path, stem: str, document: dict[str, Any], forms: Collection[str] = FORMS
) -> list[Path]:
    """``stem.parquet`` and ``stem.csv`` of the table, ``stem.json`` of the document; those of ``forms``."""
    ways: dict[str, Callable[[Path], object]] = {
        "parquet": table.write_parquet,
        "csv": lambda path: flat(table).write_csv(path),
        "json": lambda path: path.write_text(json_text(document), encoding="utf-8"),
    }
    return [replace_file(folder / f"{stem}.{form}", write) for form, write in ways.items() if form in forms]


def json_text(document: Any) -> str:
    """JSON for people and machines."""
    return json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n"
