"""The same program, strictly in order, by plain loops over exact scalar values.

Buffers are bytes: every write is rendered, so that tiles which overlap are seen as the hardware sees them. Operands
are decoded code by code in exact fractions; sums go step by step.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from hwmodel import numerics as nm
from hwmodel.arch import Arch
from hwmodel.numerics.reference import blocks, codec
from hwmodel.program.instructions import Cast, Instruction, Matmul, Order, Sync
from hwmodel.program.memory import Part, Tensor, Tile, Window
from hwmodel.units.storage import Array, Storage

CANONICAL_NAN = 0x7FC00000


def run(instructions: Iterable[Instruction], gm: dict[str, Array], tensors: dict[str, Tensor], arch: Arch) -> Storage:
    """All instructions in order; ``gm`` is changed in place."""
    capacities = {name: buffer.capacity_bytes for name, buffer in arch.spec.buffers.items()}
    storage = Storage(capacities, gm, tensors, {}, as_bytes=True)
    for instruction in instructions:
        if not isinstance(instruction.params, Sync):
            _one(instruction, storage)
    return storage


def _one(instruction: Instruction, storage: Storage) -> None:
    target = instruction.writes[0]
    if isinstance(instruction.params, Matmul):
        assert isinstance(target, Tile)
        storage.write(target, _matmul(instruction, storage, target))
        return
    source = instruction.reads[0]
    value = storage.load(source) if isinstance(source, Window) else storage.read(_part(source))
    if isinstance(target, Window):
        assert isinstance(instruction.values, Cast)
        storage.store(target, _stored(np.array(value), instruction.values, target))
    else:
        assert isinstance(target, Tile)
        storage.write(target, np.array(value))


def _part(operand: Any) -> Part:
    assert isinstance(operand, Part)
    return operand


def _matmul(instruction: Instruction, storage: Storage, target: Tile) -> Array:
    params, order = instruction.params, instruction.values
    assert isinstance(params, Matmul)
    assert isinstance(order, Order)
    parts = {part.tile.space: _part(part) for part in instruction.reads if isinstance(part, Part)}
    found = {space: np.array(storage.read(part)) for space, part in parts.items()}
    held = None
    if params.accumulate:
        held = storage.read(Part(target, 0, 0, target.rows, target.cols, target.offset, target.size))
    if nm.DTYPES[params.a].is_integer:
        return _integers(found["l0a"], found["l0b"], params, held)
    a = decoded(found["l0a"], found.get("l0a_mx"), params.a, k_axis=1)
    b = decoded(found["l0b"], found.get("l0b_mx"), params.b, k_axis=0)
    if order.order != "seq" or order.scale_on != "operand":
        group = order.group if order.order == "group" else None
        return nm.matmul(a, b, order.order, acc=held, group=group)
    total = np.zeros((params.m, params.n), np.float32) if held is None else np.array(held, np.float32)
    with np.errstate(all="ignore"):
        for k in range(params.k):
            total = total + a[:, k][:, None] * b[k][None, :]
    bits = total.view(np.uint32)
    bits[np.isnan(total)] = CANONICAL_NAN
    return bits.view(np.float32)


def _integers(a: Array, b: Array, params: Matmul, held: Array | None) -> Array:
    left, right = nm.decode_int(a, params.a).astype(np.int64), nm.decode_int(b, params.b).astype(np.int64)
    total = np.zeros((params.m, params.n), np.int64) if held is None else held.astype(np.int64)
    for k in range(params.k):
        total += left[:, k][:, None] * right[k][None, :]
    return total.astype(np.int32)


def decoded(codes: Array, cells: Array | None, dtype: str, *, k_axis: int) -> Array:
    """fp32 of codes, each with the scales that its place has in the cells."""
    out = np.empty(codes.shape, np.float32)
    if cells is None:
        element = nm.DTYPES[dtype].element
        for place, code in np.ndenumerate(codes):
            out[place] = _plain(int(code), element)
        return out
    hif4 = dtype == "hif4"
    data = np.ascontiguousarray(cells).reshape(cells.shape[0], cells.shape[1], -1)
    for place, code in np.ndenumerate(codes):
        row, k = (place[0], place[1]) if k_axis == 1 else (place[1], place[0])
        cell = data[row // 16, k // 64]
        if hif4:
            at = 2 * (row % 16)
            scales = (int(cell[at]), int(cell[at + 1]), int(cell[32 + at]) | int(cell[33 + at]) << 8)
            out[place] = _hif4(int(code), *scales, k % 64)
        else:
            scale = int(cell[2 * (row % 16) + k % 64 // 32])
            out[place] = _mx(int(code), nm.DTYPES[dtype].element, scale)
    return out


@cache
def _plain(code: int, element: str) -> float:
    return _number(codec.decode(code, element))


@cache
def _hif4(code: int, ea: int, eb: int, ec: int, q: int) -> float:
    return _number(blocks.hif4_value(code, ea, eb, ec, q))


@cache
def _mx(code: int, element: str, scale: int) -> float:
    return _number(blocks.mx_value(code, element, scale))


def _number(value: codec.Value) -> float:
    bits = codec.to_float32_bits(value)
    return float(np.uint32(bits).view(np.float32))


def _stored(sums: Array, cast: Cast, target: Window) -> Array:
    """Codes of the output, one element at a time where the cast is plain."""
    if cast.scale is not None or cast.offset or cast.relu or cast.saturate is not None or sums.dtype == np.int32:
        scale = cast.scale
        if isinstance(scale, tuple) and len(scale) > 1:
            scale = scale[target.col : target.col + target.cols]
        return nm.cast_out(sums, cast.dtype, cast.relu, cast.saturate, scale, cast.offset or None)
    record = nm.DTYPES[cast.dtype]
    overflow = "ieee" if record.is_float and record.storage_bits > 8 else "saturate"
    out = np.empty(sums.shape, record.numpy_dtype)
    for place, value in np.ndenumerate(sums):
        out[place] = _encoded(float(value), cast.dtype, overflow)
    return out


@cache
def _encoded(value: float, dtype: str, overflow: str) -> int:
    return codec.encode(codec.from_float(value), dtype, overflow)
