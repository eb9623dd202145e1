"""What the Vector and Scalar engines do to values: moves with a cast, MX quantisation, the accumulator."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hwmodel import numerics as nm
from hwmodel.numerics.rounding import canonical_nan
from hwmodel.program.instructions import Cast, Instruction
from hwmodel.program.memory import Part, Tile
from hwmodel.program.neuron_dtypes import NEURON_DTYPES
from hwmodel.units.neuron.operands import BLOCK_ROWS
from hwmodel.units.neuron.storage import CoreMemory
from hwmodel.units.storage import Array

Found = list[tuple[Array, str]]
"""Operands as stored, with their dtypes."""


class MoveValues(NamedTuple):
    """Copy or add: the operands are summed in fp32, in order, and cast once. ``cast`` None: the bits as they are."""

    cast: Cast | None = None


class QuantiseValues(NamedTuple):
    """QuantizeMx: rule of the scales, what becomes of a NaN, order of lanes (stride, parity)."""

    rule: str = "neuron"
    nan_suppress: bool = False
    lanes: tuple[int, int] | None = None


class AccumulateValues(NamedTuple):
    """A command of the accumulator: the number it begins with (None: the first element), and whether it reduces.

    ``continues``: it goes on from what the accumulator holds, which is the last operand.
    """

    alu_op: str = "add"
    begin: float | None = None
    reduces: bool = True
    continues: bool = False


def capture(instruction: Instruction, storage: CoreMemory) -> Found:
    """Operands, as they lie when the instruction starts."""
    return [(storage.read(part), part.tile.dtype) for part in instruction.reads if isinstance(part, Part)]


def commit(instruction: Instruction, storage: CoreMemory, payload: Found) -> None:
    """Write what comes of the operands."""
    how = instruction.values
    tile = instruction.writes[0]
    assert isinstance(tile, Tile)
    if isinstance(how, QuantiseValues):
        scales = instruction.writes[1]
        assert isinstance(scales, Tile)
        data, slots = quantised(payload[0], how, tile.dtype, storage.read(_all(scales)))
        storage.write(tile, data)
        storage.write(scales, slots)
    elif isinstance(how, AccumulateValues):
        storage.write(tile, reduced(payload, how, tile.rows))
    else:
        assert isinstance(how, MoveValues)
        storage.write(tile, moved(payload, how))


def _all(tile: Tile) -> Part:
    return Part(tile, 0, 0, tile.rows, tile.cols, tile.offset, tile.size)


def moved(operands: Found, how: MoveValues) -> Array:
    """Stored elements of the sum of all operands."""
    if len(operands) == 1 and how.cast is None:
        return operands[0][0]
    total = _wide(*operands[0])
    for codes, dtype in operands[1:]:
        with np.errstate(all="ignore"):
            total = canonical_nan(total + _wide(codes, dtype))
    if how.cast is None:
        return total.view(np.uint32)
    return nm.cast_out(total, how.cast.dtype, how.cast.relu, how.cast.saturate)


def _wide(codes: Array, dtype: str) -> Array:
    """fp32 values. The sign of a NaN counts where one is quantised, and decoding gives that of fp16 none."""
    element = NEURON_DTYPES[dtype].element
    assert element is not None
    wide = nm.decode(codes, element)
    return np.copysign(wide, codes.view(np.int16)) if element == "fp16" else wide


def quantised(source: tuple[Array, str], how: QuantiseValues, dtype: str, slots: Array) -> tuple[Array, Array]:
    """Stored data, and the scale slots with the rows that are written; the other slots stay as they are."""
    record = NEURON_DTYPES[dtype]
    assert record.element is not None
    tensor = nm.quantize_neuron_mx(_wide(*source), record.element, rule=how.rule, nan_suppress=how.nan_suppress)
    assert isinstance(tensor.scales, nm.MxScales)
    filled = nm.scales_to_slots(tensor.scales.e8m0, into=slots, partitions=slots.shape[0])
    if record.lanes == 1:
        return tensor.codes, filled
    order = None if how.lanes is None else nm.lane_remap(*how.lanes)
    return nm.pack_x4(tensor.codes, record.element, order), filled


def reduced(operands: Found, how: AccumulateValues, rows: int) -> Array:
    """Bits [rows, 1] of the accumulator: element after element, each step rounded to fp32."""
    if how.continues:
        total = operands[-1][0].view(np.float32).copy()
    elif how.begin is not None:
        total = np.full((rows, 1), how.begin, np.float32)
    else:
        total = np.zeros((rows, 0), np.float32)
    if how.reduces:
        wide = _wide(*operands[0])
        for column in range(wide.shape[1]):
            one = wide[:, column : column + 1]
            total = one.copy() if total.shape[1] == 0 else _alu(how.alu_op, total, one)
    return np.ascontiguousarray(total).view(np.uint32)


def _alu(op: str, a: Array, b: Array) -> Array:
    functions: dict[str, Any] = {"add": np.add, "mult": np.multiply, "max": np.maximum, "min": np.minimum}
    with np.errstate(all="ignore"):
        return canonical_nan(functions[op](a, b))


__all__ = ["BLOCK_ROWS", "AccumulateValues", "MoveValues", "QuantiseValues", "capture", "commit", "moved"]
