"""blocked_free: blocks in both free dimensions. m-block, n-block; the lhs of an m-block is kept over all K.

Each rhs tile serves the block's m tiles and each lhs tile its n tiles, so both are loaded less often. A bank of PSUM
for each output tile of a block: at most 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import Field

from hwmodel.arch import Arch
from hwmodel.errors import CapacityError
from hwmodel.problem import Accumulate, MatmulProblem
from hwmodel.program.instructions import Instruction
from hwmodel.program.memory import Part
from hwmodel.quantities import ceil_div
from hwmodel.tiling.base import Tiling
from hwmodel.tiling.neuron.base import LoopParams, LoopPlan, Moves, Traffic, check_block, geometry_of
from hwmodel.tiling.neuron.emit import BANK_BYTES, Emitter, Slot
from hwmodel.tiling.neuron.geometry import TILE_N, Allocator, Span, blocks, widths
from hwmodel.tiling.neuron.tiled import STAGES, tile_bytes


class BlockedFree(LoopParams):
    """Parameters of blocked_free."""

    kind: Literal["blocked_free"]
    block: tuple[int, int] = Field(default=(2, 2), description="[m, n] tiles of a block")
    in_flight: int = Field(default=4, gt=0, description="rhs tiles of each n of a block in SBUF at a time")
    lhs_buffers: Literal[1, 2] | None = Field(default=None, description="m-blocks in SBUF; default: two if they fit")


class Layout(NamedTuple):
    """First bytes of the places in SBUF: lhs [buffer][k][m of the block], rhs ring, output stages."""

    lhs: tuple[tuple[int, ...], ...]
    rhs: tuple[int, ...]
    out: tuple[int, ...]


def plan(problem: MatmulProblem, accumulate: Accumulate, arch: Arch, params: BlockedFree) -> LoopPlan:
    """Plan the blocks; two m-blocks of lhs in SBUF where they fit."""
    check_block("block", params.block)
    geometry = geometry_of(problem, accumulate, arch)
    block_m = min(params.block[0], len(geometry.m))
    block_n = min(params.block[1], len(geometry.n))
    banks = arch.spec.buffers["psum"].banks
    assert isinstance(banks, int)
    if block_m * block_n > banks:
        needed = block_m * block_n * BANK_BYTES
        what = f"a block of {block_m} x {block_n} output tiles, a bank each,"
        raise CapacityError("psum (each partition)", needed, banks * BANK_BYTES, what, "a smaller block needs less")
    choices = (params.lhs_buffers,) if params.lhs_buffers else (2, 1)
    space = Allocator(arch)
    for buffers in choices:
        space = Allocator(arch)
        per_buffer = block_m * len(geometry.k)
        lhs = tuple(space.take(per_buffer, tile_bytes(geometry, "lhs")) for _ in range(buffers))
        rhs = space.take(params.in_flight * block_n, tile_bytes(geometry, "rhs"))
        out = space.take(STAGES, TILE_N * geometry.out.bytes)
        layout = Layout(lhs, rhs, out)
        if space.used <= arch.buffer_bytes("sbuf"):
            break
    space.check(f"the lhs of {block_m} m tiles over all K, and {params.in_flight * block_n} rhs tiles")
    m, n = widths(geometry.m), widths(geometry.n)
    traffic = Traffic(Moves(1, m), Moves(ceil_div(len(m), block_m), n), Moves(1, n))
    planned = params.model_copy(update={"block": (block_m, block_n), "lhs_buffers": len(layout.lhs)})
    return LoopPlan(problem, accumulate, arch, planned, geometry, layout, lower, traffic, sbuf_bytes=space.used)


def lower(plan: LoopPlan) -> list[Instruction]:
    """m-block: load the lhs over all K; n-block, k: load the rhs tiles, multiply all pairs."""
    geometry, layout = plan.geometry, plan.layout
    out = plan.emitter()
    lhs_buffers = [
        [Slot(f"lhs{buffer}.{index}", offset) for index, offset in enumerate(offsets)]
        for buffer, offsets in enumerate(layout.lhs)
    ]
    rhs_slots = [Slot(f"rhs{index}", offset) for index, offset in enumerate(layout.rhs)]
    stages = [Slot(f"out{index}", offset) for index, offset in enumerate(layout.out)]
    turns = _Turns()
    block_m, block_n = plan.params.block
    for m_block_index, m_block in enumerate(blocks(list(enumerate(geometry.m)), block_m)):
        slots = lhs_buffers[m_block_index % len(lhs_buffers)]
        kept: dict[tuple[int, int], tuple[Part, Slot]] = {}
        for k_index, k in enumerate(geometry.k):
            for i, (m_index, m) in enumerate(m_block):
                slot = slots[k_index * min(block_m, len(geometry.m)) + i]
                label = (("m", m_index), ("k", k_index))
                kept[k_index, i] = (out.load("a", slot, k, m.start, m.size, label), slot)
        for n_block in blocks(list(enumerate(geometry.n)), block_n):
            _block(plan, out, kept, m_block, n_block, rhs_slots, stages, turns)
    return out.instructions


class _Turns:
    """Whose turn it is in the rings."""

    def __init__(self) -> None:
        self.rhs = self.bank = self.stage = 0


def _block(
    plan: LoopPlan,
    out: Emitter,
    kept: dict[tuple[int, int], tuple[Part, Slot]],
    m_block: Sequence[tuple[int, Span]],
    n_block: Sequence[tuple[int, Span]],
    rhs_slots: list[Slot],
    stages: list[Slot],
    turns: _Turns,
) -> None:
    geometry = plan.geometry
    banks = {}
    for i in range(len(m_block)):
        for j in range(len(n_block)):
            banks[i, j] = out.banks[turns.bank % len(out.banks)]
            turns.bank += 1
    last = len(geometry.k) - 1
    for k_index, k in enumerate(geometry.k):
        for j, (n_index, n) in enumerate(n_block):
            slot = rhs_slots[turns.rhs % len(rhs_slots)]
            turns.rhs += 1
            rhs = out.load("b", slot, k, n.start, n.size, (("n", n_index), ("k", k_index)))
            for i, (m_index, _) in enumerate(m_block):
                lhs, lhs_slot = kept[k_index, i]
                label = (("m", m_index), ("n", n_index), ("k", k_index))
                out.multiply(lhs, lhs_slot, rhs, slot, banks[i, j], k.size, start=k_index == 0, label=label)
                if k_index == last:
                    out.finish(banks[i, j])
    for j, (n_index, n) in enumerate(n_block):
        for i, (m_index, m) in enumerate(m_block):
            stage = stages[turns.stage % STAGES]
            turns.stage += 1
            tile = (("m", m_index), ("n", n_index))
            target = out.sbuf(stage.offset, m.size, n.size, geometry.out.name, geometry.out.bytes)
            out.evacuate(
                banks[i, j], m.size, n.size, target,
                engine=plan.params.evacuate, waits=out.fill(stage), sets=out.full(stage), label=tile,
            )  # fmt: skip
            out.store(stage, m, n.start, n.size, tile)


BLOCKED_FREE = Tiling(
    kind="blocked_free",
    family="neuron",
    memory=LoopPlan.memory,
    bound=LoopPlan.bound,
    params=BlockedFree,
    plan=plan,
    summary="m-blocks and n-blocks, the lhs of an m-block kept over all K",
)
