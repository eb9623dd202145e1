"""Products in a stated order. Rows and columns do not depend on each other, so blocking them changes no bit.

A panel of columns of B is packed, and a few rows of A at a time run down it, their sums in vector registers: the
innermost loop is written as LLVM vectors, because the compiler's own vectoriser neither keeps sums in registers nor
uses full width. ``fmul`` and ``fadd`` without flags stay two roundings; ``llvm.fmuladd`` serves sums that are exact
anyway. ``a`` [M, K], ``b`` [K, N] and ``c`` [M, N] are fp32 and contiguous, but for the distance of ``a``'s rows;
``c`` holds the start of every sum and then the result. (One file: numba's cache looks at the date of the file that a
function is in.)
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.extending import intrinsic

from hwmodel.numerics.kernels.signatures import compiled, f32, given, i64, made, types, void

ir: Any = importlib.import_module("llvmlite.ir")
cgutils: Any = importlib.import_module("numba.core.cgutils")
_host: Any = importlib.import_module("llvmlite.binding").get_host_cpu_features()

LANES = 16 if _host.get("avx512f", False) else 8
"""fp32 lanes of a vector (float64: half as many), so that the sums of a tile fill the registers and no more."""
FP32_BYTES = 4
UNROLL = 4
PANEL = 2 * LANES
WIDE_PANEL = LANES
DEPTH = 256
"""k packed at a time: a panel is then 32 KiB."""
_NAN = np.float32(np.nan)
"""The canonical NaN, 0x7FC00000; the machine's own may have a sign."""
_LINE = 64
_ROWS = 3
_FUSED_ROWS = 6
_PLAIN = void(given(f32, 2, "A"), given(f32, 2), made(f32, 2))
_GROUPED = void(given(f32, 2, "A"), given(f32, 2), made(f32, 2), i64)


def _tile(rows: int, wide: bool = False, fused: bool = False, grouped: bool = False) -> Callable[..., Any]:
    """Make ``tile(a, row, k, depth, panel, at, pitch, sums, to)`` for use in compiled code.

    It adds a[row:row+rows, k:k+depth] x B to ``rows`` runs of 2 x lanes sums, from element ``to`` of ``sums`` on; row
    d of B lies at element ``at + d x pitch`` of ``panel``. ``a`` is fp32 [M, K] with contiguous rows (of any distance:
    a step known when compiling keeps the loop free of address arithmetic), the others are contiguous.

    ``wide``: in float64, with half the columns. ``grouped``: the products are summed from zero, rounded to fp32 and
    then added to the sums, which are fp32; otherwise the chain goes on from the sums. ``fused`` lets the machine
    fuse multiplication and addition.
    """
    element = ir.DoubleType() if wide else ir.FloatType()
    lanes = LANES // 2 if wide else LANES
    vector = ir.VectorType(element, lanes)
    size = 8 if wide else 4
    sum_vector = ir.VectorType(ir.FloatType(), lanes) if grouped else vector
    sum_size = 4 if grouped else size

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a = context.make_array(signature.args[0])(context, builder, args[0])
        panel = context.make_array(signature.args[4])(context, builder, args[4]).data
        sums = context.make_array(signature.args[7])(context, builder, args[7]).data
        row, k, depth, at, pitch, to = (args[i] for i in (1, 2, 3, 5, 6, 8))
        integer = row.type
        row_bytes = builder.extract_value(a.strides, 0)
        k_bytes = integer(FP32_BYTES)

        def vector_at(base: Any, index: Any, kind: Any) -> Any:
            return builder.bitcast(builder.gep(base, [index]), kind.as_pointer())

        def spread(scalar: Any) -> Any:
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.IntType(32)(0))
            return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))

        first = builder.add(builder.ptrtoint(a.data, integer), builder.mul(k, k_bytes))
        starts = [builder.add(first, builder.mul(builder.add(row, integer(r)), row_bytes)) for r in range(rows)]
        places = [builder.add(to, integer(each * lanes)) for each in range(2 * rows)]
        totals = []
        for place in places:
            total = cgutils.alloca_once(builder, vector)
            zero = ir.Constant(vector, [0.0] * lanes)
            builder.store(zero if grouped else builder.load(vector_at(sums, place, vector), align=size), total)
            totals.append(total)

        def one_k(d: Any) -> None:
            here = builder.add(at, builder.mul(d, pitch))
            columns = [
                builder.load(vector_at(panel, builder.add(here, integer(half * lanes)), vector), align=size)
                for half in range(2)
            ]
            offset = builder.mul(d, k_bytes)
            for r in range(rows):
                address = builder.inttoptr(builder.add(starts[r], offset), ir.FloatType().as_pointer())
                scalar = builder.load(address, align=FP32_BYTES)
                every = spread(builder.fpext(scalar, element) if wide else scalar)
                for half in range(2):
                    total = totals[2 * r + half]
                    if fused:
                        added = builder.call(_fmuladd(builder, vector), [every, columns[half], builder.load(total)])
                    else:
                        added = builder.fadd(builder.load(total), builder.fmul(every, columns[half]))
                    builder.store(added, total)

        whole = builder.sdiv(depth, integer(UNROLL))
        with cgutils.for_range(builder, whole) as loop:
            first_d = builder.mul(loop.index, integer(UNROLL))
            for step in range(UNROLL):
                one_k(builder.add(first_d, integer(step)))
        done = builder.mul(whole, integer(UNROLL))
        with cgutils.for_range(builder, builder.sub(depth, done)) as loop:
            one_k(builder.add(done, loop.index))
        for place, total in zip(places, totals, strict=True):
            result, target = builder.load(total), vector_at(sums, place, sum_vector)
            if grouped:
                rounded = builder.fptrunc(result, sum_vector) if wide else result
                result = builder.fadd(builder.load(target, align=sum_size), rounded)
            builder.store(result, target, align=sum_size)
        return context.get_dummy_value()

    def typed(
        _context: Any, a: Any, _row: Any, _k: Any, _depth: Any, panel: Any, _at: Any, _pitch: Any, sums: Any, _to: Any
    ) -> Any:
        i64 = types.int64
        return types.void(a, i64, i64, i64, panel, i64, i64, sums, i64), codegen

    made: Callable[..., Any] = intrinsic(typed)
    return made


def _fmuladd(builder: Any, vector: Any) -> Any:
    name = f"llvm.fmuladd.v{vector.count}f{'64' if isinstance(vector.element, ir.DoubleType) else '32'}"
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)


_chain_rows, _chain_one = _tile(_ROWS), _tile(1)
_wide_rows, _wide_one = _tile(_ROWS, wide=True), _tile(1, wide=True)
_group_rows, _group_one = _tile(_FUSED_ROWS, fused=True, grouped=True), _tile(1, fused=True, grouped=True)
_wide_group_rows = _tile(_ROWS, wide=True, fused=True, grouped=True)
_wide_group_one = _tile(1, wide=True, fused=True, grouped=True)


@numba.njit(inline="always")
def _read(c: Any, j: int, width: int, panel: int, sums: Any) -> None:
    for i in range(c.shape[0]):
        line, into = c[i, j : j + width], sums[i * panel : i * panel + width]
        for n in range(width):
            into[n] = line[n]


@numba.njit(inline="always")
def _write(sums: Any, j: int, width: int, panel: int, c: Any) -> None:
    for i in range(c.shape[0]):
        line, into = sums[i * panel : i * panel + width], c[i, j : j + width]
        for n in range(width):
            into[n] = np.float32(line[n]) if line[n] == line[n] else _NAN


@numba.njit(inline="always")
def _on_a_line(storage: Any) -> Any:
    """The part of ``storage`` that begins on a cache line, so that no vector of a panel lies on two."""
    return storage[(-storage.ctypes.data % _LINE) // storage.itemsize :]


@numba.njit(inline="always")
def _pack(b: Any, start: int, depth: int, j: int, width: int, panel: int, packed: Any) -> None:
    for d in range(depth):
        line, into = b[start + d, j : j + width], packed[d * panel : d * panel + width]
        for n in range(width):
            into[n] = line[n]


@compiled(_PLAIN)
def chain(a: Any, b: Any, c: Any) -> None:
    """c = (c + a_0 b_0) + a_1 b_1 ..., a product and a sum each rounded to fp32."""
    rows, k = a.shape
    cols = b.shape[1]
    packed = _on_a_line(np.zeros(DEPTH * PANEL + _LINE, np.float32))
    sums = _on_a_line(np.zeros(rows * PANEL + _LINE, np.float32))
    whole = rows - rows % _ROWS
    for j in range(0, cols, PANEL):
        width = min(PANEL, cols - j)
        _read(c, j, width, PANEL, sums)
        for start in range(0, k, DEPTH):
            depth = min(DEPTH, k - start)
            _pack(b, start, depth, j, width, PANEL, packed)
            for i in range(0, whole, _ROWS):
                _chain_rows(a, i, start, depth, packed, 0, PANEL, sums, i * PANEL)
            for i in range(whole, rows):
                _chain_one(a, i, start, depth, packed, 0, PANEL, sums, i * PANEL)
        _write(sums, j, width, PANEL, c)


@compiled(_PLAIN)
def chain_in_float64(a: Any, b: Any, c: Any) -> None:
    """As `chain` with products and sums in float64, rounded to fp32 once at the end."""
    rows, k = a.shape
    cols = b.shape[1]
    packed = _on_a_line(np.zeros(DEPTH * WIDE_PANEL + _LINE, np.float64))
    sums = _on_a_line(np.zeros(rows * WIDE_PANEL + _LINE, np.float64))
    whole = rows - rows % _ROWS
    for j in range(0, cols, WIDE_PANEL):
        width = min(WIDE_PANEL, cols - j)
        _read(c, j, width, WIDE_PANEL, sums)
        for start in range(0, k, DEPTH):
            depth = min(DEPTH, k - start)
            _pack(b, start, depth, j, width, WIDE_PANEL, packed)
            for i in range(0, whole, _ROWS):
                _wide_rows(a, i, start, depth, packed, 0, WIDE_PANEL, sums, i * WIDE_PANEL)
            for i in range(whole, rows):
                _wide_one(a, i, start, depth, packed, 0, WIDE_PANEL, sums, i * WIDE_PANEL)
        _write(sums, j, width, WIDE_PANEL, c)


@compiled(_GROUPED)
def grouped(a: Any, b: Any, c: Any, group: int) -> None:
    """c += sums over runs of ``group``, for runs whose sums are exact in fp32 in any order."""
    rows, k = a.shape
    cols = b.shape[1]
    runs = max(1, DEPTH // group)
    packed = _on_a_line(np.zeros(runs * group * PANEL + _LINE, np.float32))
    sums = _on_a_line(np.zeros(rows * PANEL + _LINE, np.float32))
    whole = rows - rows % _FUSED_ROWS
    for j in range(0, cols, PANEL):
        width = min(PANEL, cols - j)
        _read(c, j, width, PANEL, sums)
        for start in range(0, k, runs * group):
            depth = min(runs * group, k - start)
            _pack(b, start, depth, j, width, PANEL, packed)
            for i in range(0, whole, _FUSED_ROWS):
                for d in range(0, depth, group):
                    run = min(group, depth - d)
                    _group_rows(a, i, start + d, run, packed, d * PANEL, PANEL, sums, i * PANEL)
            for i in range(whole, rows):
                for d in range(0, depth, group):
                    run = min(group, depth - d)
                    _group_one(a, i, start + d, run, packed, d * PANEL, PANEL, sums, i * PANEL)
        _write(sums, j, width, PANEL, c)


@compiled(_GROUPED)
def grouped_in_float64(a: Any, b: Any, c: Any, group: int) -> None:
    """As `grouped`, for runs whose sums are exact in float64 in any order; each is rounded to fp32 once."""
    rows, k = a.shape
    cols = b.shape[1]
    runs = max(1, DEPTH // group)
    packed = _on_a_line(np.zeros(runs * group * WIDE_PANEL + _LINE, np.float64))
    sums = _on_a_line(np.zeros(rows * WIDE_PANEL + _LINE, np.float32))
    whole = rows - rows % _ROWS
    for j in range(0, cols, WIDE_PANEL):
        width = min(WIDE_PANEL, cols - j)
        _read(c, j, width, WIDE_PANEL, sums)
        for start in range(0, k, runs * group):
            depth = min(runs * group, k - start)
            _pack(b, start, depth, j, width, WIDE_PANEL, packed)
            for i in range(0, whole, _ROWS):
                for d in range(0, depth, group):
                    run = min(group, depth - d)
                    _wide_group_rows(a, i, start + d, run, packed, d * WIDE_PANEL, WIDE_PANEL, sums, i * WIDE_PANEL)
            for i in range(whole, rows):
                for d in range(0, depth, group):
                    run = min(group, depth - d)
                    _wide_group_one(a, i, start + d, run, packed, d * WIDE_PANEL, WIDE_PANEL, sums, i * WIDE_PANEL)
        _write(sums, j, width, WIDE_PANEL, c)
