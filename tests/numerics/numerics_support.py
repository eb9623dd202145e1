"""Helpers of the numerics tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwmodel.numerics.reference import codec

NARROW = (
    "fp8_e4m3", "fp8_e4m3_ieee", "fp8_e5m2", "fp8_e3m4", "hif8", "fp4_e2m1", "fp4_e1m2",
    "e8m0", "e6m2", "int8", "uint8", "int4",
)  # fmt: skip
FLOATS = NARROW[:9]


def bits(values: Any) -> Any:
    """fp32 patterns, so that equality is equality of bits."""
    return np.array(values, np.float32, order="C").view(np.uint32)


def same(left: Any, right: Any) -> bool:
    """True when two fp32 arrays hold the same bits, shape included."""
    return np.shape(left) == np.shape(right) and bool((bits(left) == bits(right)).all())


def values_of(row: Any) -> list[codec.Value]:
    """Exact values of fp32 numbers."""
    return [codec.from_float(float(each)) for each in row]


def fp32(pattern: int) -> np.float32:
    """The fp32 number with this bit pattern."""
    return np.uint32(pattern).view(np.float32)


def awkward_blocks(count: int, length: int, seed: int, *, specials: bool = True) -> Any:
    """Rows of fp32 whose elements and rows spread over many binades, with zeros of both signs and, rarely, specials."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, length)) * 2.0 ** rng.integers(-4, 4, (count, length))
    rows[::5] *= 2.0 ** rng.integers(-145, 122, (len(rows[::5]), 1))
    rows[::7, 3], rows[::11, 5] = 0.0, -0.0
    rows[1 % count] = 0.0
    if specials:
        rows[2 % count, 4], rows[3 % count, 7], rows[4 % count, 1] = np.inf, np.nan, -np.inf
    with np.errstate(all="ignore"):
        return rows.astype(np.float32)
