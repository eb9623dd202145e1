"""Decode and encode one number in exact fractions."""

from __future__ import annotations

import struct
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from hwmodel.numerics.formats import ElementFormat, element_format


@dataclass(frozen=True, slots=True)
class Value:
    """One exact number: a finite magnitude with a sign (so that -0 exists), an infinity, or NaN."""

    negative: bool
    magnitude: Fraction | None = None
    is_inf: bool = False

    @property
    def is_nan(self) -> bool:
        """True for NaN."""
        return self.magnitude is None and not self.is_inf

    @property
    def exact(self) -> Fraction:
        """The signed fraction of a finite value."""
        assert self.magnitude is not None
        return -self.magnitude if self.negative else self.magnitude


NAN = Value(False)


def finite(number: Fraction | int, negative_zero: bool = False) -> Value:
    """Wrap a fraction; ``negative_zero`` gives zero the minus sign."""
    number = Fraction(number)
    return Value(number < 0 or (number == 0 and negative_zero), abs(number))


def from_float(number: float) -> Value:
    """Exact value of a Python float (binary64), its sign kept for zero and infinity."""
    if number != number:
        return Value(struct.pack(">d", number)[0] >= 0x80)
    negative = struct.pack(">d", number)[0] >= 0x80
    if number in (float("inf"), float("-inf")):
        return Value(negative, None, True)
    return Value(negative, abs(Fraction(number)))


def pow2(exponent: int) -> Fraction:
    """2^exponent, exact."""
    return Fraction(2) ** exponent


def _decode_hif8(code: int) -> Value:
    """HiF8: sign, prefix that says how many exponent bits follow, sign-magnitude exponent with a hidden one."""
    negative, low = bool(code & 0x80), code & 0x7F
    bits = f"{low:07b}"
    for prefix, exponent_bits in (("11", 4), ("10", 3), ("01", 2), ("001", 1), ("0001", 0)):
        if bits.startswith(prefix):
            rest = bits[len(prefix) :]
            field, mantissa = rest[:exponent_bits], rest[exponent_bits:]
            exponent = 0
            if exponent_bits:
                exponent = int("1" + field[1:], 2) * (-1 if field[0] == "1" else 1)
            if exponent == 15 and mantissa == "1":
                return Value(negative, None, True)
            return Value(negative, (1 + Fraction(int(mantissa, 2), 1 << len(mantissa))) * pow2(exponent))
    mantissa_field = int(bits[4:], 2)
    if mantissa_field == 0:
        return NAN if negative else Value(False, Fraction(0))
    return Value(negative, pow2(mantissa_field - 23))


def decode(code: int, dtype: str) -> Value:
    """Exact value of one code."""
    record = element_format(dtype)
    if record.layout == "hif8":
        return _decode_hif8(code)
    if record.layout == "integer":
        return finite(code - (1 << record.bits) if code & record.sign_bit else code)
    negative = bool(code & record.sign_bit)
    magnitude_code = code & ~record.sign_bit
    exponent = magnitude_code >> record.mantissa_bits
    mantissa = magnitude_code & ((1 << record.mantissa_bits) - 1)
    if record.ieee_specials and exponent == (1 << record.exponent_bits) - 1:
        return Value(negative) if mantissa else Value(negative, None, True)
    if not record.ieee_specials and record.nan_code == magnitude_code:
        return Value(negative)
    if exponent == 0 and record.subnormals:
        return Value(negative, mantissa * pow2(1 - record.bias - record.mantissa_bits))
    return Value(
        negative,
        ((1 << record.mantissa_bits) + mantissa) * pow2(exponent - record.bias - record.mantissa_bits),
    )


@cache
def _positive_grid(dtype: str) -> tuple[tuple[Fraction, ...], tuple[int, ...], Fraction]:
    """Finite magnitudes of a format up to 16 bits, ascending, their codes, and the next one an unbounded format had."""
    record = element_format(dtype)
    pairs = []
    for code in range(1 << (record.bits - 1 if record.signed else record.bits)):
        value = decode(code, dtype)
        if value.magnitude is not None:
            pairs.append((value.magnitude, code))
    pairs.sort()
    grid = tuple(p[0] for p in pairs)
    # One step of the maximum's own binade further is where the first value past the maximum would be.
    mantissa_bits = 1 if record.layout == "hif8" else record.mantissa_bits
    beyond = grid[-1] + pow2(floor_log2(grid[-1]) - mantissa_bits)
    return grid, tuple(p[1] for p in pairs), beyond


def floor_log2(number: Fraction) -> int:
    """Largest e with 2^e <= number, for a positive number."""
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    return exponent if pow2(exponent) <= number else exponent - 1


def round_half_even(number: Fraction) -> int:
    """Nearest integer, ties to even (Python's own rounding of fractions)."""
    return round(number)


def _nearest_wide(magnitude: Fraction, record: ElementFormat) -> int:
    """Magnitude code in fp16, bf16 or fp32 with an unbounded exponent range upward, half-even."""
    exponent = max(floor_log2(magnitude), 1 - record.bias) if magnitude else 1 - record.bias
    units = round_half_even(magnitude / pow2(exponent - record.mantissa_bits))
    # units carries the hidden one; adding it to the exponent field lets a carry move on by itself.
    return ((exponent + record.bias - 1) << record.mantissa_bits) + units


def _nearest_grid(magnitude: Fraction, dtype: str, record: ElementFormat) -> int | None:
    """Code of the nearest grid point, None when it is past the maximum."""
    grid, codes, beyond = _positive_grid(dtype)
    at = bisect_left(grid, magnitude)
    if at < len(grid) and grid[at] == magnitude:
        return codes[at]
    if at == 0:
        return codes[0]
    low, high = grid[at - 1], grid[at] if at < len(grid) else beyond
    if magnitude >= high:
        return None
    high_code = codes[at] if at < len(grid) else None
    down, up = magnitude - low, high - magnitude
    if down != up:
        return codes[at - 1] if down < up else high_code
    # IEEE 754: where neither neighbour is even (one-digit precision), the larger one.
    if record.ties == "away" or record.mantissa_bits == 0:
        return high_code
    return codes[at - 1] if codes[at - 1] % 2 == 0 else high_code


def encode(value: Value, dtype: str, overflow: str = "saturate", nan: str = "keep") -> int:
    """Nearest code of one exact value; the rules are those of ``hwmodel.numerics.encode``."""
    record = element_format(dtype)
    if record.layout == "integer":
        return _encode_integer(value, record)
    sign = record.sign_bit if value.negative else 0
    if value.is_nan:
        if nan == "max":
            return record.max_code | sign
        return 0 if record.nan_code is None else record.nan_code
    if not record.signed and value.negative and value.magnitude != 0:
        assert record.nan_code is not None
        return record.nan_code
    code: int | None = None
    if value.magnitude is not None:
        if record.bits > 8:
            code = _nearest_wide(value.magnitude, record)
            code = None if code > record.max_code else code
        else:
            code = _nearest_grid(value.magnitude, dtype, record)
    if code is None:
        if overflow == "saturate" or record.saturates_always:
            return record.max_code | sign
        if record.inf_code is not None:
            return record.inf_code | sign
        assert record.nan_code is not None
        return record.nan_code
    if record.layout == "hif8" and code == 0:
        return 0  # one zero only; 0x80 is NaN
    return code | sign


def _encode_integer(value: Value, record: ElementFormat) -> int:
    low, high = (-record.max_code - 1 if record.signed else 0), record.max_code
    if value.is_nan:
        return 0
    edge = low if value.negative else high
    number = edge if value.is_inf else min(max(round_half_even(value.exact), low), high)
    return number & ((1 << record.bits) - 1)


def to_float32_bits(value: Value) -> int:
    """fp32 bits of a value, rounded half-even, infinities kept, the canonical NaN."""
    return encode(value, "fp32", overflow="ieee")


def bf16_round(value: Fraction) -> Fraction:
    """Nearest bf16, half-even, with an unbounded exponent upward."""
    code = _nearest_wide(abs(value), element_format("bf16"))
    record = element_format("bf16")
    exponent, mantissa = code >> 7, code & 0x7F
    magnitude = (mantissa if exponent == 0 else 128 + mantissa) * pow2(max(exponent, 1) - record.bias - 7)
    return -magnitude if value < 0 else magnitude
