"""Fit named numbers of a machine to a table of measurements, by least squares over relative errors of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hwmodel.arch import Arch
from hwmodel.config.arch import load_arch
from hwmodel.config.dump import dump
from hwmodel.config.paths import format_path, parse_path
from hwmodel.config.plain import plain
from hwmodel.config.sourced import numbers
from hwmodel.errors import InputError, did_you_mean
from hwmodel.validation.compare import compare_row
from hwmodel.validation.kernels import scenario_of
from hwmodel.validation.table import Measurement

STEP = 0.01
"""Relative step of the difference quotients: cycles are whole numbers, so a tiny step would see none of them."""
PRECISION = 1e-3
"""Relative changes below which a fit ends: a thousandth is far below what is left as error."""
RANGE = 10.0
"""A fitted number stays within this factor of where it started: beyond that it has lost its meaning."""
EDGE = 1.02
"""A fitted number within this factor of an end of its range is at that end: a fit stops a little before it."""
RATIO_WEIGHT = 0.25
"""A difference of an active share counts a quarter of the same relative error of time."""
OUTLIER = 0.02
"""Errors beyond this grow linearly instead of squared, so that one row that physics cannot reach does not rule."""

FITTED_BY = "hwmodel calibrate"
"""How the sources begin in a variant that was written here."""


class NoEffectError(InputError):
    """A number to fit that changes nothing in the rows there are."""


@dataclass(frozen=True)
class Fit:
    """What came out of a fit."""

    arch: str
    before: dict[str, float]
    after: dict[str, float]
    rows: int
    error_before: float
    error_after: float
    """Mean absolute percentage errors of time."""
    worst_after: float
    """Largest absolute percentage error of time."""
    at_edge: tuple[str, ...] = ()
    """Fields that ended as far from where they started as was tried: the best may lie beyond."""

    def variant(self, name: str, table: str) -> str:
        """YAML of the machine as a variant: ``base`` and the fitted fields, with confidence ``fit``."""
        tree: dict[str, Any] = {}
        for path, value in self.after.items():
            node = tree
            *steps, last = parse_path(path) or ()
            for step in steps:
                node = node.setdefault(str(step), {})
            shown = int(value) if value == int(value) else round(value, 6)
            source = f"fit to {self.rows} measurements of {table}, from {self.before[path]:g}"
            source += ", at the edge of what was tried" if path in self.at_edge else ""
            node[str(last)] = {"value": shown, "source": source, "confidence": "fit"}
        source = f"{FITTED_BY}, {table}"
        left = {
            "measurements": self.rows,
            "mape_percent": round(self.error_after, 2),
            "worst_percent": round(self.worst_after, 2),
        }
        known = {field: {"value": value, "source": source, "confidence": "derived"} for field, value in left.items()}
        return dump({"name": name, "base": self.arch, "calibrated": True, "validation": known, **tree})


def free_fields(arch: Arch, names: Sequence[str]) -> dict[str, float]:
    """Start values of the fields to fit. InputError for a field that is no number of the machine."""
    values = {format_path(path): value for path, value in numbers(plain(arch.spec))}
    found = {}
    for name in names:
        path = name.removeprefix("arch.")
        if path not in values:
            inside = ", ".join(other for other in values if path and path in other)
            near = f" (in {inside})" if inside else did_you_mean(path, values)
            raise InputError(f"--free: unknown number {path!r}{near}; hwmodel list arch {arch.name} prints all")
        value = values[path]
        if not value > 0:
            raise InputError(f"--free: {path}: expected a number above 0 to start from, not {value}")
        found[path] = float(value)
    if not found:
        raise InputError("--free: expected at least one field, such as units.tload.bytes_per_cycle")
    return found


def fit(
    table: Sequence[Measurement],
    names: Sequence[str],
    *,
    progress: Callable[[int, float], None] = lambda _count, _error: None,
) -> Fit:
    """Fit the named fields of the one machine of ``table``.

    Raises:
        InputError: rows of several machines, fewer measured figures (times and active shares) than fields, a row that
            cannot be simulated, or a field that changes nothing.
    """
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise InputError("calibrate needs SciPy: pip install 'hwmodel[fit]'") from None
    archs = {row.arch for row in table}
    if len(archs) != 1:
        raise InputError(f"--table: expected rows of one machine to fit, not of {', '.join(sorted(archs))}")
    arch = load_arch(next(iter(archs)), Path(table[0].where.rpartition(":")[0]).parent)
    start = free_fields(arch, names)
    measured = sum(1 + len(row.ratios) for row in table)
    if len(start) > measured:
        raise InputError(f"--free: {len(start)} fields cannot be fitted to {measured} measured figures: name fewer")
    whole = {path for path in start if _is_whole(arch, path)}
    counts = [{path for path in start if _effective(row, arch, path)} for row in table]
    for row in table:
        compared = compare_row(row)
        if compared.problem:
            raise InputError(f"{row.where}: {row.id} cannot be simulated: {compared.problem}")
        if compared.wrong_unit:
            raise InputError(f"{row.where}: time_ms: {compared.wrong_unit}")
    paths = list(start)
    evaluations = 0

    def values_at(factors: Any) -> dict[str, float]:
        scaled = {path: start[path] * float(factor) for path, factor in zip(paths, factors, strict=True)}
        return {path: float(max(1, round(value))) if path in whole else value for path, value in scaled.items()}

    def errors(factors: Any) -> Any:
        nonlocal evaluations
        evaluations += 1
        found = _errors(table, counts, values_at(factors))
        progress(evaluations, float(np.mean(np.abs(found[: len(table)]))) * 100)
        return found

    first = errors(np.ones(len(paths)))
    steps = np.array([_step(start[path], path in whole) for path in paths])
    for index, path in enumerate(paths):
        # At the start: a number that tells there may have lost all effect where the fit ends, behind another limit.
        if not np.any(errors(1 + steps * (np.arange(len(paths)) == index)) != first):
            raise NoEffectError(f"--free: {path} has no effect on these measurements")
    solution = least_squares(
        errors,
        np.ones(len(paths)),
        bounds=(1 / RANGE, RANGE),
        diff_step=steps,
        x_scale=0.1,
        loss="soft_l1",
        f_scale=OUTLIER,
        ftol=PRECISION,
        xtol=PRECISION,
        max_nfev=30,
    )
    after = values_at(solution.x)
    last = _errors(table, counts, after)
    count = len(table)
    return Fit(
        arch.name,
        start,
        {path: float(Fraction(f"{value:.6g}")) for path, value in after.items()},
        count,
        float(np.mean(np.abs(first[:count]))) * 100,
        float(np.mean(np.abs(last[:count]))) * 100,
        float(np.max(np.abs(last[:count]))) * 100,
        tuple(path for path in paths if _at_edge(start[path], after[path], path in whole)),
    )


FITTED = "fit to"
"""How the source of a number begins that this project fitted to the published table."""


def fitted_fields(arch: Arch) -> list[str]:
    """The numbers of a machine that were fitted to the published table."""
    return [path for path, source in arch.sources.items() if source.source.startswith(FITTED)]


class LeftOut(NamedTuple):
    """One row to leave out: the other rows of its machine and the numbers to fit to them."""

    row: Measurement
    others: tuple[Measurement, ...]
    names: tuple[str, ...]


def left_out_tasks(table: Sequence[Measurement], names: Sequence[str]) -> list[LeftOut]:
    """Rows of one machine whose others still hold as many figures as there are numbers to fit."""
    tasks = []
    for row in table:
        others = tuple(other for other in table if other is not row)
        if names and sum(1 + len(other.ratios) for other in others) >= len(names):
            tasks.append(LeftOut(row, others, tuple(names)))
    return tasks


def left_out_error(task: LeftOut) -> float | None:
    """Error of a row's time in per cent when its machine's numbers are fitted to the other rows alone.

    None where the others say nothing about one of the numbers.
    """
    try:
        fitted = fit(task.others, task.names)
    except NoEffectError:
        return None
    return compare_row(task.row, _overrides(fitted.after)).error_percent


def _step(start: float, whole: bool) -> float:
    """Relative step of a number's difference quotient: of a small whole number, to the next one."""
    return 1 / start if whole and start * STEP < 0.5 else STEP


def _at_edge(start: float, value: float, whole: bool) -> bool:
    """Whether a value lies at an end of its range, as nearly as a fit gets there."""
    factor = value / start
    return factor * EDGE >= RANGE or factor * RANGE <= EDGE or (whole and value == 1 < start)


def _is_whole(arch: Arch, path: str) -> bool:
    """Whether the field takes whole numbers only: rates are kept as fractions, even whole ones."""
    node: Any = arch.spec
    for step in parse_path(path) or ():
        node = node[step] if isinstance(node, dict) else getattr(node, str(step))
    return isinstance(node, int)


def _errors(table: Sequence[Measurement], counts: Sequence[set[str]], values: dict[str, float]) -> Any:
    """Relative errors of time of all rows, then differences of active shares, weighted."""
    times, shares = [], []
    for row, effective in zip(table, counts, strict=True):
        own = {path: value for path, value in values.items() if path in effective}
        compared = compare_row(row, _overrides(own))
        if compared.error_percent is None:
            raise InputError(f"{row.where}: {row.id} cannot be simulated with {values}: {compared.problem}")
        times.append(compared.error_percent / 100)
        shares += [RATIO_WEIGHT * ratio.difference_points / 100 for ratio in compared.ratios]
    return np.array([*times, *shares])


def _overrides(values: dict[str, float]) -> dict[str, int | float]:
    return {f"arch.{path}": int(value) if value == int(value) else value for path, value in values.items()}


def _effective(row: Measurement, arch: Arch, path: str) -> bool:
    """A number that the row's kernel overrides itself is not the machine's: the fit leaves it there."""
    return scenario_of(row).arch.sources.get(path) == arch.sources.get(path)
