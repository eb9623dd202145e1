"""fully_blocked: blocks in all three dimensions. n-block, k-block, m-block; sums of the K blocks meet in SBUF.

A bank adds up the products of one K block; the Vector engine copies the first block's sums to SBUF and adds the later
ones there, in fp32 and in order. The last addition casts in place, and finished rows are stored. The rhs of a k-block
serves all m-blocks. lhs and rhs have two buffers each where they fit. A load takes as many neighbouring tiles as make
rows of 2 KiB, the least that DMA moves well: with one buffer, a part is refilled while the others are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import Field

from hwmodel.arch import Arch
from hwmodel.problem import Accumulate, MatmulProblem
from hwmodel.program.instructions import Instruction, Signal, Wait
from hwmodel.program.memory import Part
from hwmodel.quantities import ceil_div
from hwmodel.tiling.base import Tiling
from hwmodel.tiling.neuron.base import LoopParams, LoopPlan, Moves, Traffic, check_block, geometry_of
from hwmodel.tiling.neuron.emit import Emitter, Slot, columns
from hwmodel.tiling.neuron.geometry import SUM_BYTES, TILE_M, TILE_N, Allocator, Geometry, Span, blocks, widths
from hwmodel.tiling.neuron.tiled import tile_bytes

Count = Literal[1, 2]
CHOICES: tuple[tuple[Count, Count], ...] = ((2, 2), (1, 2), (2, 1), (1, 1))
"""Buffers of lhs and rhs, the best first."""
ROW_BYTES = 2048
"""Bytes of a row that DMA moves well (hardware facts 2.4)."""
Tiles = Sequence[tuple[int, Span]]
"""Tiles along an axis with their numbers."""


class FullyBlocked(LoopParams):
    """Parameters of fully_blocked."""

    kind: Literal["fully_blocked"]
    evacuate: Literal["vector"] = Field(default="vector", description="engine that adds the K blocks")
    block: tuple[int, int, int] = Field(default=(16, 2, 8), description="[m, n, k] tiles of a block")
    lhs_buffers: Count | None = Field(default=None, description="lhs blocks in SBUF; default: two if they fit")
    rhs_buffers: Count | None = Field(default=None, description="rhs blocks in SBUF; default: two if they fit")


class Layout(NamedTuple):
    """Tiles of a block, and first bytes in SBUF: lhs and rhs [buffer][k and chunk], sums [m]."""

    block: tuple[int, int, int]
    lhs_chunk: int
    """m tiles that come with one load."""
    rhs_chunk: int
    """n tiles that come with one load."""
    lhs: tuple[tuple[int, ...], ...]
    rhs: tuple[tuple[int, ...], ...]
    sums: tuple[int, ...]


def plan(problem: MatmulProblem, accumulate: Accumulate, arch: Arch, params: FullyBlocked) -> LoopPlan:
    """Choose the buffers and check that everything fits."""
    check_block("block", params.block)
    geometry = geometry_of(problem, accumulate, arch)
    counts = (len(geometry.m), len(geometry.n), len(geometry.k))
    block = (min(params.block[0], counts[0]), min(params.block[1], counts[1]), min(params.block[2], counts[2]))
    layout, used = _layout(geometry, arch, block, *CHOICES[-1])
    for lhs, rhs in CHOICES:
        if params.lhs_buffers in (None, lhs) and params.rhs_buffers in (None, rhs):
            layout, used = _layout(geometry, arch, block, lhs, rhs)
            if used <= arch.buffer_bytes("sbuf"):
                break
    space = Allocator(arch, used)
    what = f"sums of {counts[0]} x {block[1]} tiles and blocks of {block[0]} x {block[1]} x {block[2]} tiles"
    space.check(what, "smaller blocks need less")
    k_block = block[2] * geometry.k_tile if counts[2] > block[2] else 0
    traffic = Traffic(
        lhs=Moves(ceil_div(counts[1], block[1]), widths(geometry.m, block[0], layout.lhs_chunk)),
        rhs=Moves(1, widths(geometry.n, block[1], layout.rhs_chunk)),
        out=Moves(1, widths(geometry.n, block[1])),
    )
    planned = params.model_copy(update={"block": block, "lhs_buffers": len(layout.lhs), "rhs_buffers": len(layout.rhs)})
    return LoopPlan(problem, accumulate, arch, planned, geometry, layout, lower, traffic, k_block, used)


def _layout(geometry: Geometry, arch: Arch, block: tuple[int, int, int], lhs: int, rhs: int) -> tuple[Layout, int]:
    space = Allocator(arch)
    lhs_chunk = _chunk(block[0], TILE_M * geometry.lhs.bytes)
    rhs_chunk = _chunk(block[1], TILE_N * geometry.rhs.bytes)
    sums = space.take(len(geometry.m), block[1] * TILE_N * SUM_BYTES)
    lhs_count, lhs_size = ceil_div(block[0], lhs_chunk), lhs_chunk * tile_bytes(geometry, "lhs")
    rhs_count, rhs_size = ceil_div(block[1], rhs_chunk), rhs_chunk * tile_bytes(geometry, "rhs")
    lhs_places = tuple(space.take(block[2] * lhs_count, lhs_size) for _ in range(lhs))
    rhs_places = tuple(space.take(block[2] * rhs_count, rhs_size) for _ in range(rhs))
    return Layout(block, lhs_chunk, rhs_chunk, lhs_places, rhs_places, sums), space.used


def _chunk(tiles: int, row_bytes: int) -> int:
    """Tiles that one load takes, of ``tiles`` in a block."""
    return min(tiles, max(1, ROW_BYTES // row_bytes))


def lower(plan: LoopPlan) -> list[Instruction]:
    """n-block, k-block: load the rhs block; m-block: load the lhs block, multiply, add up in SBUF, store at the end."""
    return _Loop(plan).instructions()


class _Loop:
    def __init__(self, plan: LoopPlan) -> None:
        self.plan = plan
        self.geometry = plan.geometry
        self.layout: Layout = plan.layout
        self.out: Emitter = plan.emitter()
        self.lhs = _slots("lhs", self.layout.lhs)
        self.rhs = _slots("rhs", self.layout.rhs)
        self.sums = [Slot(f"sums{index}", offset) for index, offset in enumerate(self.layout.sums)]
        self.bank = self.lhs_turn = self.rhs_turn = 0

    def instructions(self) -> list[Instruction]:
        geometry, (block_m, block_n, block_k) = self.geometry, self.layout.block
        m_blocks = blocks(list(enumerate(geometry.m)), block_m)
        k_blocks = blocks(list(enumerate(geometry.k)), block_k)
        for n_block in blocks(list(enumerate(geometry.n)), block_n):
            for position, k_block in enumerate(k_blocks):
                rhs = self._load_rhs(k_block, n_block)
                for m_block in m_blocks:
                    lhs = self._load_lhs(k_block, m_block)
                    first, last = position == 0, position == len(k_blocks) - 1
                    for i, m in enumerate(m_block):
                        self._row(lhs[i], rhs, k_block, m, n_block, first=first, last=last)
        return self.out.instructions

    def _load_rhs(self, k_block: Tiles, n_block: Tiles) -> list[list[tuple[Part, Slot]]]:
        """rhs[n][k]: columns of each n tile and the place they lie in."""
        slots = self.rhs[self.rhs_turn % len(self.rhs)]
        self.rhs_turn += 1
        return self._load("b", "n", slots, k_block, n_block, self.layout.rhs_chunk)

    def _load_lhs(self, k_block: Tiles, m_block: Tiles) -> list[list[tuple[Part, Slot]]]:
        """lhs[m][k]: columns of each m tile and the place they lie in."""
        slots = self.lhs[self.lhs_turn % len(self.lhs)]
        self.lhs_turn += 1
        return self._load("a", "m", slots, k_block, m_block, self.layout.lhs_chunk)

    def _load(
        self, name: str, axis: str, slots: list[Slot], k_block: Tiles, tiles: Tiles, chunk: int
    ) -> list[list[tuple[Part, Slot]]]:
        """One load for each chunk of tiles and each k."""
        size = (self.geometry.lhs if name == "a" else self.geometry.rhs).bytes
        found: list[list[tuple[Part, Slot]]] = []
        for c, some in enumerate(blocks(tiles, chunk)):
            start, cols = some[0][1].start, sum(tile.size for _, tile in some)
            rows: list[list[tuple[Part, Slot]]] = [[] for _ in some]
            for at, (k_index, k) in enumerate(k_block):
                slot = slots[c * self.layout.block[2] + at]
                part = self.out.load(name, slot, k, start, cols, ((axis, some[0][0]), ("k", k_index)))
                for row, (_, tile) in zip(rows, some, strict=True):
                    row.append((columns(part, tile.start - start, tile.size, size), slot))
            found += rows
        return found

    def _row(
        self,
        lhs: list[tuple[Part, Slot]],
        rhs: list[list[tuple[Part, Slot]]],
        k_block: Tiles,
        m_tile: tuple[int, Span],
        n_block: Tiles,
        *,
        first: bool,
        last: bool,
    ) -> None:
        """Output tiles of one m tile and all n tiles of the block, over one K block."""
        out, (m_index, m) = self.out, m_tile
        start = n_block[0][1].start
        place = self.sums[m_index]
        refill = out.fill(place) if first else ()
        for j, (n_index, _) in enumerate(n_block):
            bank = out.banks[self.bank % len(out.banks)]
            self.bank += 1
            for at, (k_index, k) in enumerate(k_block):
                label = (("m", m_index), ("n", n_index), ("k", k_index))
                out.multiply(*lhs[at], *rhs[j][at], bank, k.size, start=at == 0, label=label)
            out.finish(bank)
            self._add_up(bank, place, m_tile, j, n_block, first=first, last=last, refill=refill if j == 0 else ())
        if last:
            cols = sum(n.size for _, n in n_block)
            out.store(place, m, start, cols, (("m", m_index), ("n", n_block[0][0])))

    def _add_up(
        self,
        bank: Slot,
        place: Slot,
        m_tile: tuple[int, Span],
        j: int,
        n_block: Tiles,
        *,
        first: bool,
        last: bool,
        refill: tuple[Wait, ...],
    ) -> None:
        """Sums of a bank into SBUF; the last block's become the output, packed to the front of the row."""
        out, dtype = self.out, self.geometry.out
        (m_index, m), (n_index, n) = m_tile, n_block[j]
        held = out.sbuf(place.offset + j * TILE_N * SUM_BYTES, m.size, n.size, "float32", SUM_BYTES)
        name = f"{place.name}.{j}"
        waits = refill if first else (Wait(name),)
        target = held
        sets: tuple[Signal, ...] = () if last else (Signal(name),)
        if last:
            ahead = sum(other.size for _, other in n_block[:j])
            target = out.sbuf(place.offset + ahead * dtype.bytes, m.size, n.size, dtype.name, dtype.bytes)
            sets = out.full(place) if j == len(n_block) - 1 else ()
        out.evacuate(
            bank, m.size, n.size, target,
            engine="vector", add=None if first else held, cast=last, waits=waits, sets=sets,
            label=(("m", m_index), ("n", n_index)),
        )  # fmt: skip


def _slots(name: str, places: tuple[tuple[int, ...], ...]) -> list[list[Slot]]:
    return [
        [Slot(f"{name}{buffer}.{index}", offset) for index, offset in enumerate(offsets)]
        for buffer, offsets in enumerate(places)
    ]


FULLY_BLOCKED = Tiling(
    kind="fully_blocked",
    family="neuron",
    memory=LoopPlan.memory,
    bound=LoopPlan.bound,
    params=FullyBlocked,
    plan=plan,
    summary="n-blocks, k-blocks, m-blocks; sums of the K blocks meet in SBUF",
)
