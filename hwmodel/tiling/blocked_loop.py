"""The canonical loop of one core, unrolled to instructions.

Written for speed: a GEMM of 4096 cubed has more than 100,000 instructions on one core, so tiles, waits and parameters
are made once and shared, and the inner loop only puts records together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hwmodel.arch import Arch
from hwmodel.numerics import DTYPES
from hwmodel.problem import order_of
from hwmodel.program.instructions import (
    GM_LINE_BYTES,
    Extract,
    Instruction,
    Load,
    Matmul,
    Signal,
    Store,
    Sync,
    Wait,
)
from hwmodel.program.memory import Part, Tensor, Tile, Window, whole
from hwmodel.quantities import ceil_div, round_up
from hwmodel.tiling import operands as sizes
from hwmodel.tiling.l2 import first_use_misses, reuse_misses
from hwmodel.tiling.operands import CELL_K, SCALE_ADDRESS_SHIFT, OperandKind

if TYPE_CHECKING:
    from hwmodel.tiling.blocked import Blocked, BlockedPlan
    from hwmodel.tiling.grid import Group


@dataclass(frozen=True)
class L1Layout:
    """Where panels and scales lie in L1: A0, A1, B0, B1, then the scale buffers (bytes)."""

    a: OperandKind
    b: OperandKind
    a_offsets: tuple[int, ...]
    b_offsets: tuple[int, ...]
    a_scale_offsets: tuple[int, ...]
    b_scale_offsets: tuple[int, ...]
    end: int

    @classmethod
    def of(cls, arch: Arch, a: OperandKind, b: OperandKind, params: Blocked, k: int) -> L1Layout:
        """Place the panels for these parameters; no panel is deeper than the problem's K."""
        unit = arch.spec.buffers["l1"].allocation_bytes
        base_m, base_k, base_n = params.base
        panel_k = min(base_k * params.panel_slices, round_up(k, base_k))
        scale_k = min(panel_k * params.scale_panels, round_up(k, base_k))
        position = 0

        def place(size: int) -> tuple[int, ...]:
            nonlocal position
            offsets = []
            for _ in range(params.buffers.l1):
                offsets.append(position)
                position += round_up(size, unit)
            return tuple(offsets)

        a_offsets = place(a.bytes_of(base_m, panel_k))
        b_offsets = place(b.bytes_of(panel_k, base_n))
        a_scales = place(a.scale_bytes(base_m, scale_k)) if a.cell_bytes else ()
        b_scales = place(b.scale_bytes(base_n, scale_k)) if b.cell_bytes else ()
        return cls(a, b, a_offsets, b_offsets, a_scales, b_scales, position)


class _Cut(NamedTuple):
    """One TEXTRACT, ready to be put into instructions."""

    params: Extract
    reads: tuple[Part]
    writes: tuple[Tile]


class _Slice(NamedTuple):
    """The data of one K slice of a panel, and what the matmul reads of it."""

    k: int
    a: _Cut
    b: _Cut
    reads: tuple[Part, ...]


class CoreLoop:
    """Instructions of the cores of a group: each computes ``rows`` x ``cols`` of the output."""

    def __init__(self, plan: BlockedPlan, group: Group, tensors: dict[str, Tensor]) -> None:
        self.plan = plan
        self.rows, self.cols = group.rows, group.cols
        self.start_bytes = group.start_bytes
        self.tensors = tensors
        self.k = plan.problem.k
        params, layout = plan.params, plan.layout
        self.a, self.b, self.layout = layout.a, layout.b, layout
        self.base_m, self.base_k, self.base_n = params.base
        self.panel_k = self.base_k * params.panel_slices
        self.scale_k = self.panel_k * params.scale_panels
        arch = plan.arch
        self.halves = {
            "l0a": arch.buffer_bytes("l0a") // params.buffers.l0,
            "l0b": arch.buffer_bytes("l0b") // params.buffers.l0,
            "l0c": arch.buffer_bytes("l0c") // params.buffers.l0c,
        }
        self.acc_dtype = "int32" if DTYPES[plan.problem.a].is_integer else "fp32"
        self.op = "tmatmul_mx" if plan.mx else "tmatmul"
        self.order = order_of(plan.problem, plan.accumulate)
        self.cast = plan.problem.cast()
        self._slice = lru_cache(None)(self._make_slice)
        self._scale_part = lru_cache(None)(self._make_scale_part)
        self._matmul = lru_cache(None)(self._make_matmul)
        self._l0c = lru_cache(None)(self._make_l0c)
        self.load = lru_cache(None)(self._make_load)

    # -- pieces that are made once -----------------------------------------------------------------------------------

    def _make_slice(self, m: int, n: int, panel_k: int, p: int, at: int, q: int) -> _Slice:
        """Slice ``at`` of a panel of depth ``panel_k`` in L1 buffer ``p``, extracted to L0 half ``q``."""
        k0 = at * self.base_k
        k = min(self.base_k, panel_k - k0)
        a_panel = sizes.l1_tile(self.a, self.layout.a_offsets[p], m, panel_k, k_axis=1)
        b_panel = sizes.l1_tile(self.b, self.layout.b_offsets[p], panel_k, n, k_axis=0)
        a_tile = sizes.l0_tile(self.a, "l0a", q * self.halves["l0a"], m, k, self.plan.arch.spec.l0a_layout)
        b_tile = sizes.l0_tile(self.b, "l0b", q * self.halves["l0b"], k, n, "ZN")
        a_cut = _Cut(Extract(a_tile.size, "l0a"), (sizes.columns(a_panel, self.a, k0, k),), (a_tile,))
        b_cut = _Cut(Extract(b_tile.size, "l0b"), (sizes.rows(b_panel, self.b, k0, k),), (b_tile,))
        return _Slice(k, a_cut, b_cut, (whole(a_tile), whole(b_tile)))

    def _make_scale_part(self, side: str, rows: int, depth: int, s: int, k0: int, k: int, q: int) -> _Cut:
        """Scales of a slice: K [k0, k0 + k) of scale buffer ``s``, which holds ``depth`` of K for ``rows`` rows."""
        kind = self.a if side == "a" else self.b
        offsets = self.layout.a_scale_offsets if side == "a" else self.layout.b_scale_offsets
        layout = "ZZ" if side == "a" else "NN"
        held = sizes.scale_tile(kind, "l1", offsets[s], rows, depth, layout)
        offset = (q * self.halves[f"l0{side}"]) >> SCALE_ADDRESS_SHIFT
        tile = sizes.scale_tile(kind, f"l0{side}_mx", offset, rows, k, layout)
        return _Cut(Extract(tile.size, f"l0{side}_mx"), (sizes.scale_columns(held, kind, k0, k),), (tile,))

    def _make_matmul(self, m: int, k: int, n: int, accumulate: bool) -> Matmul:
        problem = self.plan.problem
        return Matmul(m, k, n, problem.a, problem.b, accumulate)

    def _make_l0c(self, m: int, n: int, c: int) -> tuple[Tile, Part]:
        tile = sizes.acc_tile(c * self.halves["l0c"], m, n, self.acc_dtype)
        return tile, whole(tile)

    # -- loads -------------------------------------------------------------------------------------------------------

    def _make_load(self, side: str, rows: int, cols: int, misses: int) -> Load:
        """Parameters of the load of a panel; ``misses`` is its reuse distance, -1 for a first use."""
        kind = self.a if side == "a" else self.b
        pieces, piece = sizes.row_bytes_in_gm(self.tensors[side], rows, cols, kind.bits)
        size = pieces * piece
        return Load(size, pieces, piece, self._missed(side, size, misses))

    def scale_load(self, side: str, tile: Tile, misses: int) -> Load:
        """Parameters of the load of the scales in ``tile``."""
        pieces = ceil_div(tile.rows, sizes.CELL_ROWS)
        return Load(tile.size, pieces, tile.size // pieces, self._missed(side, tile.size, misses))

    def store(self, row: int, rows: int, col: int, cols: int) -> Store:
        """Parameters of the store of one output tile."""
        element = sizes.operand_kind(self.plan.problem.out, mx=False).bits // 8
        stride = self.plan.problem.n * element
        start = self.start_bytes + row * stride + col * element
        return Store(rows, cols, element, stride, start % GM_LINE_BYTES)

    def _missed(self, side: str, size: int, distance: int) -> int:
        """Missing bytes: ``distance`` -1 for a first use, else what the chip touched since the last one."""
        rows, columns = self._grid
        sharers = columns if side == "a" else rows
        if distance < 0:
            return first_use_misses(self.plan.arch, size, sharers)
        return reuse_misses(self.plan.arch, size, sharers, distance)

    @cached_property
    def _grid(self) -> tuple[int, int]:
        """Rows and columns of the grid that have work."""
        everyone = [share for group in self.plan.groups for share in group.shares]
        return len({share.row for share in everyone}), len({share.col for share in everyone})

    def reuse_distances(self) -> dict[str, int]:
        """Bytes that compete for the L2 between two uses of an A panel and of a B panel (`hwmodel.tiling.l2`)."""
        problem = self.plan.problem
        rows, columns = self._grid
        a_bits = self.a.bits + self.a.cell_bytes * 8 / (16 * CELL_K)
        b_bits = self.b.bits + self.b.cell_bytes * 8 / (16 * CELL_K)
        out_bytes = sizes.operand_kind(problem.out, mx=False).bits // 8
        a_row = int(rows * min(self.base_m, self.rows) * self.k * a_bits / 8)
        b_column = int(columns * min(self.base_n, self.cols) * self.k * b_bits / 8)
        tile = rows * columns * min(self.base_m, self.rows) * min(self.base_n, self.cols) * out_bytes
        n_tiles, m_tiles = ceil_div(self.cols, self.base_n), ceil_div(self.rows, self.base_m)
        near = a_row + b_column + tile
        operands = int(self.k * (problem.m * a_bits + problem.n * b_bits) / 8)
        if self.plan.params.loop_order == "mn":
            return {"a": near, "b": max(operands, a_row + n_tiles * (b_column + tile))}
        return {"a": max(operands, b_column + m_tiles * (a_row + tile)), "b": near}

    # -- the loop ----------------------------------------------------------------------------------------------------

    def instructions(self) -> tuple[Instruction, ...]:
        """All instructions in program order."""
        out: list[Instruction] = []
        buffers = self.plan.params.buffers
        state = _State()
        free = [f"MTE1>MTE2:{p}" for p in range(buffers.l1)]
        free += [f"M>MTE1:{q}" for q in range(buffers.l0)] + [f"FIX>M:{c}" for c in range(buffers.l0c)]
        for flag in free:
            engine = flag.split(">")[0]
            out.append(Instruction(len(out), "set_flag", engine, Sync(f"prime {flag}"), sets=(Signal(flag),)))
        m_tiles = [(i, m0, min(self.base_m, self.rows - m0)) for i, m0 in enumerate(range(0, self.rows, self.base_m))]
        n_tiles = [(j, n0, min(self.base_n, self.cols - n0)) for j, n0 in enumerate(range(0, self.cols, self.base_n))]
        distances = self.reuse_distances()
        pairs: list[tuple[Any, Any]]
        if self.plan.params.loop_order == "mn":
            pairs = [(mt, nt) for mt in m_tiles for nt in n_tiles]
        else:
            pairs = [(mt, nt) for nt in n_tiles for mt in m_tiles]
        for (i, m0, m), (j, n0, n) in pairs:
            a_distance = -1 if j == 0 else distances["a"]
            b_distance = -1 if i == 0 else distances["b"]
            self._tile(out, state, (i, m0, m, a_distance), (j, n0, n, b_distance))
        for flag in free:
            engine = flag.split(">")[1].split(":")[0]
            out.append(Instruction(len(out), "wait_flag", engine, Sync(f"drain {flag}"), waits=(Wait(flag),)))
        return tuple(out)

    def _tile(
        self, out: list[Instruction], state: _State, rows: tuple[int, int, int, int], cols: tuple[int, int, int, int]
    ) -> None:
        """One tile of the output: all of K, then the store."""
        i, m0, m, _ = rows
        j, n0, n, _ = cols
        buffers = self.plan.params.buffers
        c = state.c
        acc, acc_part = self._l0c(m, n, c)
        slices = ceil_div(self.k, self.base_k)
        index = 0
        for panel, k0 in enumerate(range(0, self.k, self.panel_k)):
            depth = min(self.panel_k, self.k - k0)
            self._panel(out, state, rows, cols, panel, k0, depth)
            in_panel = ceil_div(depth, self.base_k)
            for at in range(in_panel):
                q = state.q
                label = (("m", i), ("n", j), ("k", index))
                ready = _L0_READY_LAST[q][state.p] if at == in_panel - 1 else _L0_READY[q]
                k, reads = self._slice_in(out, state, m, n, depth, at, k0, ready, label)
                waits, sets = _READY_L0[q], _L0_DONE[q]
                if index == 0:
                    waits = (*waits, Wait(f"FIX>M:{c}"))
                if index == slices - 1:
                    sets = (*sets, Signal(f"M>FIX:{c}"))
                params = self._matmul(m, k, n, index > 0)
                out.append(Instruction(len(out), self.op, "M", params, reads, (acc,), waits, sets, self.order, label))
                state.q = (q + 1) % buffers.l0
                index += 1
            state.p = (state.p + 1) % buffers.l1
        store = self.store(m0, m, n0, n)
        window = (Window("out", m0, n0, m, n),)
        waits, sets = (Wait(f"M>FIX:{c}"),), (Signal(f"FIX>M:{c}"),)
        place = (("m", i), ("n", j))
        out.append(Instruction(len(out), "tstore", "FIX", store, (acc_part,), window, waits, sets, self.cast, place))
        state.c = (c + 1) % buffers.l0c

    def _panel(
        self,
        out: list[Instruction],
        state: _State,
        rows: tuple[int, int, int, int],
        cols: tuple[int, int, int, int],
        panel: int,
        k0: int,
        depth: int,
    ) -> None:
        """Loads of one panel: A, its scales when they are due, flag 0; B, its scales, flag 1."""
        i, m0, m, a_distance = rows
        j, n0, n, b_distance = cols
        p = state.p
        label = (("m", i), ("n", j), ("k", panel))
        due = panel % self.plan.params.scale_panels == 0
        if due:
            state.scale_base, state.scale_depth = k0, min(self.scale_k, self.k - k0)
            state.s = (state.s + 1) % self.plan.params.buffers.l1
        s, scale_depth = state.s, state.scale_depth

        def load(side: str, params: Load, window: Window, tile: Tile, waits: Any, *, done: bool) -> None:
            sets = (_LOADED[side],) if done else ()
            out.append(Instruction(len(out), "tload", "MTE2", params, (window,), (tile,), waits, sets, None, label))

        scaled = due and bool(self.a.cell_bytes)
        tile = sizes.l1_tile(self.a, self.layout.a_offsets[p], m, depth, k_axis=1)
        waits = (Wait(f"MTE1>MTE2:{p}"),)
        load("a", self.load("a", m, depth, a_distance), Window("a", m0, k0, m, depth), tile, waits, done=not scaled)
        if scaled:
            tile = sizes.scale_tile(self.a, "l1", self.layout.a_scale_offsets[s], m, scale_depth)
            window = Window("a_scale", m0, k0, m, scale_depth)
            load("a", self.scale_load("a", tile, a_distance), window, tile, (), done=True)
        scaled = due and bool(self.b.cell_bytes)
        tile = sizes.l1_tile(self.b, self.layout.b_offsets[p], depth, n, k_axis=0)
        load("b", self.load("b", depth, n, b_distance), Window("b", k0, n0, depth, n), tile, (), done=not scaled)
        if scaled:
            tile = sizes.scale_tile(self.b, "l1", self.layout.b_scale_offsets[s], n, scale_depth, "NN")
            window = Window("b_scale", n0, k0, n, scale_depth)
            load("b", self.scale_load("b", tile, b_distance), window, tile, (), done=True)

    def _slice_in(
        self,
        out: list[Instruction],
        state: _State,
        m: int,
        n: int,
        depth: int,
        at: int,
        k0: int,
        ready: tuple[Signal, ...],
        label: tuple[tuple[str, int], ...],
    ) -> tuple[int, tuple[Part, ...]]:
        """TEXTRACTs of one slice: A, A scales, B, B scales. Returns the slice's K and what the matmul reads."""
        q = state.q
        cut = self._slice(m, n, depth, state.p, at, q)
        offset = k0 + at * self.base_k - state.scale_base
        waits = _FREE_L0_FIRST[q] if at == 0 else _FREE_L0[q]
        a_scaled, b_scaled = self.a.cell_bytes, self.b.cell_bytes

        def extract(cut: _Cut, waits: tuple[Wait, ...], sets: tuple[Signal, ...]) -> None:
            number = len(out)
            out.append(
                Instruction(number, "textract", "MTE1", cut.params, cut.reads, cut.writes, waits, sets, None, label)
            )

        reads = cut.reads
        extract(cut.a, waits, ())
        if a_scaled:
            scales = self._scale_part("a", m, state.scale_depth, state.s, offset, cut.k, q)
            extract(scales, (), ())
            reads = (*reads, whole(scales.writes[0]))
        extract(cut.b, _B_WAIT if at == 0 else (), () if b_scaled else ready)
        if b_scaled:
            scales = self._scale_part("b", n, state.scale_depth, state.s, offset, cut.k, q)
            extract(scales, (), ready)
            reads = (*reads, whole(scales.writes[0]))
        return cut.k, reads


@dataclass
class _State:
    """Which half comes next (L1 panel, L0 slice, L0C tile, scale buffer) and which K the scale buffer holds."""

    p: int = 0
    q: int = 0
    c: int = 0
    s: int = -1
    scale_base: int = 0
    scale_depth: int = 0


_LOADED = {"a": Signal("MTE2>MTE1:0"), "b": Signal("MTE2>MTE1:1")}
_B_WAIT = (Wait("MTE2>MTE1:1"),)
_FREE_L0 = tuple((Wait(f"M>MTE1:{q}"),) for q in (0, 1))
_FREE_L0_FIRST = tuple((Wait(f"M>MTE1:{q}"), Wait("MTE2>MTE1:0")) for q in (0, 1))
_L0_READY = tuple((Signal(f"MTE1>M:{q}"),) for q in (0, 1))
_L0_READY_LAST = tuple(tuple((Signal(f"MTE1>M:{q}"), Signal(f"MTE1>MTE2:{p}")) for p in (0, 1)) for q in (0, 1))
_READY_L0: tuple[tuple[Wait, ...], ...] = tuple((Wait(f"MTE1>M:{q}"),) for q in (0, 1))
_L0_DONE: tuple[tuple[Signal, ...], ...] = tuple((Signal(f"M>MTE1:{q}"),) for q in (0, 1))
