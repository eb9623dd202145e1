"""Tables as files: Parquet, CSV and JSON, each written aside and renamed, so that no reader sees half of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwmodel.placing import replace_file
from hwmodel.study.table import flat

if TYPE_CHECKING:
    import polars as pl


def write_table(table: pl.DataFrame, folder: Path, stem: str, document: dict[str, Any]) -> list[Path]:
    """``stem.parquet`` and ``stem.csv`` of the table, ``stem.json`` of the document."""
    return [
        replace_file(folder / f"{stem}.parquet", lambda path: table.write_parquet(path)),
        replace_file(folder / f"{stem}.csv", lambda path: flat(table).write_csv(path)),
        replace_file(folder / f"{stem}.json", lambda path: path.write_text(json_text(document), encoding="utf-8")),
    ]


def json_text(document: Any) -> str:
    """JSON for people and machines."""
    return json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n"
