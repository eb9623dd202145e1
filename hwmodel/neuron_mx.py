"""MX operands as a NeuronCore holds them: k = 4 x partition + lane, so a block of 8 x 4 is a run of 32 k.

Logical matrices have K along axis 0 here: codes [K, columns], scales [K / 32, columns]. An instruction contracts up to
128 partitions of four lanes; the last one of a K that does not fill it is padded to a legal number of partitions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hwmodel import numerics as nm
from hwmodel.quantities import ceil_div, round_up

Array = np.ndarray[Any, Any]
LANES = 4
BLOCK_ROWS = 8
RUN = BLOCK_ROWS * LANES
PARTITIONS = (32, 64, 128)
"""Partitions that an MX matmul may use (hardware facts 3)."""


class Chunk(NamedTuple):
    """K of one instruction: its first k, how many there are, and the partitions it takes from ``row`` on."""

    start: int
    size: int
    row: int
    partitions: int


def chunks(k: int) -> list[Chunk]:
    """Instructions along K."""
    depth = PARTITIONS[-1] * LANES
    found = []
    for start in range(0, k, depth):
        size = min(depth, k - start)
        used = ceil_div(size, LANES)
        found.append(Chunk(start, size, start // LANES, next(legal for legal in PARTITIONS if legal >= used)))
    return found


def rows_of(k: int) -> int:
    """Rows of K in HBM, padding included."""
    last = chunks(k)[-1]
    return last.row + last.partitions


def as_lanes(matrix: Array, rows: int) -> Array:
    """[rows, 4 x columns] with lane l of row p of each column next to each other; zeros behind the end of K."""
    k, cols = matrix.shape
    padded = np.zeros((rows * LANES, cols), matrix.dtype)
    padded[:k] = matrix
    return np.ascontiguousarray(padded.reshape(rows, LANES, cols).transpose(0, 2, 1)).reshape(rows, cols * LANES)


def from_lanes(lanes: Array, k: int) -> Array:
    """[K, columns]. Undoes `as_lanes`."""
    rows, wide = lanes.shape
    return lanes.reshape(rows, wide // LANES, LANES).transpose(0, 2, 1).reshape(rows * LANES, wide // LANES)[:k]


def quantize(values: Array, dtype: str, rule: str) -> tuple[Array, Array]:
    """Codes [K, columns] and scales [ceil(K / 32), columns] of fp32 ``values`` [K, columns], in 8 x 4 blocks."""
    k = values.shape[0]
    tensor = nm.quantize_neuron_mx(as_lanes(values, round_up(k, RUN) // LANES), dtype, rule=rule)
    assert isinstance(tensor.scales, nm.MxScales)
    return np.ascontiguousarray(from_lanes(tensor.codes, k)), tensor.scales.e8m0


def decoded(codes: Array, scales: Array, dtype: str) -> Array:
    """fp32 [K, columns]: ldexp of the decoded element by its scale byte - 127."""
    k = codes.shape[0]
    wide = nm.decode(codes, nm.DTYPES[dtype].element)
    lanes = as_lanes(wide, round_up(k, RUN) // LANES)
    return np.ascontiguousarray(from_lanes(nm.dequantize_neuron_mx(lanes, scales), k))


def containers(codes: Array, dtype: str) -> Array:
    """x4 containers [rows, columns] of codes [K, columns]."""
    return nm.pack_x4(as_lanes(codes, rows_of(codes.shape[0])), nm.DTYPES[dtype].element)


def slots(scales: Array, k: int) -> Array:
    """Bytes [rows, columns] with scale row i of each instruction in slot (i & 3) + 32 (i >> 2); zeros elsewhere."""
    out = np.zeros((rows_of(k), scales.shape[1]), np.uint8)
    for chunk in chunks(k):
        table = np.zeros((chunk.partitions // BLOCK_ROWS, scales.shape[1]), np.uint8)
        own = scales[chunk.start // RUN : ceil_div(chunk.start + chunk.size, RUN)]
        table[: own.shape[0]] = own
        out[chunk.row : chunk.row + chunk.partitions] = nm.scales_to_slots(table, partitions=chunk.partitions)
    return out


def partition_slots(scales: Array) -> Array:
    """Bytes [partitions, columns] of scales [partitions / 8, columns], 128 partitions at a time; zeros elsewhere."""
    rows = BLOCK_ROWS * scales.shape[0]
    most = PARTITIONS[-1]
    out = np.zeros((rows, scales.shape[1]), np.uint8)
    for first in range(0, rows, most):
        own = scales[first // BLOCK_ROWS : (first + most) // BLOCK_ROWS]
        out[first : first + most] = nm.scales_to_slots(own, partitions=most)[: rows - first]
    return out


def scales_of(found: Array, k: int) -> Array:
    """Scales [ceil(K / 32), columns] from slots [rows, columns]. Undoes `slots`."""
    parts = []
    for chunk in chunks(k):
        own = found[chunk.row : chunk.row + chunk.partitions]
        parts.append(nm.scales_from_slots(own, chunk.partitions // BLOCK_ROWS)[: ceil_div(chunk.size, RUN)])
    return np.concatenate(parts)
