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


class Operand(NamedTuple):
    """An operand as it was found: stored elements [partitions, elements], dtype, scale slots of an MX one."""

    codes: Array
    dtype: str
    slots: Array | None = None


def widened(operand: Operand, mantissa_bits: int = 11) -> Array:
    """fp32 [K, columns] of an operand.

    x4 containers are unpacked, each 8 x 4 block is scaled, and lane l of partition p becomes row 4 p + l. fp32r is
    shortened to ``mantissa_bits`` (nearest even).
    """
    record = NEURON_DTYPES[operand.dtype]
    assert record.element is not None
    if record.lanes == 1:
        wide = nm.decode(operand.codes, record.element)
        return nm.round_fp32r(wide, mantissa_bits) if record.name == "float32r" else wide
    wide = nm.decode(nm.unpack_x4(operand.codes, record.element), record.element)
    if operand.slots is not None:
        scales = nm.scales_from_slots(operand.slots, operand.codes.shape[0] // BLOCK_ROWS)
        wide = nm.dequantize_neuron_mx(wide, scales)
    return np.ascontiguousarray(nm.deinterleave(wide, LANES))


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
