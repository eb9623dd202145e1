"""The functions of this package that ``hwmodel`` offers: each returns a polars table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from hwmodel.result import Result
    from hwmodel.scenario import Scenario


def compare(runs: Sequence[Result | Scenario | Path | str]) -> pl.DataFrame:
    """Results, scenarios, or paths of scenarios and run folders, as a table with one row each.

    The first is the baseline: ``ratio`` is time over its time, ``bits`` whether the output is the same. Raises
    InputError for a scenario that is not valid.
    """
    from hwmodel.study.compare import compare_table

    return compare_table(runs)


def sweep(scenario: Scenario | Path | str, vary: Mapping[str, Sequence[Any]], **options: Any) -> pl.DataFrame:
    """The grid of ``vary`` over a scenario, as a table with one row a point, best first.

    ``options``: ``values="check"`` (default ``"skip"``), ``jobs=N``, ``engine="dask"``, ``scheduler="tcp://..."``.
    Points that are no valid scenario have their reason in the column ``problem``.
    """
    from hwmodel.study.sweep import sweep_table

    return sweep_table(scenario, vary, **options)
