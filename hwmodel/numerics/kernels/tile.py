"""The innermost loop of a product: a few rows of A against a panel of columns of B, the sums in vector registers.

Written as LLVM vectors, because a compiler's own vectoriser neither keeps the sums in registers nor uses full width.
``fmul`` and ``fadd`` without flags stay two roundings; ``llvm.fmuladd`` is used only for sums that are exact anyway.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from numba.core import types
from numba.extending import intrinsic

ir: Any = importlib.import_module("llvmlite.ir")
cgutils: Any = importlib.import_module("numba.core.cgutils")

LANES = 16
"""fp32 lanes of a vector; narrower machines split it, the bits are the same. float64 vectors have half as many."""


def tile(rows: int, wide: bool = False, fused: bool = False, grouped: bool = False) -> Callable[..., Any]:
    """Make ``tile(a, row, k, depth, panel, at, pitch, sums, to)`` for use in compiled code.

    It adds a[row:row+rows, k:k+depth] x B to ``rows`` runs of 2 x lanes sums, from element ``to`` of ``sums`` on; row
    d of B lies at element ``at + d x pitch`` of ``panel``. ``a`` is fp32 [M, K] of any strides, the others are
    contiguous.

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
        k_bytes = builder.extract_value(a.strides, 1)

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
        with cgutils.for_range(builder, depth) as loop:
            here = builder.add(at, builder.mul(loop.index, pitch))
            columns = [
                builder.load(vector_at(panel, builder.add(here, integer(half * lanes)), vector), align=size)
                for half in range(2)
            ]
            offset = builder.mul(loop.index, k_bytes)
            for r in range(rows):
                address = builder.inttoptr(builder.add(starts[r], offset), ir.FloatType().as_pointer())
                scalar = builder.load(address, align=4)
                every = spread(builder.fpext(scalar, element) if wide else scalar)
                for half in range(2):
                    total = totals[2 * r + half]
                    if fused:
                        added = builder.call(_fmuladd(builder, vector), [every, columns[half], builder.load(total)])
                    else:
                        added = builder.fadd(builder.load(total), builder.fmul(every, columns[half]))
                    builder.store(added, total)
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
