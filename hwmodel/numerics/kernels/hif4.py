"""HiF4 groups of 64: peaks, elements and values, for sources that are bf16 or become bf16 first."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from hwmodel.numerics.kernels.signatures import boolean, compiled, f32, given, made, u8, u16, u32, void

_SIGN_OFF = np.uint32(0x7FFFFFFF)
_INF = np.uint32(0x7F800000)
_HALF = np.uint32(0x7FFF)
_TOP = np.uint32(0xFFFF0000)
_ONE = np.uint32(1)
_SIXTEEN = np.uint32(16)
_LARGEST = np.uint32(0x7F7F0000)


@numba.njit(inline="always")
def _bf16(bits: Any) -> Any:
    """Pattern of the nearest bf16 of a non-negative fp32 pattern that is no NaN, half-even."""
    return (bits + _HALF + ((bits >> _SIXTEEN) & _ONE)) & _TOP


@compiled(void(given(u32, 2), boolean, made(f32, 1)))
def peaks(x: Any, saturate_inf: bool, out: Any) -> None:
    """Largest magnitude of each group ``x`` [n, 64] (fp32 patterns) after rounding to bf16; NaN where there is one."""
    patterns = out.view(np.uint32)
    for g in range(x.shape[0]):
        top = np.uint32(0)
        for q in range(64):
            top = max(top, x[g, q] & _SIGN_OFF)
        if top <= _INF:
            top = _bf16(top)
            if saturate_inf and top == _INF:
                top = _LARGEST
        patterns[g] = top


@compiled(void(given(u32, 2), given(f32, 1), *[boolean] * 5, made(u8, 2), made(u8, 1), made(u16, 1)))
def elements(
    x: Any,
    reciprocals: Any,
    saturate_inf: bool,
    round_thresholds: bool,
    round_product: bool,
    tie_away: bool,
    keep_neg_zero: bool,
    codes: Any,
    eb: Any,
    ec: Any,
) -> None:
    """Codes [n, 64], Eb [n] and Ec [n] of groups ``x`` [n, 64] (fp32 patterns) under given reciprocals of Ea."""
    size = np.empty(64, np.float32)
    size_bits = size.view(np.uint32)
    top4 = np.empty(16, np.float32)
    top4_bits = top4.view(np.uint32)
    top8 = np.empty(8, np.float32)
    top8_bits = top8.view(np.uint32)
    factor = np.empty(64, np.float32)
    four, two, half, one = np.float32(4), np.float32(2), np.float32(0.5), np.float32(1)
    for g in range(x.shape[0]):
        for q in range(64):
            size_bits[q] = _bf16(x[g, q] & _SIGN_OFF)
        if saturate_inf:
            for q in range(64):
                size_bits[q] = min(size_bits[q], _LARGEST)
        rec = reciprocals[g]
        for j in range(16):
            low = max(size_bits[4 * j], size_bits[4 * j + 1])
            top4_bits[j] = max(low, max(size_bits[4 * j + 2], size_bits[4 * j + 3]))
        for i in range(8):
            top8_bits[i] = max(top4_bits[2 * i], top4_bits[2 * i + 1])
        for i in range(8):
            top8[i] = top8[i] * rec
        for j in range(16):
            top4[j] = top4[j] * rec
        if round_thresholds:
            for i in range(8):
                top8_bits[i] = _bf16(top8_bits[i])
            for j in range(16):
                top4_bits[j] = _bf16(top4_bits[j])
        bits8, bits16 = 0, 0
        for i in range(8):
            if top8[i] >= four:
                bits8 |= 1 << i
        for j in range(16):
            doubled = bits8 >> (j >> 1) & 1
            scale = rec * half if doubled else rec
            if top4[j] >= (four if doubled else two):
                bits16 |= 1 << j
                scale = scale * half
            for q in range(4):
                factor[4 * j + q] = scale
        eb[g] = bits8
        ec[g] = bits16
        for q in range(64):
            size[q] = size[q] * factor[q]
        if round_product:
            for q in range(64):
                size_bits[q] = _bf16(size_bits[q])
        if tie_away:
            for q in range(64):
                size[q] = np.floor(min(size[q], two) * four + half)
        else:
            for q in range(64):
                # 2^23 + y has the nearest integer, half-even, in its last bits
                size[q] = (min(size[q], two) * four + np.float32(8388608.0)) - np.float32(8388608.0)
        for q in range(64):
            sign = np.uint32(x[g, q] >> np.uint32(31))
            if not keep_neg_zero and _bf16(x[g, q] & _SIGN_OFF) == np.uint32(0):
                sign = np.uint32(0)
            codes[g, q] = np.uint8(min(size[q], np.float32(7)) * one) | np.uint8(sign << np.uint32(3))


@compiled(void(given(u8, 2), given(u8, 1), given(u8, 1), given(u16, 1), given(f32, 1), made(f32, 2)))
def values(codes: Any, ea: Any, eb: Any, ec: Any, scales: Any, out: Any) -> None:
    """fp32 values [n, 64] of groups; ``scales`` [256] is the value of every Ea."""
    for g in range(codes.shape[0]):
        quarter = scales[ea[g]] * np.float32(0.25)
        eb_bits, ec_bits = np.uint32(eb[g]), np.uint32(ec[g])
        for q in range(64):
            doublings = (eb_bits >> np.uint32(q >> 3) & _ONE) + (ec_bits >> np.uint32(q >> 2) & _ONE)
            code = np.int32(codes[g, q])
            out[g, q] = np.float32((code & 7) << doublings) * np.float32(1 - ((code >> 2) & 2)) * quarter
