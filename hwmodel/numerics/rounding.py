"""Roundings between the wide formats on whole arrays, by bits; inputs are never changed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwmodel.errors import NumericsError
from hwmodel.numerics.checks import whole

F32 = NDArray[np.float32]
Array = NDArray[Any]

CANONICAL_NAN = np.uint32(0x7FC00000).view(np.float32)
CHUNK = 1 << 14
"""Elements that are worked on at a time, so that temporaries stay in cache and small."""


def bf16_bits(x: F32) -> NDArray[np.uint16]:
    """Nearest bf16 code of fp32 values, half-even, overflow to infinity, canonical NaN."""
    bits = x.view(np.uint32)
    rounded = bits >> 16
    rounded &= 1
    rounded += 0x7FFF
    rounded += bits
    rounded >>= 16
    out = rounded.astype(np.uint16)
    nan = np.isnan(x)
    if nan.any():
        out[nan] = 0x7FC0
    return out


def round_bf16(x: ArrayLike) -> F32:
    """Nearest bf16 of ``x``, as fp32; half-even, overflow to infinity. float64 is rounded once. NaN stays NaN."""
    values = _numbers(x)
    fp32 = values if values.dtype == np.float32 else round_to_odd(values)
    codes = bf16_bits(np.ascontiguousarray(fp32).reshape(-1)).astype(np.uint32)
    codes <<= 16
    return codes.view(np.float32).reshape(values.shape)


def _numbers(values: ArrayLike) -> Array:
    """``values`` as native fp32, or as float64 (exact) where they are of another type."""
    array = np.asarray(values)
    if array.dtype == np.float32:
        return array
    if not (np.can_cast(array.dtype, np.float64) or array.dtype.kind in "iub" or array.dtype.name == "bfloat16"):
        raise NumericsError(f"values: expected floating-point numbers, not dtype {array.dtype}")
    return array.astype(np.float64)


def round_to_odd(x: NDArray[np.float64]) -> F32:
    """fp32 below a float64 in magnitude, its last bit set where anything was lost.

    The result keeps enough to round correctly once more to any format with at most 22 significant bits
    (S. Boldo and G. Melquiond, "Emulation of a FMA and correctly rounded sums", 2008). NaN and Inf pass.
    """
    with np.errstate(all="ignore"):
        near = np.asarray(x.astype(np.float32))
        wide = near.astype(np.float64)
        bits = near.view(np.uint32).copy()
        inexact = (wide != x) & ~np.isnan(x)
        bits -= (inexact & (np.abs(wide) > np.abs(x))).astype(np.uint32)
        bits |= inexact.astype(np.uint32)
    return bits.view(np.float32)


def round_fp32r(values: ArrayLike, mantissa_bits: int = 11) -> F32:
    """fp32 of ``values``, rounded half-even to ``mantissa_bits`` explicit mantissa bits (Neuron's fp32r: 11; TF32: 10).

    float64 is rounded once. Overflow becomes infinity, infinities pass, NaN becomes the canonical NaN. Same shape as
    the input.
    """
    drop = 23 - whole("mantissa_bits", mantissa_bits, 0, 23)
    numbers = _numbers(values)
    with np.errstate(all="ignore"):
        exact = numbers if numbers.dtype == np.float32 else _round_mantissa(numbers, mantissa_bits)
        x = np.array(exact, dtype=np.float32, order="C")
    if drop == 0:
        return canonical_nan(x)
    bits = x.view(np.uint32)
    odd = (bits >> np.uint32(drop)) & np.uint32(1)
    rounded = (bits + odd + np.uint32((1 << (drop - 1)) - 1)) & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)
    out = rounded.view(np.float32)
    nan = np.isnan(x)
    if nan.any():
        out[nan] = CANONICAL_NAN
    return out


def _round_mantissa(x: NDArray[np.float64], mantissa_bits: int) -> NDArray[np.float64]:
    """float64 rounded half-even to ``mantissa_bits`` explicit bits, fewer below fp32's smallest normal."""
    exponent = np.maximum(np.frexp(x)[1] - 1, -126)
    rounded: NDArray[np.float64] = np.ldexp(np.rint(np.ldexp(x, mantissa_bits - exponent)), exponent - mantissa_bits)
    return rounded


def canonical_nan(x: F32) -> F32:
    """Replace every NaN of ``x`` by 0x7FC00000, in place, and return ``x`` (for arrays this package made itself)."""
    nan = np.isnan(x)
    if nan.any():
        x[nan] = CANONICAL_NAN
    return x
