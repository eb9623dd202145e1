"""No temporary larger than three times the operand: peak allocation beyond inputs and results."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hwmodel import numerics as nm

X = np.random.default_rng(0).standard_normal((640, 640)).astype(np.float32)


def peak_bytes(call: Callable[[], Any]) -> int:
    """Peak allocation during the call, what it returns included; the second run, so that tables exist."""
    call()
    tracemalloc.start()
    result = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result is not None
    return peak


def returned(thing: Any) -> int:
    if isinstance(thing, nm.BlockTensor):
        return thing.codes.nbytes
    return int(thing.nbytes)


HIF4 = nm.quantize(X, "hif4")
HIF4_B = nm.quantize(X, "hif4", axis=0)
CASES: dict[str, Callable[[], Any]] = {
    "encode e4m3": lambda: nm.encode(X, "fp8_e4m3"),
    "encode bf16": lambda: nm.encode(X, "bf16"),
    "encode int8": lambda: nm.encode(X, "int8"),
    "quantize hif4": lambda: nm.quantize(X, "hif4"),
    "quantize hif4 native": lambda: nm.quantize(X, "hif4", source="native"),
    "quantize hif4 axis 0": lambda: nm.quantize(X, "hif4", axis=0),
    "quantize mx": lambda: nm.quantize(X, "mxfp8_e4m3"),
    "quantize mx axis 0": lambda: nm.quantize(X, "mxfp4_e2m1", axis=0),
    "dequantize": lambda: nm.dequantize(HIF4),
    "round_fp32r": lambda: nm.round_fp32r(X),
    "matmul seq": lambda: nm.matmul(X, X),
    "matmul seq acc": lambda: nm.matmul(X[:, :64], X[:64], acc=X),
    "matmul f64": lambda: nm.matmul(X[:, :64], X[:64], "f64"),
    "matmul group": lambda: nm.matmul(X[:, :64], X[:64], "group", group=64),
    "matmul group hif4": lambda: nm.matmul(HIF4, HIF4_B, "group"),
    "cast_out": lambda: nm.cast_out(X, "int8", scale=2.0),
    "neuron": lambda: nm.quantize_neuron_mx(X, "mxfp8_e4m3"),
}


@pytest.mark.parametrize("name", CASES)
def test_temporaries_stay_below_three_operands(backend: str, name: str) -> None:
    call = CASES[name]
    extra = peak_bytes(call) - returned(call())
    assert extra <= 3 * X.nbytes + (1 << 19)  # half a megabyte for the pieces that do not grow with the operand
