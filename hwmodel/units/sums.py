"""Sums in L0C, worked out when somebody looks at them.

A tile of the output is the sum of many matmul instructions over K, and nobody reads it before the last of them. As
`seq` goes on from what is there, one long product has the same bits as a chain of short ones: keeping the operands
and multiplying once, when FIXPIPE or anybody else reads the tile, is many times faster than once an instruction.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hwmodel import numerics as nm
from hwmodel.program.instructions import Matmul, Order
from hwmodel.units.decoded import Decoded
from hwmodel.units.storage import Array, Lazy, settle

CELL_K = 64
LONGEST = 1 << 27
"""Most products of one combined step (4096 of K for a full L0C): bounds what is held for a tile."""


class Operands(NamedTuple):
    """Codes of A [m, k] and B [k, n], and their scale cells [rows/16, k/64, bytes] where they have any."""

    a: Array
    b: Array
    a_scale: Array | None
    b_scale: Array | None


class Step(NamedTuple):
    """One matmul instruction: its parameters, what it found, how it adds."""

    params: Matmul
    operands: Operands
    order: Order
    known: Decoded | None = None
    """Values that were decoded before."""


class Sums:
    """What L0C holds after ``step`` has been added to ``before`` (None: zero). Never changes."""

    __slots__ = ("_before", "_products", "_step", "_value")

    _products: int

    def __init__(self, before: Array | Lazy | None, step: Step) -> None:
        self._before = before
        self._step: Step | None = step
        self._value: Array | None = None
        earlier: int = before._products if isinstance(before, Sums) and before._value is None else 0
        params = step.params
        self._products = earlier + params.m * params.k * params.n
        if self._products > LONGEST:
            self.array()

    def array(self) -> Array:
        """The sums [m, n]: fp32, or exact int32 for integer operands."""
        if self._value is None:
            steps: list[Step] = []
            at: Array | Lazy | None = self
            while isinstance(at, Sums) and at._value is None:
                assert at._step is not None
                steps.append(at._step)
                at = at._before
            start = None if at is None else settle(at)
            self._value = add(start, steps[::-1])
            self._before = self._step = None
        return self._value


def add(start: Array | None, steps: list[Step]) -> Array:
    """``start`` plus the products of ``steps``, in order."""
    if len(steps) > 1 and _combine(steps):
        steps = [_joined(steps)]
    sums = start
    for step in steps:
        sums = multiply(sums, step)
    assert sums is not None
    return sums


def _combine(steps: list[Step]) -> bool:
    """Whether one product over all of K has the same bits as the steps one after another."""
    first = steps[0]
    order = first.order
    if order.order not in ("seq", "group") or order.scale_on != "operand" or nm.DTYPES[first.params.a].is_integer:
        return False
    in_cells = order.order == "group" or first.operands.a_scale is not None or first.operands.b_scale is not None
    whole = not in_cells or all(step.params.k % CELL_K == 0 for step in steps[:-1])
    pair = (first.params.a, first.params.b)
    return whole and all(step.order == order and (step.params.a, step.params.b) == pair for step in steps)


def _joined(steps: list[Step]) -> Step:
    """One step over the K of all."""
    params = steps[0].params._replace(k=sum(step.params.k for step in steps))
    parts = [step.operands for step in steps]
    scales = [
        None if parts[0][side] is None else np.concatenate([part[side] for part in parts], axis=1) for side in (2, 3)
    ]
    a = join([part.a for part in parts], axis=1)
    b = join([part.b for part in parts], axis=0)
    return Step(params, Operands(a, b, scales[0], scales[1]), steps[0].order, steps[0].known)


def join(parts: list[Array], axis: int) -> Array:
    """The parts one after another along ``axis``: the place itself where they lie side by side in a read-only array."""
    first = parts[0]
    at = first.ctypes.data
    for part in parts:
        if part.flags.writeable or part.strides != first.strides or part.ctypes.data != at:
            return np.concatenate(parts, axis=axis)
        at += part.shape[axis] * part.strides[axis]
    shape = list(first.shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return np.lib.stride_tricks.as_strided(first, tuple(shape), first.strides, writeable=False)


def multiply(sums: Array | None, step: Step) -> Array:
    """``sums`` plus the product of one step."""
    params, operands, order, known = step
    if nm.DTYPES[params.a].is_integer:
        return nm.matmul_int(nm.decode_int(operands.a, params.a), nm.decode_int(operands.b, params.b), acc=sums)
    whole = order.scale_on == "operand"
    a = decode(operands.a, operands.a_scale, params.a, rows=params.m, k=params.k, k_axis=1, scaled=whole, known=known)
    b = decode(operands.b, operands.b_scale, params.b, rows=params.n, k=params.k, k_axis=0, scaled=whole, known=known)
    group = order.group if order.order == "group" else None
    return nm.matmul(a, b, order.order, acc=sums, group=group, scale_on=order.scale_on)


def decode(
    codes: Array,
    cells: Array | None,
    dtype: str,
    *,
    rows: int,
    k: int,
    k_axis: int,
    scaled: bool = True,
    known: Decoded | None = None,
) -> Any:
    """fp32 operand from codes and scale cells; the 16-bit ones and plain formats have no cells.

    ``scaled`` False leaves codes and scales apart, as a block tensor.
    """
    record = nm.DTYPES[dtype]
    if cells is None or record.block is None:
        return nm.decode(codes, record.element) if known is None else known.decode(codes, record.element)
    data = np.ascontiguousarray(cells).reshape(-1)
    if scaled:
        return nm.decode_operand(codes, nm.read_scale_cells(data, rows, k, dtype), dtype, k_axis)
    scales = nm.read_scale_cells(data, rows, k, dtype, k_axis)
    return nm.BlockTensor(codes, scales, dtype, k_axis, (1, record.block.group))
