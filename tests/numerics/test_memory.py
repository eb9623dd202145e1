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
    "matmul seq in tiles of k": lambda: nm.matmul(X, X, k_tile=128),
    "matmul seq in tiles of k, sums in bf16": lambda: nm.matmul(X, X, k_tile=128, accumulate="bf16"),
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


BYTES = np.random.default_rng(1).integers(0, 128, (1024, 1024)).astype(np.uint8)
NEURON = nm.quantize_neuron_mx(np.ones((1024, 1024), np.float32), "mxfp8_e4m3")
FP4_X4 = nm.pack_x4(BYTES & 15, "fp4_e2m1")
FP8_X4 = nm.pack_x4(BYTES, "fp8_e4m3")
OF_BYTES: dict[str, Callable[[], Any]] = {
    "convert e4m3 to bf16": lambda: nm.convert(BYTES, "fp8_e4m3", "bf16"),
    "pack x4 fp8": lambda: nm.pack_x4(BYTES, "fp8_e4m3"),
    "pack x4 fp4": lambda: nm.pack_x4(BYTES & 15, "fp4_e2m1"),
    "unpack x4 fp8": lambda: nm.unpack_x4(FP8_X4, "fp8_e4m3"),
    "unpack x4 fp4": lambda: nm.unpack_x4(FP4_X4, "fp4_e2m1"),
}


@pytest.mark.parametrize("name", OF_BYTES)
def test_temporaries_of_byte_codes_stay_below_three_operands(name: str) -> None:
    call = OF_BYTES[name]
    assert peak_bytes(call) - returned(call()) <= 3 * BYTES.nbytes + (1 << 16)


@pytest.mark.parametrize("order", ["f64", "group"])
@pytest.mark.parametrize("dtype", ["hif4", "mxfp8_e4m3"])
def test_products_of_block_tensors_need_both_operands_values_and_a_run_s_sums(
    backend: str, dtype: str, order: Any
) -> None:
    """Three times the fp32 values of one operand; what is held in float64 are pieces (two megabytes together)."""
    wide = np.tile(X, (2, 2))
    a, b = nm.quantize(wide, dtype), nm.quantize(wide, dtype, axis=0)
    extra = peak_bytes(lambda: nm.matmul(a, b, order)) - wide.nbytes
    assert extra <= 3 * wide.nbytes + (1 << 21)


def test_scales_on_the_sum_need_the_elements_and_the_sums_of_a_block(backend: str) -> None:
    peak = peak_bytes(lambda: nm.matmul(HIF4, HIF4_B, "group", scale_on="block"))
    assert peak <= 5 * X.nbytes + (1 << 19)  # two operands, their product by the BLAS, a block's sums, the result


def test_values_of_byte_codes_are_made_once() -> None:
    """Beyond its fp32 result: one array of that size for the elements' values, and for integers parts of K."""
    values = 4 * BYTES.nbytes
    assert peak_bytes(lambda: nm.dequantize(NEURON)) <= 2 * values + values // 2
    assert peak_bytes(lambda: nm.matmul_int(BYTES, BYTES)) <= 3 * values + 2 * values // 4 + (1 << 16)
