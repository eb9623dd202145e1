"""How fast a blocked plan can be at best, from counting instructions instead of running them.

Every bound is proven: an engine runs one instruction at a time, so no run is shorter than the sum of its instructions
taken alone, on the core that has most of them; and where two engines share one buffer (one L0C tile, one slice in L0)
they take turns, so their sums add. A shared link moves no more than its rate.
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


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of one core, in cycles of the reference clock."""

    alone: dict[str, int]
    """Sum of each unit's instructions, nobody in the way."""
    links: int
    """All bytes of the busiest shared link at its full rate."""
    launch: int
    fill: int
    """Before the Cube can start: one slice of A and B loaded and extracted."""
    drain: int
    """After the Cube's last instruction: the smallest store."""
    serial_store: bool
    """One L0C tile: the Cube waits for each store."""
    serial_extract: bool
    """One slice in L0: the Cube waits for each extract."""
    serial_load: int | None
    """One panel in L1: extracts that can still overlap the loads (A of each panel's first slice); None for two."""

    @property
    def lower(self) -> int:
        """No run of this plan takes fewer cycles."""
        alone = self.alone
        cube = alone["cube"] + (alone["fixpipe"] - self.drain if self.serial_store else 0)
        bounds = [self.fill + cube + self.drain, self.links, *alone.values()]
        if self.serial_extract:
            bounds.append(alone["cube"] + alone["textract"])
        if self.serial_load is not None:
            bounds.append(alone["tload"] + alone["textract"] - self.serial_load)
        return self.launch + max(bounds)


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


def bounds_of(plan: BlockedPlan) -> Bounds:
    """Bounds of the busiest core of a plan."""
    tensors = tensors_of(plan)
    alone: dict[str, int] = {}
    moved: Counter[str] = Counter()
    for group in plan.groups:
        loop = CoreLoop(plan, group.rows, group.cols, tensors)
        counted = census(loop)
        for name, cycles in _alone(plan.arch, counted).items():
            alone[name] = max(alone.get(name, 0), cycles)
        for (engine, params), count in counted.items():
            unit = plan.arch.units[engine]
            for move in unit.kind.traffic(unit.spec, params):
                moved[move.link] += move.size * count * len(group.shares)
    rates = plan.arch.spec.links
    links = max((ceil_div(size, rates[name].bytes_per_cycle) for name, size in moved.items()), default=0)
    buffers = plan.params.buffers
    fill, drain = _ends(plan, counted)
    overlap = _first_a_extracts(plan, counted) if buffers.l1 == 1 else None
    return Bounds(alone, links, plan.arch.spec.launch_cycles, fill, drain, buffers.l0c == 1, buffers.l0 == 1, overlap)


def _first_a_extracts(plan: BlockedPlan, counted: Census) -> int:
    """Cycles of extracting A (and its scales) for the first slice of every panel of the busiest core, at most."""
    group = max(plan.groups, key=lambda group: group.rows * group.cols)
    base_m, base_k, base_n = plan.params.base
    tiles = ceil_div(group.rows, base_m) * ceil_div(group.cols, base_n)
    panels = tiles * ceil_div(plan.problem.k, base_k * plan.params.panel_slices)
    each = 0
    for target in ("l0a", "l0a_mx"):
        costs = [
            cost_alone(plan.arch, engine, params)
            for engine, params in counted
            if engine == "MTE1" and params.target == target
        ]
        each += max(costs, default=0)
    return panels * each // plan.arch.ticks_per_cycle


def _alone(arch: Arch, counted: Census) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for (engine, params), count in counted.items():
        totals[arch.units[engine].name] += count * cost_alone(arch, engine, params)
    return {name: ceil_div(ticks, arch.ticks_per_cycle) for name, ticks in totals.items()}


def cost_alone(arch: Arch, engine: str, params: Any) -> int:
    """Ticks of one instruction when nobody shares anything with it."""
    unit = arch.units[engine]
    ticks = unit.kind.cycles(unit.spec, params) * unit.ticks_per_cycle
    for move in unit.kind.traffic(unit.spec, params):
        link = arch.spec.links[move.link]
        rate = min(link.bytes_per_cycle, link.core_bytes_per_cycle) / arch.ticks_per_cycle
        ticks += ceil_div(move.size, rate)
    return ticks


def _ends(plan: BlockedPlan, counted: Census) -> tuple[int, int]:
    """Least time before the Cube's first instruction and after its last, over what the last group runs."""
    arch = plan.arch

    def least(engine: str) -> int:
        return min(cost_alone(arch, name, params) for name, params in counted if name == engine)

    return (least("MTE2") + least("MTE1")) // arch.ticks_per_cycle, least("FIX") // arch.ticks_per_cycle
