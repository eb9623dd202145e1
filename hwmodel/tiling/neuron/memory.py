"""Operands of a GEMM as they lie in HBM: K outermost, x4 containers and scale slots for MX ones."""

from __future__ import annotations

import numpy as np

from hwmodel import numerics as nm
from hwmodel.inputs import Operand
from hwmodel.program.neuron_dtypes import LANES, NeuronDtype
from hwmodel.tiling.neuron.geometry import SCALE_ROWS, Geometry
from hwmodel.units.storage import UNWRITTEN, Array


def hbm(geometry: Geometry, operands: dict[str, Operand]) -> dict[str, Array]:
    """Stored elements by tensor: a [K, M] and b [K, N] (rows of K as the dtype stores them), out [M, N]."""
    found: dict[str, Array] = {}
    sides = (("a", operands["a"], geometry.lhs), ("b", operands["b"], geometry.rhs))
    for name, operand, dtype in sides:
        codes = operand.codes.T if name == "a" else operand.codes
        if dtype.lanes == 1:
            found[name] = np.ascontiguousarray(codes)
            continue
        found[name] = containers(codes, dtype, geometry.rows)
        assert isinstance(operand.scales, nm.MxScales)
        scales = operand.scales.e8m0.T if name == "a" else operand.scales.e8m0
        found[f"{name}_scale"] = slots(scales, geometry)
    problem = geometry.problem
    out = np.empty((problem.m, problem.n), nm.DTYPES[problem.out].numpy_dtype)
    out.view(np.uint8)[...] = UNWRITTEN
    found["out"] = out
    return found


def containers(codes: Array, dtype: NeuronDtype, rows: int) -> Array:
    """x4 containers [rows, columns] of codes [K, columns]: partition p holds k = 4p .. 4p + 3, zeros after the end."""
    assert dtype.element is not None
    k, cols = codes.shape
    padded = np.zeros((rows * LANES, cols), np.uint8)
    padded[:k] = codes
    lanes = padded.reshape(rows, LANES, cols).transpose(0, 2, 1).reshape(rows, cols * LANES)
    return nm.pack_x4(np.ascontiguousarray(lanes), dtype.element)


def slots(scales: Array, geometry: Geometry) -> Array:
    """Scale bytes [rows, columns] in the slots of each instruction's partitions; ``scales`` [K / 32, columns].

    A block of 8 partitions x 4 lanes is a run of 32 k, so a row of scales serves 8 partitions.
    """
    out = np.zeros((geometry.rows, scales.shape[1]), np.uint8)
    run = SCALE_ROWS * LANES
    for k in geometry.k:
        partitions = geometry.partitions(k)
        rows = np.zeros((partitions // SCALE_ROWS, scales.shape[1]), np.uint8)
        own = scales[k.start // run : -(-(k.start + k.size) // run)]
        rows[: own.shape[0]] = own
        first = geometry.row(k)
        out[first : first + partitions] = nm.scales_to_slots(rows, partitions=partitions)
    return out
