"""Quantise one MX block or one HiF4 group in exact fractions; decode an element under its scale."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from hwmodel.numerics.hif4 import Hif4Rule
from hwmodel.numerics.mx import MxRule
from hwmodel.numerics.reference.codec import Value, bf16_round, decode, encode, finite, floor_log2, pow2

SEVENTH = Fraction(73, 512)  # bf16(1/7)
HIF4_MIN = pow2(-48)
HIF4_MAX = Fraction(49152)
NAN_SCALE = 0xFF


class RefusedError(ValueError):
    """The rule refuses this block."""


@dataclass(frozen=True, slots=True)
class Block:
    """What a quantiser makes of one block: element codes and scale codes (E8M0, or Ea, Eb, Ec)."""

    codes: tuple[int, ...]
    scales: tuple[int, ...]


def ceil_log2(number: Fraction) -> int:
    """Smallest e with number <= 2^e, for a positive number."""
    exponent = floor_log2(number)
    return exponent if pow2(exponent) == number else exponent + 1


@cache
def _largest_element(element: str) -> tuple[Fraction, int]:
    """Largest finite value of an element format and its floor(log2), the rules' emax."""
    codes = range(1 << (7 if element.startswith("fp8") else 3))
    largest = max(value.magnitude for value in (decode(code, element) for code in codes) if value.magnitude is not None)
    return largest, floor_log2(largest)


def mx_scale(peak: Fraction, element: str, rule: MxRule) -> int:
    """E8M0 code for the largest magnitude of a block."""
    if peak == 0:
        return rule.zero_code
    largest, emax = _largest_element(element)
    if rule.exponent == "floor":
        exponent = floor_log2(peak) - emax
    elif rule.exponent == "ceil":
        exponent = ceil_log2(peak) - emax
    elif rule.exponent == "even":
        mantissa_bits = {"fp8_e4m3": 3, "fp8_e5m2": 2, "fp4_e2m1": 1, "fp4_e1m2": 2}[element]
        step = pow2(floor_log2(peak) - mantissa_bits)
        rounded = (peak / step + Fraction(1, 2)).__floor__() * step
        exponent = floor_log2(rounded) - emax
    else:
        exponent = ceil_log2(peak / largest)
    return min(max(exponent + 127, 0), 0xFE)


def mx_quantize(values: list[Value], element: str, rule: MxRule) -> Block:
    """Codes and E8M0 scale of one block."""
    if any(value.magnitude is None for value in values):
        if rule.nonfinite == "error":
            raise RefusedError
        return Block((0,) * len(values), (NAN_SCALE,))
    scale = mx_scale(max(value.magnitude or Fraction(0) for value in values), element, rule)
    codes = []
    for value in values:
        scaled = Value(value.negative, (value.magnitude or 0) / pow2(scale - 127))
        if value.magnitude == 0 and not rule.keep_neg_zero:
            scaled = finite(0)
        codes.append(encode(scaled, element, "saturate"))
    return Block(tuple(codes), (scale,))


def _e6m2(sf: Fraction, rule: Hif4Rule) -> int:
    """E6M2 code of a scale factor inside or past its range."""
    if sf < HIF4_MIN:
        return 0
    if sf > HIF4_MAX:
        return 0xFE
    exponent = floor_log2(sf)
    quarters = sf / pow2(exponent) * 4
    units = round(quarters) if rule.scale_tie == "even" else (quarters + Fraction(1, 2)).__floor__()
    return min((exponent + 47 << 2) + units, 0xFE)


def hif4_reciprocal(ea: int) -> Fraction:
    """bf16 reciprocal of an E6M2 code, half-even."""
    return bf16_round(1 / decode(ea, "e6m2").exact)


def hif4_quantize(values: list[Value], rule: Hif4Rule) -> Block:
    """Codes, Ea, Eb and Ec of one group of 64 (bf16 values, or any others for ``source="native"``)."""
    nan_block = Block((0,) * 64, (NAN_SCALE, 0, 0))
    if any(value.is_nan for value in values):
        if rule.nan == "error":
            raise RefusedError
        return nan_block
    if any(value.is_inf for value in values):
        if rule.inf == "error":
            raise RefusedError
        if rule.inf == "nan":
            return nan_block
        largest = decode(0x7F7F, "bf16").magnitude
        values = [Value(value.negative, largest) if value.is_inf else value for value in values]
    size = [value.magnitude or Fraction(0) for value in values]
    peak = max(size)
    sf = bf16_round(peak * SEVENTH)
    if peak == 0 and rule.zero == "nan":
        return nan_block
    if peak > 0 and sf < HIF4_MIN:
        if rule.under == "error":
            raise RefusedError
        if rule.under == "nan":
            return nan_block
    if sf >= 53248 and rule.over == "nan":
        return nan_block
    ea = _e6m2(sf, rule)
    reciprocal = hif4_reciprocal(ea)
    if ea == 0 and rule.zero_scale == "nothing":
        reciprocal = Fraction(0)

    def threshold(product: Fraction) -> Fraction:
        return bf16_round(product) if rule.thresholds == "rounded" else product

    eb = [threshold(max(size[8 * i : 8 * i + 8]) * reciprocal) >= 4 for i in range(8)]
    ec = [threshold(max(size[4 * j : 4 * j + 4]) * reciprocal) / (1 + eb[j // 2]) >= 2 for j in range(16)]
    codes = []
    for q, value in enumerate(values):
        y = size[q] * reciprocal / (1 + eb[q // 8]) / (1 + ec[q // 4])
        if rule.product == "rounded":
            y = bf16_round(y)
        quarters = round(4 * y) if rule.element_tie == "even" else (4 * y + Fraction(1, 2)).__floor__()
        negative = value.negative and (size[q] > 0 or rule.keep_neg_zero)
        codes.append(min(quarters, 7) | (8 if negative else 0))
    bits = (sum(bit << i for i, bit in enumerate(each)) for each in (eb, ec))
    return Block(tuple(codes), (ea, *bits))


def hif4_value(code: int, ea: int, eb: int, ec: int, q: int) -> Value:
    """Exact value of element ``q`` of a group."""
    if ea == NAN_SCALE:
        return Value(False)
    element = decode(code, "fp4_e1m2")
    factor = decode(ea, "e6m2").exact * 2 ** ((eb >> (q // 8) & 1) + (ec >> (q // 4) & 1))
    return Value(element.negative, (element.magnitude or Fraction(0)) * factor)


def mx_value(code: int, element: str, scale: int) -> Value:
    """Exact value of an element under an E8M0 scale."""
    value = decode(code, element)
    if scale == NAN_SCALE or value.is_nan:
        return Value(False)
    return value if value.is_inf else Value(value.negative, (value.magnitude or Fraction(0)) * pow2(scale - 127))
