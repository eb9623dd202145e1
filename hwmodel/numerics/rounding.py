"""Roundings between the wide formats on whole arrays, by bits; inputs are never changed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwmodel.errors import NumericsError

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


def round_bf16(x: F32) -> F32:
    """Nearest bf16 of fp32 values, as fp32; half-even, overflow to infinity. NaN stays NaN."""
    codes = bf16_bits(np.ascontiguousarray(x, dtype=np.float32).reshape(-1)).astype(np.uint32)
    codes <<= 16
    return codes.view(np.float32).reshape(np.shape(x))


def round_bf16_from64(x: NDArray[np.float64]) -> F32:
    """Nearest bf16 of float64 values, rounded once, as fp32."""
    return round_bf16(round_to_odd(x))


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
    """fp32 values rounded half-even to ``mantissa_bits`` explicit mantissa bits (Neuron's fp32r: 11; TF32: 10).

    Overflow becomes infinity, infinities pass, NaN becomes the canonical NaN. Same shape as the input.
    """
    if not 0 <= mantissa_bits <= 23:
        raise NumericsError(f"mantissa_bits: expected 0 to 23, not {mantissa_bits}")
    x = np.array(values, dtype=np.float32, order="C")
    drop = 23 - mantissa_bits
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


def canonical_nan(x: F32) -> F32:
    """Replace every NaN of ``x`` by 0x7FC00000, in place, and return ``x`` (for arrays this package made itself)."""
    nan = np.isnan(x)
    if nan.any():
        x[nan] = CANONICAL_NAN
    return x
