"""Sweeps: a grid of overrides over one scenario, each point simulated, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from hwmodel.config.overrides import Override
from hwmodel.config.positions import SET
from hwmodel.errors import ConfigError, InputError, choice
from hwmodel.scenario import Scenario
from hwmodel.study.journal import Journal
from hwmodel.study.measure import Record, Task, ValueMode, measure, task_of
from hwmodel.study.points import Axis, Point, Template, grid, parse_axes
from hwmodel.study.pool import Workers, run_tasks
from hwmodel.study.table import Row, best_first, data_frame, front, metric_of

if TYPE_CHECKING:
    import polars as pl

Progress = Callable[[int], None]
"""Called with how many points are done."""

COSTS = ("l1_bytes", "l0c_bytes", "gm_bytes")
"""What the Pareto view sets against cycles: bytes of a buffer, or traffic."""
_FIRST = ("cycles", "vs_best", "time_us", "bound", "tflops", "peak_fraction", "cores")
_LAST = ("plan", "values", "sha256", "pareto", "problem")


@dataclass(frozen=True)
class Sweep:
    """A sweep that was run: ``rows`` best first, one for each point, those with a ``problem`` last."""

    name: str
    axes: tuple[Axis, ...]
    rows: tuple[Row, ...]
    code: int
    """Exit code: 0 with at least one valid point; 1 where values differ, 3 where the model failed at some point."""

    @property
    def settings(self) -> list[str]:
        """Columns of the axes, in alphabetical order."""
        return sorted(axis.name for axis in self.axes)

    @property
    def valid(self) -> list[Row]:
        """Rows that ran."""
        return [row for row in self.rows if not row["problem"]]

    @cached_property
    def metric(self) -> str:
        """What the order is by: ``cycles``, or ``time_us`` where clocks differ."""
        return metric_of(self.rows)

    @property
    def best(self) -> Row | None:
        """The first valid row."""
        return next(iter(self.valid), None)

    @cached_property
    def columns(self) -> list[str]:
        """Columns of the table, in a fixed order."""
        own = {name for row in self.rows for name in row} - {*_FIRST, *_LAST, *self.settings}
        ends = ("_utilization", "_bytes")
        middle = sorted(own, key=lambda name: (next((i for i, end in enumerate(ends) if name.endswith(end)), 9), name))
        return [*self.settings, *_FIRST, *middle, *_LAST]

    def document(self) -> dict[str, Any]:
        """For ``sweep.json`` and ``--json``."""
        return {
            "schema_version": 1,
            "name": self.name,
            "axes": [{"path": axis.name, "values": list(axis.values)} for axis in self.axes],
            "points": len(self.rows),
            "valid": len(self.valid),
            "best": self._shown(self.best) if self.best is not None else None,
            "rows": [self._shown(row) for row in self.rows],
        }

    def _shown(self, row: Row) -> Row:
        """In the order of the columns, whatever the order of the axes."""
        return {name: row.get(name) for name in self.columns}

    def table(self) -> pl.DataFrame:
        """The rows as a typed polars table."""
        return data_frame(self.rows, self.columns, self.settings)


def sweep(
    template: Template,
    axes: Sequence[Axis],
    *,
    values: ValueMode = "skip",
    workers: Workers = Workers(),  # noqa: B008  frozen
    journal: Journal | None = None,
    progress: Progress = lambda _done: None,
) -> Sweep:
    """Simulate every point of the grid. Points that are no valid scenario are reported in their rows, not raised."""
    choice("values", values, get_args(ValueMode))
    axes = tuple(axes)
    points = list(grid(axes))
    keys: dict[Point, str] = {}
    problems: dict[Point, Record] = {}
    started: set[str] = set()
    done = 0

    def tasks() -> Iterator[Task]:
        nonlocal done
        for point in points:
            overrides = [Override(axis.path, value) for axis, value in zip(axes, point.values, strict=True)]
            place = _hashable(point)
            try:
                task = task_of(template.scenario(*overrides), values)
            except InputError as error:
                problems[place] = Record(problem=_short(error), code=error.exit_code)
                done += 1
                progress(done)
                continue
            keys[place] = task.key
            if task.key not in started:
                started.add(task.key)
                yield task
            else:
                done += 1
                progress(done)

    records: dict[str, Record] = {}
    for task, record in run_tasks(tasks(), measure, workers, journal):
        records[task.key] = record
        done += 1
        progress(done)
    rows, code = [], 0
    for point in points:
        place = _hashable(point)
        record = problems.get(place) or records[keys[place]]
        settings = {axis.name: value for axis, value in zip(axes, point.values, strict=True)}
        rows.append(_row(settings, record))
        code = max(code, record.code if record.code != InputError.exit_code else 0)
    if all(row["problem"] for row in rows):
        code = max(code, InputError.exit_code)
    return Sweep(template.name, axes, tuple(_ranked(rows, [axis.name for axis in axes])), code)


def size(axes: Sequence[Axis]) -> int:
    """Number of points."""
    return prod(len(axis.values) for axis in axes)


def sweep_table(scenario: Scenario | str | Path, vary: Mapping[str, Sequence[Any]], **options: Any) -> pl.DataFrame:
    """``hwmodel.sweep``: the grid of ``vary`` over a scenario (or its path), as a polars table, best first.

    ``options``: ``values="check"``, ``jobs=N``, ``engine="dask"``, ``scheduler="tcp://..."``.
    """
    template = Template.of(scenario) if isinstance(scenario, Scenario) else Template.read(scenario)
    values = options.pop("values", "skip")
    return sweep(template, parse_axes(vary), values=values, workers=Workers(**options)).table()


def _hashable(point: Point) -> Any:
    return repr(point)


def _short(error: InputError) -> str:
    """In one line; a field that the point itself sets is not called an override."""
    text = str(error)
    if isinstance(error, ConfigError) and error.where.startswith(SET):
        text = f"{error.field}: {error.problem}"
    return " ".join(text.split())


def _row(settings: Row, record: Record) -> Row:
    row = {**settings, **record.columns, "problem": record.problem or None}
    if "gm_read_bytes" in row:
        row["gm_bytes"] = row["gm_read_bytes"] + row["gm_write_bytes"]
    return row


def _ranked(rows: list[Row], settings: list[str]) -> list[Row]:
    """Best first, with the ratio to the best and the fronts that each is on."""
    rows = best_first(rows, settings)
    metric = metric_of(rows)
    least = rows[0].get(metric) if rows else None
    fronts = {cost: set(front(rows, cost)) for cost in COSTS}
    for index, row in enumerate(rows):
        measure = row.get(metric)
        row["vs_best"] = measure / least if measure is not None and least else None
        row["pareto"] = " ".join(cost for cost in COSTS if index in fronts[cost]) or None
    return rows
