"""Rows of plain values as a typed table, sorted by rules that do not depend on how they came about."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

Row = dict[str, Any]

_WHOLE = ("rank", "cycles", "cores", "bound_cycles", "simulated")
_TEXT = ("name", "arch", "bound", "values", "sha256", "plan", "pareto", "problem", "source", "bits")


def order_of(value: Any) -> tuple[Any, ...]:
    """Sort key of any plain value: numbers by size, then text, then lists item by item, then the rest."""
    if value is None:
        return (0,)
    if isinstance(value, bool | int | float):
        return (1, float(value))
    if isinstance(value, str):
        return (2, value)
    if isinstance(value, list | tuple):
        return (3, *(order_of(item) for item in value))
    return (4, json.dumps(value, sort_keys=True, default=str))


def metric_of(rows: Sequence[Row]) -> str:
    """What tells good from bad: ``cycles``, or ``time_us`` where rows have different clocks."""
    clocks = {round(row["cycles"] / row["time_us"], 6) for row in rows if row.get("time_us")}
    return "time_us" if len(clocks) > 1 else "cycles"


def best_first(rows: Sequence[Row], settings: Sequence[str]) -> list[Row]:
    """Valid rows by time, then traffic, then bytes of L1, then what was set; rows with a problem come last."""
    metric = metric_of(rows)

    def key(row: Row) -> tuple[Any, ...]:
        measure = row.get(metric)
        measures = [math.inf if measure is None else measure, row.get("gm_bytes") or 0, row.get("l1_bytes") or 0]
        return (bool(row.get("problem")), *measures, *(order_of(row[name]) for name in sorted(settings)))

    return sorted(rows, key=key)


def front(rows: Sequence[Row], cost: str) -> list[int]:
    """Indices of rows on the Pareto front of time and ``cost``, both small: no other row is better in both.

    Of rows that are equal in both, the first stands for all.
    """
    metric = metric_of(rows)
    valid = [i for i, row in enumerate(rows) if row.get(metric) is not None and row.get(cost) is not None]
    found, least = [], math.inf
    for index in sorted(valid, key=lambda i: (rows[i][metric], rows[i][cost], i)):
        if rows[index][cost] < least:
            found.append(index)
            least = rows[index][cost]
    return found


def data_frame(rows: Sequence[Row], columns: Sequence[str], settings: Sequence[str] = ()) -> pl.DataFrame:
    """A typed polars table; ``settings`` are columns whose type follows from their values."""
    import polars as pl

    series = []
    for name in columns:
        values = [row.get(name) for row in rows]
        if name in settings:
            values, kind = _setting(values)
        else:
            kind = _kind(name)
        series.append(pl.Series(name, values, dtype=kind))
    return pl.DataFrame(series)


def _kind(name: str) -> Any:
    import polars as pl

    if name in _WHOLE or name.endswith("_bytes"):
        return pl.Int64
    return pl.String if name in _TEXT else pl.Float64


def _setting(values: list[Any]) -> tuple[list[Any], Any]:
    """(values, type) of a column of settings: numbers, text, lists of numbers, or JSON text where they are mixed."""
    import polars as pl

    some = [value for value in values if value is not None]
    kinds: tuple[tuple[Any, Any], ...] = (
        (bool, pl.Boolean),
        (int, pl.Int64),
        ((int, float), pl.Float64),
        (str, pl.String),
    )
    for types, kind in kinds:
        if all(isinstance(value, types) and (types is bool or not isinstance(value, bool)) for value in some):
            return [float(value) if kind == pl.Float64 and value is not None else value for value in values], kind
    lists = all(isinstance(value, list | tuple) for value in some)
    items = [item for value in some for item in value] if lists else []
    if lists and all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        return [None if value is None else list(value) for value in values], pl.List(pl.Int64)
    return [None if value is None else json.dumps(value, default=str) for value in values], pl.String


def text_of(value: Any) -> str:
    """A setting for people: ``[128, 64, 256]``."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def flat(table: pl.DataFrame) -> pl.DataFrame:
    """The table with lists as text, for formats that have no lists."""
    import polars as pl

    nested = [name for name, kind in table.schema.items() if isinstance(kind, pl.List)]
    texts = [
        pl.Series(name, [None if value is None else text_of(value.to_list()) for value in table[name]], dtype=pl.String)
        for name in nested
    ]
    return table.with_columns(texts)
