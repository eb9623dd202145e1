"""fp32 operands of a matmul from what lies in SBUF: everything is widened before any arithmetic."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hwmodel import numerics as nm
from hwmodel.program.neuron_dtypes import LANES, NEURON_DTYPES
from hwmodel.units.storage import Array

DOUBLE_PIXEL, DOUBLE_ROW = 1, 4
"""Performance modes that double K (numbers and names of the requirement; public lists number them otherwise)."""
BLOCK_ROWS = 8
"""Partitions that share a row of MX scales."""


class Operand(NamedTuple):
    """An operand as it was found: stored elements [partitions, elements], dtype, scale slots of an MX one."""

    codes: Array
    dtype: str
    slots: Array | None = None


def widened(operand: Operand, mantissa_bits: int | None = None, lanes: tuple[int, int] | None = None) -> Array:
    """fp32 [partitions, elements]; x4 containers are unpacked, four elements next to each other.

    ``mantissa_bits``: float32r operands are shortened to so many (nearest even). ``lanes`` is the order of lanes in a
    container (stride, parity).
    """
    record = NEURON_DTYPES[operand.dtype]
    assert record.element is not None
    codes = operand.codes
    if record.lanes > 1:
        codes = nm.unpack_x4(codes, record.element, None if lanes is None else nm.lane_remap(*lanes))
    wide = nm.decode(codes, record.element)
    return wide if mantissa_bits is None else nm.round_fp32r(wide, mantissa_bits)


def scaled(operand: Operand, lanes: tuple[int, int] | None = None) -> Array:
    """fp32 [K, columns] of an MX operand: each 8 x 4 block is scaled, and lane l of partition p is row 4 p + l."""
    wide = widened(operand, lanes=lanes)
    assert operand.slots is not None
    scales = nm.scales_from_slots(operand.slots, operand.codes.shape[0] // BLOCK_ROWS)
    return np.ascontiguousarray(nm.deinterleave(nm.dequantize_neuron_mx(wide, scales), LANES))


def doubled(wide: Array, mode: int, *, weights: bool) -> Array:
    """K doubled by a performance mode: [P, 2F] becomes [2P, F], the halves of a partition as rows 2p and 2p + 1.

    Mode 4 first de-interleaves the weights by 2: column 2c + j goes to half j. The ifmap stays as it lies.
    """
    if mode not in (DOUBLE_PIXEL, DOUBLE_ROW):
        return wide
    rows, cols = wide.shape
    if mode == DOUBLE_ROW and weights:
        return np.ascontiguousarray(nm.deinterleave(wide, 2))
    return np.ascontiguousarray(wide).reshape(2 * rows, cols // 2)
