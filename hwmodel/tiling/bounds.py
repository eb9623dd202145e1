"""How fast a blocked plan can be at best, from counting instructions instead of running them.

Every bound is proven, core by core. An engine runs one instruction at a time, so no run is shorter than the sum of its
instructions taken alone; before its first one the pipeline must have filled, and after its last one what it made must
still be multiplied and stored. Where two engines share one buffer (one L0C tile, one slice in L0, one panel in L1) they
take turns, so their sums add. A shared link moves no more than its rate.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

from hwmodel.arch import Arch
from hwmodel.program.instructions import Extract, Matmul
from hwmodel.quantities import ceil_div
from hwmodel.tiling import operands as sizes
from hwmodel.tiling.blocked import BlockedPlan, tensors_of
from hwmodel.tiling.blocked_loop import CoreLoop

Census = Counter[tuple[str, Any]]
PIPES = ("MTE2", "MTE1", "M", "FIX")


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of a plan, in cycles of the reference clock, the launch included."""

    limits: dict[str, int]
    """Each bound by what limits: a unit, two units that take turns (``cube+fixpipe``), or a link."""
    alone: dict[str, int]
    """Sum of each unit's instructions, nobody in the way, on the core where it is largest; without the launch."""

    @property
    def lower(self) -> int:
        """No run of this plan takes fewer cycles."""
        return max(self.limits.values())

    @property
    def by(self) -> str:
        """What sets the largest bound."""
        return max(self.limits, key=lambda name: self.limits[name])


class _Tile(NamedTuple):
    start: int
    size: int
    first: bool


def census(loop: CoreLoop) -> Census:
    """How often a core runs an instruction with each set of parameters, without unrolling the loop."""
    found: Census = Counter()
    m_tiles, n_tiles = _tiles(loop.rows, loop.base_m), _tiles(loop.cols, loop.base_n)
    distances = loop.reuse_distances()
    panels = _panels(loop)
    kinds = Counter((m.size, n.size, m.first, n.first) for m in m_tiles for n in n_tiles)
    for (m, n, first_m, first_n), count in kinds.items():
        a_distance = -1 if first_n else distances["a"]
        b_distance = -1 if first_m else distances["b"]
        for (depth, scale_depth), repeat in panels.items():
            times = count * repeat
            found["MTE2", loop.load("a", m, depth, a_distance)] += times
            found["MTE2", loop.load("b", depth, n, b_distance)] += times
            if scale_depth and loop.a.cell_bytes:
                tile = sizes.scale_tile(loop.a, "l1", 0, m, scale_depth)
                found["MTE2", loop.scale_load("a", tile, a_distance)] += times
            if scale_depth and loop.b.cell_bytes:
                tile = sizes.scale_tile(loop.b, "l1", 0, n, scale_depth)
                found["MTE2", loop.scale_load("b", tile, b_distance)] += times
        for index, (k, repeat) in enumerate(_slices(loop).items()):
            times = count * repeat
            for params in _extracts(loop, m, n, k):
                found["MTE1", params] += times
            first = count if index == 0 else 0
            found["M", _matmul(loop, m, k, n, False)] += first
            found["M", _matmul(loop, m, k, n, True)] += times - first
    for m_tile in m_tiles:
        for n_tile in n_tiles:
            found["FIX", loop.store(m_tile.start, m_tile.size, n_tile.start, n_tile.size)] += 1
    return +found


def _tiles(extent: int, base: int) -> list[_Tile]:
    return [_Tile(start, min(base, extent - start), start == 0) for start in range(0, extent, base)]


def _panels(loop: CoreLoop) -> Counter[tuple[int, int]]:
    """(depth, K of the scales that are loaded with it; 0 for none) of the panels of one tile."""
    every = loop.plan.params.scale_panels
    return Counter(
        (min(loop.panel_k, loop.k - k0), min(loop.scale_k, loop.k - k0) if panel % every == 0 else 0)
        for panel, k0 in enumerate(range(0, loop.k, loop.panel_k))
    )


def _slices(loop: CoreLoop) -> dict[int, int]:
    """K of the slices of one tile, the first slice's first."""
    whole, rest = divmod(loop.k, loop.base_k)
    found = {loop.base_k: whole} if whole else {}
    if rest:
        found[rest] = 1
    return found


def _extracts(loop: CoreLoop, m: int, n: int, k: int) -> list[Extract]:
    found = [
        Extract(sizes.l0_tile(loop.a, "l0a", 0, m, k, "NZ").size, "l0a"),
        Extract(sizes.l0_tile(loop.b, "l0b", 0, k, n, "ZN").size, "l0b"),
    ]
    if loop.a.cell_bytes:
        found.append(Extract(sizes.scale_tile(loop.a, "l0a_mx", 0, m, k).size, "l0a_mx"))
    if loop.b.cell_bytes:
        found.append(Extract(sizes.scale_tile(loop.b, "l0b_mx", 0, n, k).size, "l0b_mx"))
    return found


def _matmul(loop: CoreLoop, m: int, k: int, n: int, accumulate: bool) -> Matmul:
    problem = loop.plan.problem
    return Matmul(m, k, n, problem.a, problem.b, accumulate)


class Costs:
    """Ticks of one instruction when nobody shares anything with it: of any on one machine, each worked out once."""

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self._known: dict[tuple[str, Any], int] = {}

    def __call__(self, engine: str, params: Any) -> int:
        """Ticks of an instruction of that engine."""
        key = (engine, params)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._work_out(engine, params)
        return found

    def _work_out(self, engine: str, params: Any) -> int:
        unit = self.arch.units[engine]
        ticks = unit.kind.cycles(unit.spec, params) * unit.ticks_per_cycle
        for move in unit.kind.traffic(unit.spec, params):
            ticks += ceil_div(move.size, self.arch.core_link_rates[move.link])
        return ticks


def bounds_of(plan: BlockedPlan, costs: Costs | None = None) -> Bounds:
    """Bounds of a plan: the largest over its cores, and over the shared links.

    ``costs`` of the plan's machine, where many plans are looked at.
    """
    tensors = tensors_of(plan)
    arch = plan.arch
    costs = costs or Costs(arch)
    launch = arch.spec.launch_cycles * arch.ticks_per_cycle
    limits: dict[str, int] = {}
    alone: dict[str, int] = {}
    moved: Counter[str] = Counter()
    tails = []
    only_loads_move = True
    for group in plan.groups:
        core = _Core(costs, CoreLoop(plan, group, tensors))
        for name, ticks in core.alone.items():
            alone[name] = max(alone.get(name, 0), ticks)
        for name, ticks in core.limits().items():
            limits[name] = max(limits.get(name, 0), launch + ticks)
        tails.append(core.after_load)
        for (engine, params), count in core.counted.items():
            unit = arch.units[engine]
            for move in unit.kind.traffic(unit.spec, params):
                moved[move.link] += move.size * count * len(group.shares)
                only_loads_move = only_loads_move and engine == "MTE2"
    after = min(tails) if only_loads_move else 0
    for name, size in moved.items():
        rate = arch.spec.links[name].bytes_per_cycle / arch.ticks_per_cycle
        limits[name] = launch + ceil_div(size, rate) + after
    return Bounds(_cycles(arch, limits), _cycles(arch, alone))


def _cycles(arch: Arch, ticks: dict[str, int]) -> dict[str, int]:
    return {name: ceil_div(value, arch.ticks_per_cycle) for name, value in ticks.items()}


class _Core:
    """One core's loop, counted. All times in ticks, without the launch."""

    def __init__(self, costs: Costs, loop: CoreLoop) -> None:
        self.arch, self.cost, self.loop = costs.arch, costs, loop
        self.counted = census(loop)
        self.sums: Counter[str] = Counter()
        for (engine, params), count in self.counted.items():
            self.sums[engine] += count * self.cost(engine, params)
        last_m, last_n = _tiles(loop.rows, loop.base_m)[-1], _tiles(loop.cols, loop.base_n)[-1]
        self.first = (min(loop.base_m, loop.rows), min(loop.base_n, loop.cols))
        self.last = (last_m.size, last_n.size)
        store = loop.store(last_m.start, last_m.size, last_n.start, last_n.size)
        self.after_matmul = self.cost("FIX", store)

    @property
    def alone(self) -> dict[str, int]:
        """Sum of each unit's instructions."""
        return {self.arch.units[engine].name: self.sums[engine] for engine in PIPES}

    def limits(self) -> dict[str, int]:
        """Every bound of this core by what limits."""
        loop, sums = self.loop, self.sums
        buffers = loop.plan.params.buffers
        names = {engine: self.arch.units[engine].name for engine in PIPES}
        a, b = self._first_loads()
        before_extract = a
        before_matmul = max(a + b + self._extract_b(*self.first, self._depth(0)), a + self._extracts_of_first())
        before_store = before_matmul + self._matmuls(*self.first, loop.k, first=True)
        after_extract = self._last_matmul() + self.after_matmul
        found = {
            names["MTE2"]: sums["MTE2"] + self.after_load,
            names["MTE1"]: before_extract + sums["MTE1"] + after_extract,
            names["M"]: before_matmul + sums["M"] + self.after_matmul,
            names["FIX"]: before_store + sums["FIX"],
        }
        if buffers.l0c == 1:
            found[f"{names['M']}+{names['FIX']}"] = before_matmul + sums["M"] + sums["FIX"]
        if buffers.l0 == 1:
            both = before_extract + sums["MTE1"] + sums["M"] + self.after_matmul
            found[f"{names['MTE1']}+{names['M']}"] = both
        if buffers.l1 == 1:
            both = sums["MTE2"] + sums["MTE1"] - self._first_a_extracts() + after_extract
            found[f"{names['MTE2']}+{names['MTE1']}"] = both
        return found

    def _depth(self, k0: int) -> int:
        return min(self.loop.panel_k, self.loop.k - k0)

    def _first_loads(self) -> tuple[int, int]:
        """Loads of the first panel: (A and its scales, B and its scales). Each is a first use."""
        loop, (m, n), depth = self.loop, self.first, self._depth(0)
        scale_depth = min(loop.scale_k, loop.k)
        a = self.cost("MTE2", loop.load("a", m, depth, -1))
        b = self.cost("MTE2", loop.load("b", depth, n, -1))
        if loop.a.cell_bytes:
            tile = sizes.scale_tile(loop.a, "l1", 0, m, scale_depth)
            a += self.cost("MTE2", loop.scale_load("a", tile, -1))
        if loop.b.cell_bytes:
            tile = sizes.scale_tile(loop.b, "l1", 0, n, scale_depth)
            b += self.cost("MTE2", loop.scale_load("b", tile, -1))
        return a, b

    def _extract_b(self, m: int, n: int, depth: int) -> int:
        """Extracts of B and its scales for a panel's first slice."""
        found = _extracts(self.loop, m, n, min(self.loop.base_k, depth))
        return sum(self.cost("MTE1", params) for params in found if params.target.startswith("l0b"))

    def _extracts_of_first(self) -> int:
        found = _extracts(self.loop, *self.first, min(self.loop.base_k, self.loop.k))
        return sum(self.cost("MTE1", params) for params in found)

    def _matmuls(self, m: int, n: int, depth: int, *, first: bool) -> int:
        """All matmuls over ``depth`` of K of one tile; ``first`` where they begin its sums."""
        whole, rest = divmod(depth, self.loop.base_k)
        slices = [self.loop.base_k] * whole + ([rest] if rest else [])
        costs = (_matmul(self.loop, m, k, n, not (first and i == 0)) for i, k in enumerate(slices))
        return sum(self.cost("M", params) for params in costs)

    def _last_panel(self) -> tuple[int, bool]:
        """(depth, whether it is a tile's first) of the last panel."""
        start = (ceil_div(self.loop.k, self.loop.panel_k) - 1) * self.loop.panel_k
        return self._depth(start), start == 0

    def _last_matmul(self) -> int:
        depth, first = self._last_panel()
        slices = ceil_div(depth, self.loop.base_k)
        k = depth - (slices - 1) * self.loop.base_k
        m, n = self.last
        return self.cost("M", _matmul(self.loop, m, k, n, not (first and slices == 1)))

    @property
    def after_load(self) -> int:
        """Least time after the last load: B of the last panel must be extracted, all of it multiplied and stored."""
        depth, first = self._last_panel()
        return self._extract_b(*self.last, depth) + self._matmuls(*self.last, depth, first=first) + self.after_matmul

    def _first_a_extracts(self) -> int:
        """Extracts that need not wait for all loads of their panel: A and its scales of each panel's first slice."""
        loop = self.loop
        total = 0
        for m in _tiles(loop.rows, loop.base_m):
            for n in _tiles(loop.cols, loop.base_n)[:1]:
                for k0 in range(0, loop.k, loop.panel_k):
                    found = _extracts(loop, m.size, n.size, min(loop.base_k, self._depth(k0)))
                    total += sum(self.cost("MTE1", params) for params in found if params.target.startswith("l0a"))
        return total * ceil_div(loop.cols, loop.base_n)
