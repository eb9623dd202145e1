"""MX: 32 elements along K share an E8M0 scale. The scale rules, on fp32 bit patterns, and the block quantiser."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hwmodel.errors import NumericsError, unknown_name
from hwmodel.numerics.checks import check_choice
from hwmodel.numerics.formats import ElementFormat, element_format
from hwmodel.numerics.rounding import F32, canonical_nan
from hwmodel.numerics.tables import decode_table, short_fp32_table

GROUP = 32
NAN_SCALE = 0xFF
_INF_BITS = 0x7F800000


@dataclass(frozen=True, slots=True)
class MxRule:
    """One rule: how the exponent follows from the block maximum, and the special cases.

    ``exponent``: ``floor`` floor(log2 max) - emax; ``ceil`` ceil(log2 max) - emax; ``even`` floor after rounding the
    maximum half up to the element's mantissa; ``rceil`` the smallest exponent under which the maximum does not exceed
    the element's largest value. ``zero_code`` the scale of a zero block; ``nonfinite`` what a block with NaN or Inf
    becomes: scale 0xFF with codes 0, or an error; ``keep_neg_zero`` whether -0.0 keeps its sign.
    """

    exponent: Literal["floor", "ceil", "even", "rceil"] = "floor"
    zero_code: int = 0
    nonfinite: Literal["nan", "error"] = "nan"
    keep_neg_zero: bool = True


RULES: dict[str, MxRule] = {
    "floor": MxRule("floor"),
    "ceil": MxRule("ceil"),
    "even": MxRule("even"),
    "rceil": MxRule("rceil"),
    "golden": MxRule("rceil", zero_code=127, nonfinite="error", keep_neg_zero=False),
}

_CHOICES: dict[str, Any] = {
    "exponent": ("floor", "ceil", "even", "rceil"),
    "zero_code": range(255),
    "nonfinite": ("nan", "error"),
    "keep_neg_zero": (False, True),
}


def mx_rule(name: str, switches: dict[str, Any]) -> MxRule:
    """Rule ``name`` with single switches replaced; NumericsError for an unknown name, switch or choice."""
    if not isinstance(name, str) or name not in RULES:
        hint = "; use quantize_neuron_mx for its 8 x 4 blocks" if str(name).startswith("neuron") else ""
        raise NumericsError(unknown_name("mx rule", name, RULES) + hint)
    known = [field.name for field in fields(MxRule)]
    for switch, choice in switches.items():
        check_choice("mx switch", switch, known)
        if choice not in _CHOICES[switch]:
            raise NumericsError(f"{switch}: unexpected choice {choice!r}")
    return replace(RULES[name], **switches)


@dataclass(frozen=True, slots=True)
class ElementPeak:
    """What the rules need of an element format: emax, its explicit mantissa bits, the mantissa of its maximum."""

    emax: int
    mantissa_bits: int
    max_mantissa: int


@cache
def element_peak(dtype: str) -> ElementPeak:
    """emax = floor(log2 of the largest value) and the fp32 mantissa field of that value."""
    record: ElementFormat = element_format(dtype)
    bits = int(decode_table(dtype)[record.max_code : record.max_code + 1].view(np.uint32)[0])
    return ElementPeak((bits >> 23) - 127, record.mantissa_bits, bits & 0x7FFFFF)


def scale_codes(peak_bits: NDArray[np.uint32], element: str, rule: MxRule) -> NDArray[np.uint8]:
    """E8M0 codes for block maxima given as fp32 patterns without sign; NaN and Inf give 0xFF."""
    form = element_peak(element)
    bits = peak_bits.astype(np.int64)
    tiny = bits < 0x00800000
    if tiny.any():  # normalise: a subnormal's exponent and mantissa are those of 2^24 times it, less 24
        lifted = (peak_bits[tiny].view(np.float32) * np.float32(2.0**24)).view(np.uint32).astype(np.int64)
        bits[tiny] = lifted
    if rule.exponent == "even":
        bits = bits + (1 << (22 - form.mantissa_bits))
    field, mantissa = bits >> 23, bits & 0x7FFFFF
    code = field - 24 * tiny - form.emax
    if rule.exponent == "ceil":
        code = code + (mantissa != 0)
    elif rule.exponent == "rceil":
        code = code + (mantissa > form.max_mantissa)
    code = np.clip(code, 0, 0xFE)
    code[peak_bits == 0] = rule.zero_code
    code[peak_bits >= _INF_BITS] = NAN_SCALE
    out: NDArray[np.uint8] = code.astype(np.uint8)
    return out


@cache
def scale_factors() -> F32:
    """2^(code - 127) as fp32, 0x00 a subnormal, 0xFF the canonical NaN; shape [256]."""
    return decode_table("e8m0")


@cache
def inverse_factors() -> F32:
    """2^(127 - code) as fp32; 0 for 0xFF, so that a NaN block's finite codes are 0; shape [256]."""
    table = np.ldexp(np.float32(1), 127 - np.arange(256)).astype(np.float32)
    table[NAN_SCALE] = 0
    return table


def block_peaks(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Largest magnitude pattern of each row of ``bits`` [n, 2^m]: NaN above Inf above all finite."""
    low = bits & np.uint32(0x7FFFFFFF)
    while low.shape[1] > 1:
        half = low.shape[1] // 2
        low = np.maximum(low[:, :half], low[:, half:])
    return low[:, 0]


def quantize_groups(x: F32, element: str, rule: MxRule) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Codes [n, 32] and E8M0 codes [n] of groups ``x`` [n, 32] (fp32, C order)."""
    peaks = block_peaks(x.view(np.uint32))
    poisoned = peaks >= _INF_BITS
    if rule.nonfinite == "error" and poisoned.any():
        raise NumericsError("mx: a block holds NaN or Inf, which this rule refuses")
    scales = scale_codes(peaks, element, rule)
    with np.errstate(all="ignore"):
        scaled = x * inverse_factors()[scales][:, None]
    bits = scaled.view(np.uint32)
    sticky = bits & np.uint32(0x7FFF)
    sticky += np.uint32(0x7FFF)
    sticky |= bits
    codes = short_fp32_table(element, "saturate", "keep").take(sticky >> np.uint32(15), mode="clip")
    if not rule.keep_neg_zero:
        codes[x == 0] = 0
    if poisoned.any():
        codes[poisoned] = 0
    return codes, scales


def apply_scales(values: F32, scales: NDArray[np.uint8]) -> F32:
    """``values`` [..., groups, n] times their groups' factors [..., groups]; fp32, exact but for overflow to Inf."""
    with np.errstate(all="ignore"):
        return canonical_nan(values * scale_factors()[scales][..., None])
