"""n_split: one core, A once, B in column slices that fit L0C.

The kernel of the HiF4 requirement: when M x N x 4 bytes overflow L0C (or one of its halves), the N dimension is cut
into slices of ``floor(L0C / 4M)`` columns, floored to 64. A and B with their scales are loaded whole; A is extracted
once; each slice is extracted, multiplied and stored to its columns of the output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from hwmodel.arch import Arch
from hwmodel.errors import CapacityError, InputError
from hwmodel.numerics import DTYPES
from hwmodel.problem import Accumulate, MatmulProblem, order_of
from hwmodel.program import Program, Tensor
from hwmodel.program.instructions import GM_LINE_BYTES, Extract, Instruction, Load, Matmul, Signal, Store, Wait
from hwmodel.program.memory import Operand, Window, whole
from hwmodel.program.program import CoreProgram
from hwmodel.quantities import ceil_div, round_down, round_up
from hwmodel.tiling import operands as sizes
from hwmodel.tiling.base import Tiling, TilingParams, check_extents, check_operands
from hwmodel.tiling.operands import ACC_BYTES, FRACTAL, SCALE_ADDRESS_SHIFT, OperandKind
from hwmodel.units.base import Spec

SLICE = 64
"""Slices start at multiples of 64 columns (column alignment of TEXTRACT)."""


class Buffers(Spec):
    """How many tiles L0B and L0C are divided into."""

    l0: Literal[1, 2] = Field(default=1, description="L0B halves: extract a slice while the Cube uses the other")
    l0c: Literal[1, 2] = Field(default=1, description="L0C halves: drain one while the Cube fills the other")


class NSplit(TilingParams):
    """Parameters of n_split."""

    kind: Literal["n_split"]
    tile_n: int | None = Field(default=None, gt=0, description="columns of a slice; default: the largest L0C allows")
    buffers: Buffers = Field(default_factory=Buffers)


@dataclass(frozen=True)
class NSplitPlan:
    """n_split for one problem: slice width, number of slices, buffer positions. Everything fits."""

    problem: MatmulProblem
    accumulate: Accumulate
    arch: Arch
    mx: bool
    tile_n: int
    buffers: Buffers

    k_tile = 0
    k_block = 0
    k_slice = 0

    @property
    def n_tiles(self) -> int:
        """Number of slices."""
        return ceil_div(self.problem.n, self.tile_n)

    def summary(self) -> dict[str, Any]:
        """For result.json."""
        buffers = {"l0": self.buffers.l0, "l0c": self.buffers.l0c}
        return {"kind": "n_split", "tile_n": self.tile_n, "n_tiles": self.n_tiles, "buffers": buffers}

    def program(self) -> Program:
        """Lower to instructions."""
        return _lower(self)


def _largest_tile_n(m_padded: int, l0c_bytes: int) -> int:
    return round_down(l0c_bytes // (ACC_BYTES * m_padded), SLICE)


def _largest_in_l0b(arch: Arch, b: OperandKind, k: int, buffers: Buffers) -> int:
    """The widest slice whose data and scales fit L0B and L0B_MX, or their halves."""
    fits = round_down(arch.buffer_bytes("l0b") // buffers.l0 * 8 // (k * b.bits), SLICE)
    if b.cell_bytes:
        l0b_mx = arch.buffer_bytes("l0b_mx") // buffers.l0
        fits = min(fits, round_down(l0b_mx // b.scale_bytes(FRACTAL, k) * FRACTAL, SLICE))
    return fits


def _hint(fits: int) -> str:
    return f"the largest tile_n that fits is {fits}" if fits else f"not even a slice of {SLICE} columns fits"


def plan(problem: MatmulProblem, accumulate: Accumulate, arch: Arch, params: NSplit) -> NSplitPlan:
    """Choose the slice width by the rule of the requirement and check that everything fits."""
    mx = check_operands(problem, arch)
    a = sizes.operand_kind(problem.a, mx=mx)
    b = sizes.operand_kind(problem.b, mx=mx)
    check_extents(arch, m=problem.m, k=problem.k)
    granule = max(a.k_granule, b.k_granule)
    m, k, n = round_up(problem.m, FRACTAL), round_up(problem.k, granule), round_up(problem.n, FRACTAL)
    l0c = arch.buffer_bytes("l0c") // params.buffers.l0c
    half = f"l0c (one of {params.buffers.l0c} parts)" if params.buffers.l0c > 1 else "l0c"
    largest = _largest_tile_n(m, l0c)
    if params.tile_n is not None:
        tile_n = min(params.tile_n, problem.n)
        if tile_n < problem.n and tile_n % SLICE:
            raise InputError(f"tiling.tile_n: expected a multiple of {SLICE}, not {tile_n}")
        needed = m * round_up(tile_n, FRACTAL) * ACC_BYTES
        if needed > l0c:
            hint = _hint(min(largest, _largest_in_l0b(arch, b, k, params.buffers)))
            raise CapacityError(half, needed, l0c, f"a slice of {m} x {tile_n} sums", hint)
    elif m * n * ACC_BYTES <= l0c:
        tile_n = problem.n
    elif largest == 0:
        raise CapacityError(half, m * SLICE * ACC_BYTES, l0c, f"the smallest slice, {m} x {SLICE} sums,")
    else:
        tile_n = largest
    check_extents(arch, n=tile_n)
    result = NSplitPlan(problem, accumulate, arch, mx, tile_n, params.buffers)
    _check_fit(result, a, b, k)
    return result


def _check_fit(plan: NSplitPlan, a: OperandKind, b: OperandKind, k: int) -> None:
    problem, arch = plan.problem, plan.arch
    m, n = round_up(problem.m, FRACTAL), round_up(problem.n, b.n_granule)
    parts = [
        (f"A, {problem.m} x {problem.k} {a.dtype}", a.bytes_of(m, k)),
        ("A scales", a.scale_bytes(problem.m, problem.k)),
        (f"B, {problem.k} x {problem.n} {b.dtype}", b.bytes_of(k, n)),
        ("B scales", b.scale_bytes(problem.n, problem.k)),
    ]
    total = sum(round_up(size, arch.spec.buffers["l1"].allocation_bytes) for _, size in parts)
    _fit(arch, "l1", total, " + ".join(name for name, size in parts if size))
    _fit(arch, "l0a", a.bytes_of(m, k), f"A, {problem.m} x {problem.k} {a.dtype},")
    if a.cell_bytes:
        _fit(arch, "l0a_mx", a.scale_bytes(problem.m, problem.k), f"scales of A, {problem.m} x {problem.k} {a.dtype},")
    halves = plan.buffers.l0
    width = round_up(plan.tile_n, b.n_granule)
    hint = _hint(_largest_in_l0b(arch, b, k, plan.buffers))
    _fit(arch, "l0b", b.bytes_of(k, width), f"a slice of B, {problem.k} x {plan.tile_n} {b.dtype},", hint, halves)
    if b.cell_bytes:
        size = b.scale_bytes(plan.tile_n, problem.k)
        _fit(arch, "l0b_mx", size, f"scales of a slice of B, {problem.k} x {plan.tile_n} {b.dtype},", hint, halves)


def _fit(arch: Arch, buffer: str, needed: int, what: str, hint: str = "", parts: int = 1) -> None:
    if buffer not in arch.spec.buffers:
        raise InputError(f"{arch.name} has no buffer {buffer}, which {what} needs")
    there = arch.buffer_bytes(buffer) // parts
    if needed > there:
        name = f"{buffer} (one of {parts} parts)" if parts > 1 else buffer
        raise CapacityError(name, needed, there, what, hint)


def _lower(plan: NSplitPlan) -> Program:
    problem, arch = plan.problem, plan.arch
    a = sizes.operand_kind(problem.a, mx=plan.mx)
    b = sizes.operand_kind(problem.b, mx=plan.mx)
    m, k, n = problem.m, problem.k, problem.n
    tensors = {
        "a": Tensor("a", problem.a, m, k),
        "b": Tensor("b", problem.b, k, n, "row" if problem.layout.b == "kn" else "col"),
        "out": Tensor("out", problem.out, m, n),
    }
    if a.cell_bytes:
        tensors["a_scale"] = Tensor("a_scale", problem.a, m, k, kind="scale")
    if b.cell_bytes:
        tensors["b_scale"] = Tensor("b_scale", problem.b, n, k, kind="scale")

    unit = arch.spec.buffers["l1"].allocation_bytes
    a_l1 = sizes.l1_tile(a, 0, m, k, k_axis=1)
    a_scale_l1 = sizes.scale_tile(a, "l1", round_up(a_l1.size, unit), m, k)
    b_l1 = sizes.l1_tile(b, round_up(a_scale_l1.offset + a_scale_l1.size, unit), k, n, k_axis=0)
    b_scale_l1 = sizes.scale_tile(b, "l1", round_up(b_l1.offset + b_l1.size, unit), n, k, "NN")
    l0a_layout = arch.spec.l0a_layout
    a_l0 = sizes.l0_tile(a, "l0a", 0, m, k, l0a_layout)
    a_scale_l0 = sizes.scale_tile(a, "l0a_mx", 0, m, k)
    l0_half = arch.buffer_bytes("l0b") // plan.buffers.l0
    l0c_half = arch.buffer_bytes("l0c") // plan.buffers.l0c
    acc_dtype = "int32" if DTYPES[problem.a].is_integer else "fp32"
    order = order_of(problem, plan.accumulate)
    cast = problem.cast()
    element_bytes = sizes.operand_kind(problem.out, mx=False).bits // 8

    out: list[Instruction] = []

    def emit(op: str, engine: str, params: Any, reads: Operand, writes: Operand, **rest: Any) -> None:
        out.append(Instruction(len(out), op, engine, params, (reads,), (writes,), **rest))

    def load(tensor: str, target: Any, *, flag: str = "") -> None:
        rows, cols = tensors[tensor].rows, tensors[tensor].cols
        kind = a if tensor.startswith("a") else b
        if target.kind == "scale":
            pieces, piece = 1, target.size
        else:
            pieces, piece = sizes.row_bytes_in_gm(tensors[tensor], rows, cols, kind.bits)
        size = pieces * piece
        sets = (Signal(flag),) if flag else ()
        window = Window(tensor, 0, 0, rows, cols)
        emit("tload", "MTE2", Load(size, pieces, piece, size), window, target, sets=sets)

    load("a", a_l1, flag="" if a.cell_bytes else "MTE2>MTE1:0")
    if a.cell_bytes:
        load("a_scale", a_scale_l1, flag="MTE2>MTE1:0")
    load("b", b_l1, flag="" if b.cell_bytes else "MTE2>MTE1:1")
    if b.cell_bytes:
        load("b_scale", b_scale_l1, flag="MTE2>MTE1:1")

    wait_a = (Wait("MTE2>MTE1:0"),)
    emit("textract", "MTE1", Extract(a_l0.size, "l0a"), whole(a_l1), a_l0, waits=wait_a)
    if a.cell_bytes:
        emit("textract", "MTE1", Extract(a_scale_l0.size, "l0a_mx"), whole(a_scale_l1), a_scale_l0)

    for j in range(plan.n_tiles):
        q, c = j % plan.buffers.l0, j % plan.buffers.l0c
        col = j * plan.tile_n
        width = min(plan.tile_n, n - col)
        label = (("n", j),)
        b_l0 = sizes.l0_tile(b, "l0b", q * l0_half, k, width, "ZN")
        b_scale_l0 = sizes.scale_tile(b, "l0b_mx", (q * l0_half) >> SCALE_ADDRESS_SHIFT, width, k, "NN")
        acc = sizes.acc_tile(c * l0c_half, m, width, acc_dtype)
        waits = ((Wait("MTE2>MTE1:1"),) if j == 0 else ()) + ((Wait(f"M>MTE1:{q}"),) if j >= plan.buffers.l0 else ())
        ready = (Signal(f"MTE1>M:{q}"),)
        part = sizes.columns(b_l1, b, col, width)
        emit(
            "textract",
            "MTE1",
            Extract(b_l0.size, "l0b"),
            part,
            b_l0,
            waits=waits,
            sets=() if b.cell_bytes else ready,
            label=label,
        )
        if b.cell_bytes:
            cells = sizes.scale_rows(b_scale_l1, b, col, width)
            emit("textract", "MTE1", Extract(b_scale_l0.size, "l0b_mx"), cells, b_scale_l0, sets=ready, label=label)

        reads = [whole(a_l0), whole(b_l0)]
        reads += [whole(a_scale_l0)] if a.cell_bytes else []
        reads += [whole(b_scale_l0)] if b.cell_bytes else []
        waits = (Wait(f"MTE1>M:{q}"),) + ((Wait(f"FIX>M:{c}"),) if j >= plan.buffers.l0c else ())
        sets = (Signal(f"M>FIX:{c}"),) + ((Signal(f"M>MTE1:{q}"),) if j + plan.buffers.l0 < plan.n_tiles else ())
        params = Matmul(m, k, width, problem.a, problem.b, False)
        op = "tmatmul_mx" if plan.mx else "tmatmul"
        out.append(Instruction(len(out), op, "M", params, tuple(reads), (acc,), waits, sets, order, label))
        store = Store(m, width, element_bytes, n * element_bytes, col * element_bytes % GM_LINE_BYTES)
        sets = (Signal(f"FIX>M:{c}"),) if j + plan.buffers.l0c < plan.n_tiles else ()
        emit(
            "tstore",
            "FIX",
            store,
            whole(acc),
            Window("out", 0, col, m, width),
            waits=(Wait(f"M>FIX:{c}"),),
            sets=sets,
            values=cast,
            label=label,
        )
    return Program(tensors, (CoreProgram(0, tuple(out)),))


TILING = Tiling(
    kind="n_split",
    family="ascend",
    params=NSplit,
    plan=plan,
    summary="one core, A once, B in column slices that fit L0C (the HiF4 kernel)",
)
