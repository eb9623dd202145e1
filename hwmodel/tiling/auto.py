"""auto: the blocked tiling with the smallest lower bound, found by counting and without simulating."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field

from hwmodel.arch import Arch
from hwmodel.errors import InputError
from hwmodel.problem import Accumulate, MatmulProblem
from hwmodel.tiling import blocked
from hwmodel.tiling.base import Tiling, TilingParams
from hwmodel.tiling.blocked import Blocked, BlockedPlan, Buffers
from hwmodel.tiling.bounds import Costs, bounds_of
from hwmodel.tiling.grid import shares
from hwmodel.tiling.space import Space

LOOKED_AT = 64
"""Candidates whose bound is worked out: those with the least Cube work on the busiest core."""


class Auto(TilingParams):
    """Parameters of auto."""

    kind: Literal["auto"]
    max_cores: int | None = Field(default=None, gt=0, description="most cores to use; default: all of the machine")
    cores: Literal["representative", "all"] = Field(
        default="representative", description="simulate one of the cores that do the same, or all of them"
    )


def plan(problem: MatmulProblem, accumulate: Accumulate, arch: Arch, params: Auto) -> BlockedPlan:
    """Pick by bounds. Ties go to fewer cores, then to the smaller tile."""
    space = Space(problem, arch)
    most = min(params.max_cores or arch.spec.cores, arch.spec.cores)
    buffers = [Buffers(l1=2, l0=2, l0c=l0c) for l0c in (1, 2)]
    found = list(space.candidates(grids=space.grids(most), buffers=buffers, deepest_only=True))
    if not found:
        raise InputError(f"tiling: no blocked tiling of {problem.m} x {problem.k} x {problem.n} fits {arch.name}")
    found.sort(key=lambda candidate: _cube_work(problem, candidate))
    best, costs = None, Costs(arch)
    for candidate in found[:LOOKED_AT]:
        each = blocked.plan(problem, accumulate, arch, candidate.model_copy(update={"cores": params.cores}))
        m, _, n = candidate.base
        key = (bounds_of(each, costs).lower, each.active_cores, m * n, candidate.base)
        if best is None or key < best[0]:
            best = (key, each)
    assert best is not None
    return replace(best[1], picked_by="auto")


def _cube_work(problem: MatmulProblem, candidate: Blocked) -> tuple[int, int]:
    """Padded outputs of the busiest core, then bytes-for-work of the tile: a large, square one reloads least."""
    m, _, n = candidate.base
    largest = max(share.rows * share.cols for share in shares(problem.m, problem.n, m, n, candidate.core_grid))
    return largest * (m + n) // (m * n) + largest // 64, -m * n


TILING = Tiling(
    kind="auto",
    family="ascend",
    params=Auto,
    plan=plan,
    summary="the blocked tiling with the smallest lower bound, without simulating",
)
