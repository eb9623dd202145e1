"""tiled and hoisted: one output tile after the other, K innermost.

tiled loads both operands of every matmul; hoisted keeps the lhs of an m tile over all K and loads only the rhs.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field

from hwmodel.arch import Arch
from hwmodel.problem import Accumulate, MatmulProblem
from hwmodel.program.instructions import Instruction
from hwmodel.tiling.base import Tiling
from hwmodel.tiling.neuron.base import LoopParams, LoopPlan, Moves, Traffic, geometry_of
from hwmodel.tiling.neuron.emit import Slot
from hwmodel.tiling.neuron.geometry import TILE_M, TILE_N, Allocator, Geometry, widths

STAGES = 4
"""Output tiles in SBUF on their way out."""


class Tiled(LoopParams):
    """Parameters of tiled."""

    kind: Literal["tiled"]
    in_flight: int = Field(default=8, gt=0, description="tiles of each operand in SBUF at a time")


class Hoisted(LoopParams):
    """Parameters of hoisted."""

    kind: Literal["hoisted"]
    in_flight: int = Field(default=8, gt=0, description="tiles of the rhs in SBUF at a time")
    lhs_buffers: Literal[1, 2] | None = Field(
        default=None, description="m tiles whose lhs is in SBUF; default: two if they fit"
    )


class Layout(NamedTuple):
    """First bytes of the places in SBUF."""

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    out: tuple[int, ...]


def tile_bytes(geometry: Geometry, side: str) -> int:
    """Bytes of a tile in each partition, scale slots included."""
    dtype, cols = (geometry.lhs, TILE_M) if side == "lhs" else (geometry.rhs, TILE_N)
    return cols * (dtype.bytes + geometry.scaled)


def place(geometry: Geometry, arch: Arch, lhs: int, rhs: int) -> tuple[Layout, Allocator]:
    """Places for ``lhs`` and ``rhs`` tiles and the output stages."""
    space = Allocator(arch)
    layout = Layout(
        space.take(lhs, tile_bytes(geometry, "lhs")),
        space.take(rhs, tile_bytes(geometry, "rhs")),
        space.take(STAGES, TILE_N * geometry.out.bytes),
    )
    return layout, space


def plan_tiled(problem: MatmulProblem, accumulate: Accumulate, arch: Arch, params: Tiled) -> LoopPlan:
    """Plan tiled."""
    geometry = geometry_of(problem, accumulate, arch)
    layout, space = place(geometry, arch, params.in_flight, params.in_flight)
    space.check(f"{params.in_flight} tiles of each operand and {STAGES} output tiles", "a smaller in_flight needs less")
    m, n = widths(geometry.m), widths(geometry.n)
    traffic = Traffic(Moves(len(n), m), Moves(len(m), n), Moves(1, n))
    return LoopPlan(problem, accumulate, arch, params, geometry, layout, lower_tiled, traffic, sbuf_bytes=space.used)


def plan_hoisted(problem: MatmulProblem, accumulate: Accumulate, arch: Arch, params: Hoisted) -> LoopPlan:
    """Plan hoisted."""
    geometry = geometry_of(problem, accumulate, arch)
    tiles = len(geometry.k)
    layout, space = place(geometry, arch, tiles, params.in_flight)
    for buffers in (params.lhs_buffers,) if params.lhs_buffers else (2, 1):
        layout, space = place(geometry, arch, buffers * tiles, params.in_flight)
        if space.used <= arch.buffer_bytes("sbuf"):
            break
    space.check(f"the lhs of an m tile over all K ({tiles} tiles), {params.in_flight} rhs and {STAGES} output tiles")
    m, n = widths(geometry.m), widths(geometry.n)
    traffic = Traffic(Moves(1, m), Moves(len(m), n), Moves(1, n))
    planned = params.model_copy(update={"lhs_buffers": len(layout.lhs) // tiles})
    return LoopPlan(problem, accumulate, arch, planned, geometry, layout, lower_hoisted, traffic, sbuf_bytes=space.used)


def lower_tiled(plan: LoopPlan) -> list[Instruction]:
    """m, n, k: load lhs and rhs, multiply; then empty the bank."""
    return _lower(plan, hoisted=False)


def lower_hoisted(plan: LoopPlan) -> list[Instruction]:
    """m: load the lhs over all K; n, k: load the rhs, multiply."""
    return _lower(plan, hoisted=True)


def _lower(plan: LoopPlan, *, hoisted: bool) -> list[Instruction]:
    geometry, layout = plan.geometry, plan.layout
    out = plan.emitter()
    lhs_slots = [Slot(f"lhs{index}", offset) for index, offset in enumerate(layout.lhs)]
    rhs_slots = [Slot(f"rhs{index}", offset) for index, offset in enumerate(layout.rhs)]
    stages = [Slot(f"out{index}", offset) for index, offset in enumerate(layout.out)]
    k_tiles = geometry.k
    lhs_turn = rhs_turn = group = 0
    for m_index, m in enumerate(geometry.m):
        kept = []
        if hoisted:
            for k_index, k in enumerate(k_tiles):
                slot = lhs_slots[lhs_turn % len(lhs_slots)]
                lhs_turn += 1
                kept.append((out.load("a", slot, k, m.start, m.size, (("m", m_index), ("k", k_index))), slot))
        for n_index, n in enumerate(geometry.n):
            bank = out.banks[group % len(out.banks)]
            for k_index, k in enumerate(k_tiles):
                label = (("m", m_index), ("n", n_index), ("k", k_index))
                if hoisted:
                    lhs, lhs_slot = kept[k_index]
                else:
                    lhs_slot = lhs_slots[lhs_turn % len(lhs_slots)]
                    lhs_turn += 1
                    lhs = out.load("a", lhs_slot, k, m.start, m.size, label)
                rhs_slot = rhs_slots[rhs_turn % len(rhs_slots)]
                rhs_turn += 1
                rhs = out.load("b", rhs_slot, k, n.start, n.size, label)
                out.multiply(lhs, lhs_slot, rhs, rhs_slot, bank, k.size, start=k_index == 0, label=label)
            out.finish(bank)
            stage = stages[group % STAGES]
            group += 1
            tile = (("m", m_index), ("n", n_index))
            target = out.sbuf(stage.offset, m.size, n.size, geometry.out.name, geometry.out.bytes)
            out.evacuate(
                bank, m.size, n.size, target,
                engine=plan.params.evacuate, waits=out.fill(stage), sets=out.full(stage), label=tile,
            )  # fmt: skip
            out.store(stage, m, n.start, n.size, tile)
    return out.instructions


TILED = Tiling(
    kind="tiled",
    family="neuron",
    memory=LoopPlan.memory,
    bound=LoopPlan.bound,
    params=Tiled,
    plan=plan_tiled,
    summary="m, n, k: both operands of every matmul are loaded",
)
HOISTED = Tiling(
    kind="hoisted",
    family="neuron",
    memory=LoopPlan.memory,
    bound=LoopPlan.bound,
    params=Hoisted,
    plan=plan_hoisted,
    summary="m, n, k with the lhs of an m tile kept over all K",
)
