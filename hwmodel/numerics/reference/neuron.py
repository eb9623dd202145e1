"""Neuron's 8 x 4 blocks in exact fractions and plain loops."""

from __future__ import annotations

from fractions import Fraction

from hwmodel.numerics.reference.codec import Value, decode, encode, floor_log2, pow2


def exponent_byte(value: Value) -> int:
    """Bits 30..23 of an fp32 value's pattern."""
    if value.magnitude is None:
        return 255
    return 0 if value.magnitude < pow2(-126) else floor_log2(value.magnitude) + 127


def scale_byte(block: list[Value], emax: int, alternative: bool, floor: int) -> int:
    """Scale byte of the 32 values of one block."""
    if alternative:
        emax = (emax - 1) % 256
    difference = max(exponent_byte(value) for value in block) - emax
    if difference < 0:
        difference = 0
    return floor if difference < floor else difference


def multiply_back(value: Value, scale: int) -> Value:
    """fp32 product of a value with the fp32 pattern (254 - scale) << 23, rounded half-even."""
    if value.is_nan:
        return value
    if scale == 255:  # the pattern is minus infinity
        return Value(value.negative) if value.magnitude == 0 else Value(not value.negative, None, True)
    if scale == 254:  # the pattern is +0
        return Value(value.negative) if value.is_inf else Value(value.negative, Fraction(0))
    if value.is_inf:
        return value
    assert value.magnitude is not None
    return round_fp32(Value(value.negative, value.magnitude * pow2(127 - scale)))


def round_fp32(value: Value) -> Value:
    """Nearest fp32, half-even, overflow to infinity."""
    return decode(encode(value, "fp32", "ieee"), "fp32")


def narrow(value: Value, element: str, nan_suppress: bool) -> int:
    """Element code: saturating, half-even; NaN as `quantize_neuron_mx` states."""
    if element.startswith("fp4") and value.is_nan:
        return 8 if value.negative else 0
    return encode(value, element, "saturate", "max" if nan_suppress else "keep")


def scaled_value(value: Value, scale: int) -> Value:
    """ldexp(value, scale - 127) in fp32."""
    if value.magnitude is None:
        return value
    return round_fp32(Value(value.negative, value.magnitude * pow2(scale - 127)))
