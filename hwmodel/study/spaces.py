"""What ``tune`` searches: for each kind of tiling the candidates that fit, and bounds that are quick to work out.

A candidate is a dictionary of the fields under ``tiling:``. ``blocked`` is searched through families: all candidates
with one base tile and core grid, which share a bound that costs microseconds. Kinds without an entry of their own are
searched through their parameters: every literal choice, and powers of two for ``block``.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args, get_origin

from hwmodel.arch import Arch
from hwmodel.errors import InputError
from hwmodel.problem import Accumulate, MatmulProblem
from hwmodel.quantities import ceil_div, round_up
from hwmodel.scenario import Scenario
from hwmodel.tiling import TILINGS, blocked, n_split
from hwmodel.tiling.base import TilingParams
from hwmodel.tiling.blocked import Blocked, Buffers
from hwmodel.tiling.bounds import Costs, bounds_of
from hwmodel.tiling.grid import shares
from hwmodel.tiling.quick import Quick
from hwmodel.tiling.space import DEPTHS, Space

Candidate = dict[str, Any]
POWERS = (1, 2, 4, 8, 16, 32)
BLOCK_UNITS = {"m": 128, "n": 512, "k": 128}
"""What ``block`` of the Neuron loops counts in."""


class Family(NamedTuple):
    """Candidates that are looked at together: none of them takes fewer than ``bound`` cycles."""

    bound: int
    key: tuple[Any, ...]


@dataclass(frozen=True)
class SearchSpace(ABC):
    """The candidates for one problem on one machine."""

    problem: MatmulProblem
    accumulate: Accumulate
    arch: Arch

    @abstractmethod
    def kinds(self) -> tuple[str, ...]:
        """Kinds of tiling that the candidates have."""

    @abstractmethod
    def families(self) -> Iterator[Family]:
        """All families."""

    @abstractmethod
    def members(self, family: Family) -> Iterator[tuple[int, Candidate]]:
        """(quick bound, candidate) of a family."""

    @abstractmethod
    def bound(self, candidate: Candidate) -> int:
        """The best lower bound there is; 0 where there is none. Raises InputError for one that does not fit."""

    @abstractmethod
    def dimensions(self) -> dict[str, list[Any]]:
        """Choices of each field, for a search by sampling."""

    @abstractmethod
    def candidate(self, choices: dict[str, Any]) -> Candidate:
        """The candidate of one choice for each dimension."""

    def own(self, tiling: TilingParams) -> Candidate:
        """The scenario's own tiling as a candidate, whether or not the dimensions hold its sizes."""
        return tiling.model_dump()


def space_of(scenario: Scenario, *, max_cores: int | None = None) -> SearchSpace:
    """The space for a scenario's kind of tiling. Raises InputError for one that has no tiling."""
    problem, tiling = scenario.problem, scenario.tiling
    if not isinstance(problem, MatmulProblem) or tiling is None:
        raise InputError("tune: expected a scenario with a matmul problem and a tiling")
    args = (problem, scenario.accumulate, scenario.arch)
    if tiling.kind in ("blocked", "auto"):
        most = min(
            max_cores or getattr(tiling, "max_cores", None) or scenario.arch.spec.cores, scenario.arch.spec.cores
        )
        return BlockedSpace(*args, most)
    if tiling.kind == "n_split":
        return NSplitSpace(*args)
    return GenericSpace(*args, scenario.arch.spec.family)


@dataclass(frozen=True)
class BlockedSpace(SearchSpace):
    """``blocked``: base tile, core grid, panels, scale panels, buffers, loop order."""

    max_cores: int

    def kinds(self) -> tuple[str, ...]:
        """One."""
        return ("blocked",)

    @cached_property
    def space(self) -> Space:
        """Sizes that fit."""
        return Space(self.problem, self.arch)

    @cached_property
    def costs(self) -> Costs:
        """Of the machine's instructions."""
        return Costs(self.arch)

    @cached_property
    def quick(self) -> Quick:
        """Bounds that need no plan."""
        return Quick(self.problem, self.space, self.costs)

    @property
    def buffers(self) -> list[Buffers]:
        """Two or one of each, two first."""
        return [_buffers(l1, l0, l0c) for l1, l0, l0c in itertools.product((2, 1), (2, 1), (1, 2))]

    def families(self) -> Iterator[Family]:
        """One for each base tile and grid."""
        space, quick = self.space, self.quick
        grids = space.grids(self.max_cores)
        for m, n, k in itertools.product(space.bases_m(), space.bases_n(), space.bases_k()):
            if space.fits_l0(m, k, n, 1, 1):
                for grid in grids:
                    yield Family(quick.family(m, k, n, grid), (m, k, n, grid))

    def members(self, family: Family) -> Iterator[tuple[int, Candidate]]:
        """Every panel depth, buffering and loop order."""
        m, k, n, grid = family.key
        space, quick = self.space, self.quick
        one_tile = all(
            share.rows <= m or share.cols <= n for share in shares(self.problem.m, self.problem.n, m, n, grid)
        )
        for parts in self.buffers:
            if not space.fits_l0(m, k, n, parts.l0, parts.l0c):
                continue
            for panel, scales in space.depths(m, k, n, parts.l1):
                bound = max(family.bound, quick.member(m, k, n, grid, panel, parts))
                for order in ("mn",) if one_tile else ("mn", "nm"):
                    yield bound, _blocked(grid, (m, k, n), panel, scales, parts, order)

    def bound(self, candidate: Candidate) -> int:
        """By counting all instructions."""
        params = Blocked(**candidate)
        return bounds_of(blocked.plan(self.problem, self.accumulate, self.arch, params), self.costs).lower

    def dimensions(self) -> dict[str, list[Any]]:
        """Independent choices; not every combination fits."""
        space = self.space
        return {
            "grid": space.grids(self.max_cores),
            "m": space.bases_m(),
            "k": space.bases_k(),
            "n": space.bases_n(),
            "panel": list(DEPTHS),
            "scales": [1, 2, 4, 8] if space.a.cell_bytes or space.b.cell_bytes else [1],
            "l1": [2, 1],
            "l0": [2, 1],
            "l0c": [1, 2],
            "order": ["mn", "nm"],
        }

    def candidate(self, choices: dict[str, Any]) -> Candidate:
        """From a choice for each dimension."""
        parts = _buffers(choices["l1"], choices["l0"], choices["l0c"])
        base = (choices["m"], choices["k"], choices["n"])
        return _blocked(choices["grid"], base, choices["panel"], choices["scales"], parts, choices["order"])


def _buffers(l1: int, l0: int, l0c: int) -> Buffers:
    return Buffers.model_validate({"l1": l1, "l0": l0, "l0c": l0c})


def _blocked(
    grid: tuple[int, int], base: tuple[int, int, int], panel: int, scales: int, parts: Buffers, order: str
) -> Candidate:
    return {
        "kind": "blocked",
        "core_grid": list(grid),
        "base": list(base),
        "panel_slices": panel,
        "scale_panels": scales,
        "buffers": parts.model_dump(),
        "loop_order": order,
    }


@dataclass(frozen=True)
class NSplitSpace(SearchSpace):
    """``n_split``: width of a slice, and halves of L0B and L0C. Few enough to try them all."""

    def kinds(self) -> tuple[str, ...]:
        """One."""
        return ("n_split",)

    def dimensions(self) -> dict[str, list[Any]]:
        """Widths in multiples of 64 columns up to N."""
        whole = round_up(self.problem.n, n_split.SLICE)
        widths = [min(width, self.problem.n) for width in range(n_split.SLICE, whole + 1, n_split.SLICE)]
        return {"tile_n": widths, "l0": [1, 2], "l0c": [1, 2]}

    def candidate(self, choices: dict[str, Any]) -> Candidate:
        """From a choice for each dimension."""
        buffers = {"l0": choices["l0"], "l0c": choices["l0c"]}
        return {"kind": "n_split", "tile_n": choices["tile_n"], "buffers": buffers}

    def own(self, tiling: TilingParams) -> Candidate:
        """With the width that the plan takes where the scenario names none."""
        assert isinstance(tiling, n_split.NSplit)
        width = n_split.plan(self.problem, self.accumulate, self.arch, tiling).tile_n
        return self.candidate({"tile_n": width, **tiling.buffers.model_dump()})

    def families(self) -> Iterator[Family]:
        """One of all."""
        yield Family(0, ())

    def members(self, family: Family) -> Iterator[tuple[int, Candidate]]:
        """Every combination."""
        del family
        return ((0, self.candidate(choices)) for choices in _product(self.dimensions()))

    def bound(self, candidate: Candidate) -> int:
        """None; only whether it fits."""
        n_split.plan(self.problem, self.accumulate, self.arch, n_split.NSplit(**candidate))
        return 0


@dataclass(frozen=True)
class GenericSpace(SearchSpace):
    """Every tiling of a family of machines, by the choices that their parameters allow."""

    family: str

    def kinds(self) -> tuple[str, ...]:
        """All of the family."""
        return tuple(kind for kind, tiling in TILINGS.items() if tiling.family == self.family and kind != "auto")

    def families(self) -> Iterator[Family]:
        """One for each kind."""
        return (Family(0, (kind,)) for kind in self.kinds())

    def members(self, family: Family) -> Iterator[tuple[int, Candidate]]:
        """Every combination of choices."""
        kind = family.key[0]
        for choices in _product(self._choices(kind)):
            yield 0, {"kind": kind, **choices}

    def bound(self, candidate: Candidate) -> int:
        """The tiling's own, where it has one."""
        tiling = TILINGS[candidate["kind"]]
        plan = tiling.plan(self.problem, self.accumulate, self.arch, tiling.params(**candidate))
        return tiling.bound(plan) if tiling.bound is not None else 0

    def dimensions(self) -> dict[str, list[Any]]:
        """Which of the candidates: they have no common dimensions."""
        return {"candidate": [each for family in self.families() for _, each in self.members(family)]}

    def candidate(self, choices: dict[str, Any]) -> Candidate:
        """The chosen one."""
        chosen: Candidate = choices["candidate"]
        return chosen

    def _choices(self, kind: str) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for name, field in TILINGS[kind].params.model_fields.items():
            if name == "kind":
                continue
            annotation = field.annotation
            if get_origin(annotation) is Literal:
                found[name] = list(get_args(annotation))
            elif name == "block" and get_origin(annotation) is tuple:
                found[name] = self._blocks(len(get_args(annotation)))
        return found

    def _blocks(self, count: int) -> list[Any]:
        """``[m, n]`` or ``[m, n, k]`` in powers of two, none beyond the problem."""
        extents = (self.problem.m, self.problem.n, self.problem.k)[:count]
        tiles = [ceil_div(extent, unit) for extent, unit in zip(extents, BLOCK_UNITS.values(), strict=False)]
        axes = [[power for power in POWERS if power < 2 * most] for most in tiles]
        return [list(block) for block in itertools.product(*axes)]


def _product(dimensions: dict[str, Sequence[Any]] | dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    names = list(dimensions)
    return (dict(zip(names, values, strict=True)) for values in itertools.product(*dimensions.values()))
