"""Tables as files: Parquet, CSV and JSON, each written aside and renamed, so that no reader sees half of one."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwmodel.errors import InputError
from hwmodel.study.table import flat

if TYPE_CHECKING:
    import polars as pl

ASIDE = ".hwmodel-"


def replace_file(target: Path, write: Callable[[Path], object]) -> Path:
    """Let ``write`` make a file aside, then put it in the place of ``target``. Raises InputError."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=ASIDE, suffix=target.suffix, dir=target.parent)
        os.close(handle)
        aside = Path(name)
        try:
            write(aside)
            aside.chmod(0o644)
            os.replace(aside, target)  # noqa: PTH105  replaces on all systems
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror or error})") from None
    return target


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
