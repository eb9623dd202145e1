"""ml_dtypes as a foreign oracle, with the list of inputs where it does something else than these formats ask."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hwmodel import numerics as nm

NAMES = {
    "bf16": "bfloat16",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e4m3_ieee": "float8_e4m3",
    "fp8_e5m2": "float8_e5m2",
    "fp8_e3m4": "float8_e3m4",
    "fp4_e2m1": "float4_e2m1fn",
    "e8m0": "float8_e8m0fnu",
}


def theirs(values: Any, dtype: str) -> Any:
    with np.errstate(all="ignore"):
        return values.astype(getattr(ml_dtypes, NAMES[dtype])).view(nm.FORMATS[dtype].numpy_dtype)


def all_bf16() -> Any:
    return nm.decode(np.arange(65536), "bf16")


def random_fp32() -> Any:
    return np.random.default_rng(8).integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("inputs", [all_bf16, random_fp32])
def test_finite_and_overflowing_inputs_agree(dtype: str, inputs: Any) -> None:
    x = inputs()
    usable = ~np.isnan(x)
    if dtype == "e8m0":
        usable &= x >= 2.0**-126  # below, theirs rounds everything past 2^-127 up, and zero is NaN: see below
    x = x[usable]
    ours = nm.encode(x, dtype, "ieee")
    known = np.zeros(x.shape, bool)
    if dtype == "fp8_e4m3":
        known = (ours == 0x7F) & (x < 0)  # an overflowed negative: theirs keeps the sign of NaN, see below
    assert (ours == theirs(x, dtype))[~known].all()


DIFFERENCES = [
    # dtype, input, ours, theirs, why
    ("fp4_e2m1", np.nan, 0x0, 0x8, "no NaN: ours is code 0, theirs the negative zero"),
    ("fp4_e2m1", -np.nan, 0x0, 0x0, "the same code here"),
    ("fp8_e4m3", -np.nan, 0x7F, 0xFF, "one canonical NaN against a kept sign"),
    ("fp8_e4m3", -1000.0, 0x7F, 0xFF, "overflow without infinity: the same"),
    ("fp8_e4m3_ieee", -np.nan, 0x7C, 0xFC, "the same"),
    ("fp8_e5m2", -np.nan, 0x7E, 0xFE, "the same"),
    ("fp8_e3m4", -np.nan, 0x78, 0xF8, "the same"),
    ("bf16", -np.nan, 0x7FC0, 0xFFC0, "the same"),
    ("e8m0", 0.0, 0x00, 0xFF, "below the range ours clamps, theirs is NaN"),
    ("e8m0", 1.25 * 2.0**-127, 0x00, 0x01, "nearest is 2^-127; theirs goes up from any fp32 subnormal past it"),
]


@pytest.mark.parametrize(("dtype", "value", "ours", "other", "why"), DIFFERENCES)
def test_where_ml_dtypes_differs(dtype: str, value: float, ours: int, other: int, why: str) -> None:
    x = np.float32([value])
    assert nm.encode(x, dtype, "ieee")[0] == ours, why
    assert theirs(x, dtype)[0] == other, f"ml_dtypes changed: {why}"


ROUNDED_TWICE = [
    # dtype, a midpoint of two codes and a little more or (e8m0, where ties go up) less, ours, theirs
    ("bf16", 1 + 2.0**-8 + 2.0**-40, 0x3F81, 0x3F80),
    ("fp8_e4m3", 1 + 2.0**-4 + 2.0**-40, 0x39, 0x38),
    ("fp8_e4m3_ieee", 1 + 2.0**-4 + 2.0**-40, 0x39, 0x38),
    ("fp8_e5m2", 1 + 2.0**-3 + 2.0**-40, 0x3D, 0x3C),
    ("fp8_e3m4", 1 + 2.0**-5 + 2.0**-40, 0x31, 0x30),
    ("fp4_e2m1", 1.25 + 2.0**-40, 0x3, 0x2),
    ("e8m0", 1.5 - 2.0**-40, 127, 128),
]


@pytest.mark.parametrize(("dtype", "value", "ours", "other"), ROUNDED_TWICE)
def test_ml_dtypes_rounds_float64_twice(dtype: str, value: float, ours: int, other: int) -> None:
    x = np.float64([value])
    assert nm.encode(x, dtype, "ieee")[0] == ours
    assert theirs(x, dtype)[0] == other, "ml_dtypes changed: it went through fp32"
