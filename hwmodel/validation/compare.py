"""Simulate the rows of a table and set the model beside the measurements."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hwmodel.engines import completed, open_engine
from hwmodel.errors import HwmodelError
from hwmodel.experiment import simulate
from hwmodel.validation.kernels import scenario_of
from hwmodel.validation.table import UNITS, Measurement

OTHER_UNITS = {"microseconds": 1e3, "nanoseconds": 1e6, "seconds": 1e-3}
"""Units that a time may be in by mistake, and how many times too large it is then."""
SAME_SCALE = 5.0
"""A model is never this far off: a ratio of measured to modelled time within it of a unit's factor is that unit."""


@dataclass(frozen=True)
class Ratio:
    """Active share of a unit, measured and modelled."""

    unit: str
    measured: float
    modelled: float

    @property
    def difference_points(self) -> float:
        """Modelled less measured, in percentage points."""
        return 100 * (self.modelled - self.measured)


@dataclass(frozen=True)
class Row:
    """One measurement with what the model says; ``problem`` says why there is no model time."""

    measurement: Measurement
    cycles: int | None = None
    modelled_ms: float | None = None
    ratios: tuple[Ratio, ...] = ()
    bound: str = ""
    problem: str = ""

    @property
    def error_percent(self) -> float | None:
        """Modelled time against measured time."""
        if self.modelled_ms is None:
            return None
        return 100 * (self.modelled_ms / self.measurement.time_ms - 1)

    @property
    def wrong_unit(self) -> str:
        """What is wrong with a time that is off by about a thousand or a million; empty for any other."""
        if self.modelled_ms is None:
            return ""
        ratio = self.measurement.time_ms / self.modelled_ms
        for unit, factor in OTHER_UNITS.items():
            if 1 / SAME_SCALE < ratio / factor < SAME_SCALE:
                measured, modelled = self.measurement.time_ms, self.modelled_ms
                return f"expected milliseconds, not {measured:g} where the model says {modelled:.4g}: is it in {unit}?"
        return ""

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        row = self.measurement
        return {
            "id": row.id,
            "arch": row.arch,
            "kernel": row.kernel,
            "m": row.m,
            "k": row.k,
            "n": row.n,
            "measured_ms": row.time_ms,
            "modelled_ms": self.modelled_ms,
            "cycles": self.cycles,
            "error_percent": self.error_percent,
            "bound": self.bound or None,
            "ratios": {
                ratio.unit: {
                    "measured": ratio.measured,
                    "modelled": ratio.modelled,
                    "difference_points": ratio.difference_points,
                }
                for ratio in self.ratios
            },
            "problem": self.problem or None,
            "source": row.source,
        }


@dataclass(frozen=True)
class Machine:
    """Errors of one machine over the rows that could be simulated."""

    arch: str
    rows: int
    mape_percent: float
    worst_percent: float


@dataclass(frozen=True)
class Validation:
    """A whole table, simulated."""

    rows: tuple[Row, ...]

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Mean absolute and worst percentage error of each machine."""
        found = []
        for arch in dict.fromkeys(row.measurement.arch for row in self.rows):
            errors = [
                abs(row.error_percent)
                for row in self.rows
                if row.measurement.arch == arch and row.error_percent is not None
            ]
            if errors:
                found.append(Machine(arch, len(errors), sum(errors) / len(errors), max(errors)))
        return tuple(found)

    @property
    def problems(self) -> tuple[Row, ...]:
        """Rows that could not be simulated."""
        return tuple(row for row in self.rows if row.problem)

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "schema_version": 1,
            "rows": [row.to_dict() for row in self.rows],
            "machines": [
                {
                    "arch": machine.arch,
                    "rows": machine.rows,
                    "mape_percent": machine.mape_percent,
                    "worst_percent": machine.worst_percent,
                }
                for machine in self.machines
            ],
        }


def _plain(problem: str) -> str:
    """The message without ``--set``: the fields that are set here are the row's, and nobody typed it."""
    return re.sub(r"^--set ([\w.]+): (\1: )?", r"\1: ", problem)


def compare_row(row: Measurement, overrides: dict[str, Any] | None = None) -> Row:
    """Simulate one row. What cannot be simulated is told in ``problem``, not raised."""
    try:
        result = simulate(scenario_of(row, overrides), values="skip", trace="off")
    except HwmodelError as error:
        return Row(row, problem=_plain(str(error)))
    stats = result.stats
    assert stats is not None
    units = UNITS[result.arch.spec.family]
    ratios = tuple(
        Ratio(units[column], measured, stats.units[units[column]].utilization)
        for column, measured in row.ratios.items()
        if column in units and units[column] in stats.units
    )
    return Row(row, stats.cycles, stats.time_us / 1000, ratios, stats.bound)


def validate(
    table: Sequence[Measurement],
    *,
    jobs: int = 1,
    progress: Callable[[int, int], None] = lambda _done, _rows: None,
) -> Validation:
    """Simulate all rows, ``jobs`` at a time. ``progress`` is told how many are done, and of how many."""
    found: dict[str, Row] = {}
    width = min(jobs, len(table))
    with open_engine("local", jobs=width) as engine:
        for measurement, row in completed(engine, compare_row, table, width=width):
            found[measurement.id] = row
            progress(len(found), len(table))
    return Validation(tuple(found[row.id] for row in table))
