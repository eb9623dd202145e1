"""What the PE array does to values: weights into a copy of the array, products into PSUM.

out[p, n] = sum over k of (ifmap[k, n] - zpI)(weights[k, p] - zpW), k ascending from +0, each product and each sum
rounded to fp32; the finished product is added to the bank with one fp32 addition an element.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from hwmodel import numerics as nm
from hwmodel.errors import InputError, ProgramError
from hwmodel.program.instructions import Instruction, Order, called
from hwmodel.program.memory import Part, Tile
from hwmodel.program.neuron import Weights
from hwmodel.program.neuron_dtypes import NEURON_DTYPES
from hwmodel.units.neuron.operands import Operand, doubled, scaled, widened
from hwmodel.units.neuron.storage import CoreMemory
from hwmodel.units.neuron.variants import check_tags, sparse_product, transposed
from hwmodel.units.storage import Array


class WeightsValues(NamedTuple):
    """Operands of a weight load beside the data: scale slots, and an index of rows to gather (in this order)."""

    scales: bool = False
    gather: bool = False


class MatmultValues(NamedTuple):
    """What a matmul does to values.

    ``start`` clears ``clear`` = (offset, bytes) of PSUM over ``partitions`` = (first, count) before it adds. Without
    it the product is added where somebody wrote since, and copied elsewhere. ``sparse_ratio`` > 0: structured sparse,
    groups of 4 x ratio rows. ``onezero``: whether float32 weights and ifmap must hold only 0 and 1. ``scaled``: MX
    operands. ``fp32r_bits``: mantissa bits of float32r operands. Operands after the weights copy and the ifmap: scale
    slots, or the index of a sparse one.
    """

    order: Order = Order()
    start: bool = True
    clear: tuple[int, int] = (0, 0)
    partitions: tuple[int, int] = (0, 0)
    weights_zero: int | None = None
    ifmap_zero: int | None = None
    mode: int = 0
    transpose: bool = False
    onezero: tuple[bool, bool] = (False, False)
    sparse_ratio: int = 0
    fp32r_bits: int | None = None
    scaled: bool = False
    lanes: tuple[int, int] | None = None


class Found(NamedTuple):
    """What a matmul found when it started."""

    weights: Operand
    ifmap: Operand
    tags: Array | None = None


def capture(instruction: Instruction, storage: CoreMemory) -> Operand | Found:
    """Operands as they lie in SBUF, or the weights and the moving rows.

    Raises ProgramError where an index that it found there points beside what it chooses from.
    """
    try:
        return _found(instruction, storage)
    except InputError as error:
        raise ProgramError(*called(instruction), str(error)) from None


def _found(instruction: Instruction, storage: CoreMemory) -> Operand | Found:
    parts = [operand for operand in instruction.reads if isinstance(operand, Part)]
    if isinstance(instruction.params, Weights):
        how = instruction.values if isinstance(instruction.values, WeightsValues) else WeightsValues()
        return _weights(parts, how, storage)
    multiply = instruction.values
    assert isinstance(multiply, MatmultValues)
    copy, moving, *rest = parts
    extra = storage.read(rest[0]) if rest else None
    codes = storage.read(moving)
    weights = storage.weights.get(copy.tile.offset) or _garbage(copy.tile)
    if multiply.sparse_ratio:
        assert extra is not None
        check_tags(extra, multiply.sparse_ratio)
        return Found(weights, Operand(codes, moving.tile.dtype), extra)
    found = Found(weights, Operand(codes, moving.tile.dtype, extra))
    for name, flagged in zip(("weights", "ifmap"), multiply.onezero, strict=True):
        if flagged:
            _check_onezero(name, widened(getattr(found, name)))
    return found


def _check_onezero(name: str, values: Array) -> None:
    """The array skips the passes of what cannot be there: other values would come out wrong in silence."""
    wrong = (values != 0) & (values != 1)
    if wrong.any():
        raise InputError(f"{name}_onezero: expected only 0 and 1 in the {name}, not {values[wrong][0]:g}")


def _weights(parts: list[Part], how: WeightsValues, storage: CoreMemory) -> Operand:
    data, *rest = parts
    codes = storage.read(data)
    slots = storage.read(rest.pop(0)) if how.scales else None
    if how.gather:
        index = rest.pop(0)
        codes = codes[gather_rows(storage.read(index), index.tile.dtype, codes.shape[0])]
    return Operand(codes, data.tile.dtype, slots)


def gather_rows(index: Array, dtype: str, there: int) -> Array:
    """Row numbers from an index tensor with one element a partition; InputError beside the rows that are ``there``."""
    rows = index.reshape(-1)
    if dtype.startswith("int"):
        rows = rows.view(f"i{rows.dtype.itemsize}")
    wrong = (rows < 0) | (rows >= there)
    if wrong.any():
        raise InputError(f"weights_index: expected rows 0 to {there - 1} of the weights, not {rows[wrong.argmax()]}")
    return rows.astype(np.int64)


def _garbage(tile: Tile) -> Operand:
    """A copy of the weights that nobody loaded."""
    record = NEURON_DTYPES[tile.dtype]
    codes = np.full((tile.rows, tile.cols * record.bytes), 0xFF, np.uint8).view(record.numpy)
    return Operand(codes, tile.dtype)


def commit(instruction: Instruction, storage: CoreMemory, payload: Operand | Found) -> None:
    """Weights into their copy; a product into PSUM, after what the flags ask for."""
    tile = instruction.writes[0]
    assert isinstance(tile, Tile)
    if isinstance(payload, Operand):
        storage.weights[tile.offset] = payload
        return
    how = instruction.values
    assert isinstance(how, MatmultValues)
    if how.start:
        storage.clear_psum(*how.partitions, *how.clear)
    if how.transpose:
        storage.write(tile, transposed(payload.weights, payload.ifmap, tile.dtype))
        return
    element = NEURON_DTYPES[tile.dtype].element
    assert element is not None
    bank = _bank(tile, element, storage)
    sums = accumulate(payload, how, bank, keep="bf16" if element == "bf16" else "fp32")
    storage.write(tile, sums.view(np.uint32) if element == "fp32" else nm.encode(sums, element, overflow="ieee"))


def _bank(tile: Tile, element: str, storage: CoreMemory) -> Array:
    """fp32 [P, N] that the product is added to: what PSUM holds where somebody wrote, else 0. Elsewhere it replaces."""
    if tile.space != "psum":
        return np.zeros((tile.rows, tile.cols), np.float32)
    held = nm.decode(storage.read(Part(tile, 0, 0, tile.rows, tile.cols, tile.offset, tile.size)), element)
    rows = slice(tile.partition, tile.partition + tile.rows)
    written = storage.written("psum")[rows, tile.offset : tile.offset + tile.size : NEURON_DTYPES[tile.dtype].bytes]
    return np.where(written, held, np.float32(0))


def accumulate(found: Found, how: MatmultValues, bank: Array, *, keep: Literal["fp32", "bf16"]) -> Array:
    """fp32 [P, N]: ``bank`` plus the product, which is complete before it is added."""
    if how.scaled:
        weights, ifmap = scaled(found.weights, how.lanes), scaled(found.ifmap, how.lanes)
    else:
        weights = doubled(widened(found.weights, how.fp32r_bits), how.mode, weights=True)
        ifmap = doubled(widened(found.ifmap, how.fp32r_bits), how.mode, weights=False)
    if how.sparse_ratio:
        assert found.tags is not None
        return sparse_product(weights, ifmap, found.tags, how.sparse_ratio, bank)
    return nm.matmul(
        np.ascontiguousarray(weights.T),
        ifmap,
        how.order.order,
        acc=np.ascontiguousarray(bank),
        k_tile=max(1, weights.shape[0]),
        group=how.order.group if how.order.order == "group" else None,
        a_zero=how.weights_zero,
        b_zero=how.ifmap_zero,
        accumulate=keep,
    )
