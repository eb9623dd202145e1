"""Tables of measurements: one CSV row for each kernel that somebody timed."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hwmodel.config.resources import shipped_archs
from hwmodel.errors import InputError, did_you_mean, unknown_name

SHIPPED = Path(__file__).with_name("silicon.csv")
"""The published measurements that come with the package."""

REQUIRED = ("id", "arch", "kernel", "m", "k", "n", "time_ms")
RATIOS = {"cube_ratio": 0, "textract_ratio": 1, "tload_ratio": 2, "tstore_ratio": 3}
"""Active share of a pipe, by its place in the pipeline: see `units_of_family`."""
OPTIONAL = (
    "dtype_a", "dtype_b", "dtype_out", "core_grid", "base_m", "base_k", "base_n", "panel_slices", "scale_panels",
    *RATIOS, "source", "scenario",
)  # fmt: skip
MOST_MS = 3_600_000.0

UNITS = {
    "ascend": {"cube_ratio": "cube", "textract_ratio": "textract", "tload_ratio": "tload", "tstore_ratio": "fixpipe"},
    "neuron": {"cube_ratio": "pe", "tload_ratio": "dma", "tstore_ratio": "evacuate"},
}
"""Unit that each ratio column measures: in Neuron rows the Cube's column is PE active, the load's DMA active."""


@dataclass(frozen=True)
class Measurement:
    """One row: a kernel, its size and tiling, the measured time and active shares."""

    id: str
    arch: str
    kernel: str
    m: int
    k: int
    n: int
    time_ms: float
    ratios: Mapping[str, float]
    """Active share by column name; only those that were measured."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """The row's other cells, as written; empty ones are left out."""
    where: str = ""

    @property
    def source(self) -> str:
        """Where the measurement was published."""
        return self.fields.get("source", "")


def read_table(path: Path = SHIPPED) -> list[Measurement]:
    """Read a table of measurements.

    Raises:
        InputError: ``file:line: column: expected ..., not ...`` for the first thing that is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected a CSV file in UTF-8") from None
    except OSError as error:
        problem = "there is none of that name" if isinstance(error, FileNotFoundError) else error.strerror
        raise InputError(f"{path}: expected a CSV file of measurements, but {problem}") from None
    reader = csv.DictReader(text.splitlines(), strict=True)
    rows: list[Measurement] = []
    try:
        columns = [name.strip() for name in reader.fieldnames or ()]
        _check_columns(path, columns)
        reader.fieldnames = columns
        for cells in reader:
            rows.append(_row(f"{path}:{reader.line_num}", cells))
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: expected a CSV row, but {error}") from None
    if not rows:
        raise InputError(f"{path}: expected at least one row of measurements, but there is none")
    seen: set[str] = set()
    for row in rows:
        if row.id in seen:
            raise InputError(f"{row.where}: id: expected a name for each row, not {row.id!r} twice")
        seen.add(row.id)
    return rows


def _check_columns(path: Path, columns: list[str]) -> None:
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        near = did_you_mean(missing[0], [name for name in columns if name not in REQUIRED])
        found = ", ".join(columns)
        raise InputError(f"{path}:1: expected a column {missing[0]}, but it is missing{near} (found: {found})")
    known = (*REQUIRED, *OPTIONAL)
    for name in columns:
        if columns.count(name) > 1:
            raise InputError(f"{path}:1: expected each column once, not {name!r} {columns.count(name)} times")
        if name not in known:
            raise InputError(f"{path}:1: {unknown_name('column', name, known)}")


def _row(where: str, cells: Mapping[str | None, str | list[str] | None]) -> Measurement:
    if None in cells or any(value is None for value in cells.values()):
        raise InputError(f"{where}: expected as many cells as there are columns")
    texts = {str(name): str(value).strip() for name, value in cells.items()}
    archs = shipped_archs()
    if texts["arch"] not in archs and not texts["arch"].endswith((".yaml", ".yml")):
        raise InputError(f"{where}: arch: {unknown_name('arch', texts['arch'], archs)}")
    for name in ("id", "kernel"):
        if not texts[name]:
            raise InputError(f"{where}: {name}: expected a name, but the cell is empty")
    ratios = {name: _ratio(where, name, texts[name]) for name in RATIOS if texts.get(name)}
    m, k, n = (_integer(where, name, texts[name]) for name in ("m", "k", "n"))
    fields = {name: texts[name] for name in OPTIONAL if texts.get(name) and name not in RATIOS}
    if "core_grid" in fields and not re.fullmatch(r"[1-9]\d*x[1-9]\d*", fields["core_grid"]):
        raise InputError(f"{where}: core_grid: expected rows x columns such as 4x6, not {fields['core_grid']!r}")
    for name in ("base_m", "base_k", "base_n", "panel_slices", "scale_panels"):
        if name in fields:
            _integer(where, name, fields[name])
    time_ms = _time(where, texts["time_ms"])
    return Measurement(texts["id"], texts["arch"], texts["kernel"], m, k, n, time_ms, ratios, fields, where)


def _integer(where: str, name: str, text: str) -> int:
    if not re.fullmatch(r"[1-9]\d*", text):
        raise InputError(f"{where}: {name}: expected a positive whole number, not {text!r}")
    return int(text)


def _number(where: str, name: str, text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{where}: {name}: expected {what}, not {text!r}") from None
    if not value > 0 or value == float("inf"):
        raise InputError(f"{where}: {name}: expected {what}, not {text}")
    return value


def _time(where: str, text: str) -> float:
    value = _number(where, "time_ms", text, "milliseconds")
    if value > MOST_MS:
        hint = "is it in another unit?"
        raise InputError(f"{where}: time_ms: expected milliseconds of at most an hour, not {text}: {hint}")
    return value


def _ratio(where: str, name: str, text: str) -> float:
    value = _number(where, name, text, "a share from 0 to 1")
    if value > 1:
        hint = ": is it in per cent?" if value <= 100 else ""
        raise InputError(f"{where}: {name}: expected a share from 0 to 1, not {text}{hint}")
    return value
