"""Look-up tables made from the format records: decoded values, and codes for every 16-bit or shortened fp32 input."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodel.numerics.formats import ElementFormat, element_format
from hwmodel.numerics.rounding import CANONICAL_NAN, F32

Codes = NDArray[Any]


def _hif8_values() -> NDArray[np.float64]:
    codes = np.arange(256)
    low = codes & 0x7F
    sign = np.where(codes & 0x80, -1.0, 1.0)
    value = np.ldexp(1.0, (low & 7) - 23)  # denormal: mantissa field counts binades
    value[low == 0] = 0.0
    for start, exponent_bits, mantissa_bits in (
        (0x08, 0, 3),
        (0x10, 1, 3),
        (0x20, 2, 3),
        (0x40, 3, 2),
        (0x60, 4, 1),
    ):
        here = (low >= start) & (low < (0x80 if start == 0x60 else 2 * start))
        field = low >> mantissa_bits & ((1 << exponent_bits) - 1)
        exponent = np.zeros_like(low)
        if exponent_bits:
            top = 1 << (exponent_bits - 1)
            exponent = np.where(field & top, -1, 1) * (top | field & (top - 1))
        mantissa = 1 + (low & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
        value = np.where(here, np.ldexp(mantissa, exponent), value)
    value[low == 0x6F] = np.inf
    out: NDArray[np.float64] = value * sign
    out[0x80] = np.nan
    return out


def _binary_values(record: ElementFormat) -> NDArray[np.float64]:
    codes = np.arange(record.code_count)
    low = codes & ~record.sign_bit
    field = low >> record.mantissa_bits
    mantissa = low & ((1 << record.mantissa_bits) - 1)
    hidden = 1 << record.mantissa_bits
    subnormal = (field == 0) & record.subnormals
    significand = np.where(subnormal, mantissa, mantissa + hidden).astype(np.float64)
    exponent = np.where(subnormal, 1, field) - record.bias - record.mantissa_bits
    value = np.ldexp(significand, exponent)
    if record.ieee_specials:
        value[low == record.inf_code] = np.inf
        value[low > (record.inf_code or 0)] = np.nan
    elif record.nan_code is not None:
        value[low == record.nan_code] = np.nan
    out: NDArray[np.float64] = np.where(codes & record.sign_bit, -value, value)
    return out


def exact_values(record: ElementFormat) -> NDArray[np.float64]:
    """Exact value of every code of a format up to 16 bits; shape [code_count]."""
    if record.layout == "hif8":
        return _hif8_values()
    if record.layout == "integer":
        codes = np.arange(record.code_count)
        return np.where(codes & record.sign_bit, codes - record.code_count, codes).astype(np.float64)
    return _binary_values(record)


@cache
def decode_table(dtype: str) -> F32:
    """fp32 value of every code of a format up to 16 bits; NaN codes give the canonical NaN. Read-only."""
    table = exact_values(element_format(dtype)).astype(np.float32)
    table[np.isnan(table)] = CANONICAL_NAN
    table.flags.writeable = False
    return table


def nearest_codes(values: NDArray[np.float64], record: ElementFormat, overflow: str, nan: str) -> Codes:
    """Codes of an 8-bit or narrower float format for exact values whose products with 4 are representable.

    A value is compared with the midpoints between neighbouring grid points; a tie follows ``record.ties``.
    """
    exact = exact_values(record)
    half = exact[: record.sign_bit or record.code_count]
    codes = np.flatnonzero(np.isfinite(half))
    codes = codes[np.argsort(half[codes])]
    grid = half[codes]
    mantissa_bits = 1 if record.layout == "hif8" else record.mantissa_bits
    beyond = grid[-1] + np.ldexp(1.0, int(np.floor(np.log2(grid[-1]))) - mantissa_bits)
    midpoints = (grid + np.append(grid[1:], beyond)) / 2
    special: int | None = record.max_code
    if overflow == "ieee" and not record.saturates_always:
        special = record.nan_code if record.inf_code is None else record.inf_code
    by_rank = np.append(codes, np.int64(special or 0))
    magnitude = np.abs(values)
    low = np.searchsorted(midpoints, magnitude, side="left")
    high = np.searchsorted(midpoints, magnitude, side="right")
    to_high = (low != high) & (
        np.full(low.shape, True) if record.ties == "away" or record.mantissa_bits == 0 else by_rank[low] % 2 == 1
    )
    out = np.where(to_high, by_rank[high], by_rank[low])
    negative = np.signbit(values)
    if record.signed:
        keeps_sign = (out != record.nan_code) & ((record.layout != "hif8") | (out != 0))
        out = np.where(negative & keeps_sign, out | record.sign_bit, out)
    else:
        out = np.where(negative & (magnitude > 0), np.int64(record.nan_code or 0), out)
    not_a_number = np.isnan(values)
    if nan == "max":
        out[not_a_number] = np.where(negative, record.max_code | record.sign_bit, record.max_code)[not_a_number]
    else:
        out[not_a_number] = record.nan_code or 0
    return out.astype(record.numpy_dtype)


@cache
def short_fp32_table(dtype: str, overflow: str, nan: str) -> Codes:
    """Codes for every fp32 value shortened to sign, exponent, 7 mantissa bits and a sticky bit; shape [2^17].

    Entry i stands for the fp32 pattern i << 15: an even i for that very value, an odd one for everything strictly
    between its neighbours. No midpoint of a format with at most 6 significant bits (int8's 8 included) lies strictly
    between two even entries, so the one rounding made here is the right one for all of them.
    """
    patterns = np.arange(1 << 17, dtype=np.uint32) << np.uint32(15)
    table = nearest_codes(_pattern_values(patterns), element_format(dtype), overflow, nan)
    table.flags.writeable = False
    return table


def _pattern_values(bits: NDArray[np.uint32]) -> NDArray[np.float64]:
    """float64 values of fp32 patterns, signalling NaN patterns included (numpy would warn about them)."""
    with np.errstate(invalid="ignore"):
        return bits.view(np.float32).astype(np.float64)


@cache
def half_table(source: str, dtype: str, overflow: str, nan: str) -> Codes:
    """Code in ``dtype`` (8 bits or fewer) of every code of a format up to 16 bits; shape [2^bits of the source]."""
    patterns = np.arange(65536, dtype=np.uint32) << np.uint32(16)
    values = _pattern_values(patterns) if source == "bf16" else exact_values(element_format(source))
    record = element_format(dtype)
    if record.layout == "integer":
        table = integer_codes(values, record)
    else:
        table = nearest_codes(values, record, overflow, nan)
    table.flags.writeable = False
    return table


def integer_codes(values: NDArray[Any], record: ElementFormat) -> Codes:
    """Codes of an integer format: half-even, saturated, NaN to 0. ``values`` are fp32 or float64."""
    low, high = (-record.max_code - 1 if record.signed else 0), record.max_code
    with np.errstate(invalid="ignore"):
        whole = np.nan_to_num(np.rint(values), nan=0.0, posinf=float(high), neginf=float(low)).astype(np.float64)
        whole = np.clip(whole, low, high).astype(np.int64)
    codes: Codes = (whole & (record.code_count - 1)).astype(record.numpy_dtype)
    return codes
