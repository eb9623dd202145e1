"""Operands of a GEMM as they lie in HBM: K outermost, x4 containers and scale slots for MX ones."""

from __future__ import annotations

import numpy as np

from hwmodel import neuron_mx
from hwmodel import numerics as nm
from hwmodel.inputs import Operand
from hwmodel.tiling.neuron.geometry import Geometry
from hwmodel.units.storage import UNWRITTEN, Array


def hbm(geometry: Geometry, operands: dict[str, Operand]) -> dict[str, Array]:
    """Stored elements by tensor: a [K, M] and b [K, N] (rows of K as the dtype stores them), out [M, N]."""
    found: dict[str, Array] = {}
    problem = geometry.problem
    for name, operand in operands.items():
        codes = np.ascontiguousarray(operand.codes.T if name == "a" else operand.codes)
        if not geometry.scaled:
            found[name] = codes
            continue
        assert isinstance(operand.scales, nm.MxScales)
        scales = operand.scales.e8m0.T if name == "a" else operand.scales.e8m0
        found[name] = neuron_mx.containers(codes, operand.dtype)
        found[f"{name}_scale"] = neuron_mx.slots(scales, problem.k)
    out = np.empty((problem.m, problem.n), nm.DTYPES[problem.out].numpy_dtype)
    out.view(np.uint8)[...] = UNWRITTEN
    found["out"] = out
    return found
