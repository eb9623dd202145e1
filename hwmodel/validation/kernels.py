"""From a row of a table to the scenario that simulates its kernel.

A kernel that ships has a scenario under ``scenarios/silicon``; any other row of the same kernel on the same machine is
that scenario with the row's own sizes and tiling. A row may name a scenario itself (column ``scenario``). What is left
must state its tiling: by the end of the kernel's name (``..._n_split``, ``..._hoisted``), which on Ascend may be any
other name and then means ``blocked``, with the columns of that tiling.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hwmodel.config.arch import load_arch
from hwmodel.config.resources import shipped_scenarios
from hwmodel.errors import InputError
from hwmodel.problem import MatmulProblem
from hwmodel.scenario import Scenario, load, loads
from hwmodel.tiling import TILINGS
from hwmodel.validation.table import SHIPPED, Measurement, read_table

FOLDER = "silicon"


def scenario_of(row: Measurement, overrides: dict[str, Any] | None = None) -> Scenario:
    """The scenario of a row, with its sizes. ``overrides`` come last. Raises InputError."""
    template = _template(row)
    own = overrides or {}
    if template is None:
        folder = Path(row.where.rpartition(":")[0] or ".").parent
        scenario = loads(_text(row), folder, overrides=own, origin=row.where)
    else:
        scenario = load(template, {**_fields(row), **own})
    if scenario.arch.spec.family == "neuron":
        _check_loops(row, scenario)
    return scenario


def _template(row: Measurement) -> Path | None:
    named = row.fields.get("scenario")
    if named is not None:
        return Path(row.where.rpartition(":")[0]).parent / named
    shipped = shipped_scenarios()
    same = [other.id for other in read_table(SHIPPED) if (other.arch, other.kernel) == (row.arch, row.kernel)]
    for name in (row.id, *same) if row.id in same else same:
        if f"{FOLDER}/{name}" in shipped:
            return shipped[f"{FOLDER}/{name}"]
    return None


def _fields(row: Measurement) -> dict[str, Any]:
    """What the row says itself, as overrides of its template."""
    found: dict[str, Any] = {"name": row.id, "problem.m": row.m, "problem.k": row.k, "problem.n": row.n}
    cells = row.fields
    for column, path in (("dtype_a", "problem.a"), ("dtype_b", "problem.b"), ("dtype_out", "problem.out")):
        if column in cells:
            found[path] = cells[column]
    if row.arch.startswith("ascend"):
        found.update(_blocked(row, "tiling."))
    return found


def _blocked(row: Measurement, prefix: str = "") -> dict[str, Any]:
    cells = row.fields
    found: dict[str, Any] = {}
    if "core_grid" in cells:
        found[f"{prefix}core_grid"] = [int(part) for part in cells["core_grid"].split("x")]
    if {"base_m", "base_k", "base_n"} <= cells.keys():
        found[f"{prefix}base"] = [int(cells[name]) for name in ("base_m", "base_k", "base_n")]
    for name in ("panel_slices", "scale_panels"):
        if name in cells:
            found[f"{prefix}{name}"] = int(cells[name])
    return found


def _check_loops(row: Measurement, scenario: Scenario) -> None:
    """Refuse columns that a loop structure does not follow: it runs on one core, in the tiles of the PE array."""
    cells = row.fields
    if cells.get("core_grid", "1x1") != "1x1":
        raise InputError(
            f"{row.where}: core_grid: expected 1x1, as loop structures use one core, not {cells['core_grid']}"
        )
    for name in ("panel_slices", "scale_panels"):
        if name in cells:
            raise InputError(
                f"{row.where}: {name}: expected none, as {scenario.tiling.kind} has no panels, not {cells[name]}"
            )
    problem = scenario.problem
    assert isinstance(problem, MatmulProblem)
    plan = TILINGS[scenario.tiling.kind].plan(problem, scenario.accumulate, scenario.arch, scenario.tiling)
    m, n, k = plan.summary()["tile"]
    for name, size in (("base_m", m), ("base_k", k), ("base_n", n)):
        if int(cells.get(name, size)) != size:
            raise InputError(
                f"{row.where}: {name}: expected {size}, the tile of {scenario.arch.name} for these operands, "
                f"not {cells[name]}"
            )


def _text(row: Measurement) -> str:
    """A scenario made of nothing but the row's cells."""
    from hwmodel.config.dump import dump

    cells = row.fields
    missing = [name for name in ("dtype_a", "dtype_b") if name not in cells]
    if missing:
        raise InputError(f"{row.where}: {missing[0]}: expected a dtype, as kernel {row.kernel} does not ship")
    problem = {
        "op": "matmul", "m": row.m, "k": row.k, "n": row.n,
        "a": cells["dtype_a"], "b": cells["dtype_b"], "out": cells.get("dtype_out", "fp32"),
    }  # fmt: skip
    return dump({"name": row.id, "arch": row.arch, "problem": problem, "tiling": _tiling(row)})


def _tiling(row: Measurement) -> dict[str, Any]:
    """The tiling that the kernel's name ends in; on Ascend any other name is the usual blocked one."""
    folder = Path(row.where.rpartition(":")[0] or ".").parent
    family = load_arch(row.arch, folder).spec.family
    kinds = [kind for kind, tiling in TILINGS.items() if tiling.family == family]
    named = [kind for kind in sorted(kinds, key=len, reverse=True) if row.kernel.endswith(kind)]
    if family == "ascend":
        kind = named[0] if named else "blocked"
        # Columns that the named tiling lacks are refused when the scenario is read, not left out in silence.
        return {"kind": kind, **_blocked(row)}
    if named:
        return {"kind": named[0]}
    what = f"a name that ends in a loop structure ({', '.join(kinds)})"
    raise InputError(f"{row.where}: kernel: expected {what}, not {row.kernel!r}")
