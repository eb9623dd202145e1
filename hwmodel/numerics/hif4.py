"""HiF4 (arXiv 2602.11287): quantise groups of 64 with the arithmetic of a named profile, and undo it.

The steps, with the choices that profiles make in brackets: SF = bf16(peak x bf16(1/7)); Ea = E6M2(SF) [tie]; REC =
bf16(1/Ea); bit Eb of 8 elements set where their peak x REC [rounded to bf16 or exact] >= 4; bit Ec of 4 elements set
where their peak x REC / 2^Eb [same] >= 2; element = S1P2(x x REC / 2^Eb / 2^Ec [rounded to bf16 or exact]) [tie].
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hwmodel.errors import NumericsError
from hwmodel.numerics.checks import check_choice
from hwmodel.numerics.formats import FORMATS
from hwmodel.numerics.rounding import F32, bf16_bits, round_bf16, round_to_odd
from hwmodel.numerics.tables import decode_table

GROUP = 64
SEVENTH = np.float32(0.142578125)  # bf16(1/7), 0x3E12
LARGEST_BF16 = np.uint32(0x7F7F0000).view(np.float32)
NAN_SCALE = 0xFF
_RECIPROCALS = (0x3F80, 0x3F4D, 0x3F2B, 0x3F12)  # bf16(1 / 1.00), 1/1.25, 1/1.50, 1/1.75
_OVER_NAN = 53248.0  # first SF that an E6M2 with one more value would round past 49152


@dataclass(frozen=True, slots=True)
class Hif4Rule:
    """One profile: every choice is a field, and each can be set alone in `quantize`.

    ``scale_tie`` E6M2 half-even or half-up; ``thresholds`` and ``product`` rounded to bf16 or exact; ``element_tie``
    half-even or half away from zero. ``zero`` a zero block's Ea: 0x00 or 0xFF (NaN); ``under`` a non-zero SF below
    2^-48: clamped to Ea 0x00, NaN, or an error; ``over`` an SF past 49152: clamped, or NaN from 53248 on; ``inf`` and
    ``nan`` a block that holds one: NaN, an error, or (``inf``) taken as the largest bf16. ``zero_scale`` what Ea 0x00
    means to the elements: 2^-48, or nothing (all codes 0). ``keep_neg_zero`` gives -0.0 code 8 instead of 0.
    """

    scale_tie: Literal["even", "up"] = "even"
    thresholds: Literal["rounded", "exact"] = "rounded"
    product: Literal["rounded", "exact"] = "rounded"
    element_tie: Literal["even", "away"] = "even"
    zero: Literal["min", "nan"] = "min"
    under: Literal["clamp", "nan", "error"] = "clamp"
    over: Literal["clamp", "nan"] = "clamp"
    inf: Literal["nan", "saturate", "error"] = "nan"
    nan: Literal["nan", "error"] = "nan"
    zero_scale: Literal["min", "nothing"] = "min"
    keep_neg_zero: bool = False


_CHOICES: dict[str, tuple[Any, ...]] = {
    "scale_tie": ("even", "up"),
    "thresholds": ("rounded", "exact"),
    "product": ("rounded", "exact"),
    "element_tie": ("even", "away"),
    "zero": ("min", "nan"),
    "under": ("clamp", "nan", "error"),
    "over": ("clamp", "nan"),
    "inf": ("nan", "saturate", "error"),
    "nan": ("nan", "error"),
    "zero_scale": ("min", "nothing"),
    "keep_neg_zero": (False, True),
}

PROFILES: dict[str, Hif4Rule] = {
    "a6": Hif4Rule(),
    "vendor_golden": Hif4Rule(under="error", inf="error", nan="error", zero_scale="nothing"),
    "paper": Hif4Rule(thresholds="exact", product="exact", element_tie="away"),
    "paper_even": Hif4Rule(thresholds="exact", product="exact"),
    "cann": Hif4Rule(thresholds="exact", zero="nan", under="nan", over="nan"),
    "half_up_scale": Hif4Rule(scale_tie="up"),
}


def hif4_rule(name: str, switches: dict[str, Any]) -> Hif4Rule:
    """Profile ``name`` with single switches replaced; NumericsError for an unknown name, switch or choice."""
    check_choice("hif4 rule", name, PROFILES)
    known = [field.name for field in fields(Hif4Rule)]
    for switch, choice in switches.items():
        check_choice("hif4 switch", switch, known)
        if choice not in _CHOICES[switch]:
            raise NumericsError(f"{switch}: expected one of {', '.join(map(str, _CHOICES[switch]))}, not {choice!r}")
    return replace(PROFILES[name], **switches)


@cache
def reciprocal_table() -> F32:
    """bf16 half-even reciprocal of every E6M2 code, as fp32; shape [256], 0 for NaN."""
    codes = np.arange(256)
    bias = FORMATS["e6m2"].bias
    mantissa = (np.array(_RECIPROCALS, np.uint32) << np.uint32(16)).view(np.float32)
    table: F32 = np.ldexp(mantissa[codes & 3], bias - (codes >> 2)).astype(np.float32)
    table[NAN_SCALE] = 0
    return table


def _bf16(x: NDArray[Any]) -> F32:
    """bf16 rounding of fp32, or of float64 in one step."""
    return round_bf16(x if x.dtype == np.float32 else round_to_odd(x))


def quantize_groups(
    x: F32, rule: Hif4Rule, exact_in_fp32: bool, compiled: ModuleType | None = None
) -> tuple[NDArray[Any], ...]:
    """Codes [n, 64], Ea [n], Eb [n], Ec [n] of groups ``x`` [n, 64] (fp32, C order).

    ``exact_in_fp32`` says that all values are bf16 values, whose products with a bf16 need no more than fp32; only
    these can use the ``compiled`` kernels.
    """
    if compiled is not None and exact_in_fp32:
        return _quantize_compiled(x, rule, compiled)
    n = x.shape[0]
    with np.errstate(all="ignore"):
        quads = np.ascontiguousarray(x.reshape(n * 16, 4).T)  # element i of each group of four in row i
        if rule.inf == "saturate":
            quads = np.clip(quads, -LARGEST_BF16, LARGEST_BF16)
        size = np.abs(quads)
        m4 = np.maximum(np.maximum(size[0], size[1]), np.maximum(size[2], size[3]))
        m8 = np.maximum(m4[0::2], m4[1::2])
        m64 = m8.reshape(n, 8).max(axis=1)
        wide = np.float32 if exact_in_fp32 else np.float64
        ea, poisoned = _scale_codes(_bf16(m64.astype(wide) * wide(SEVENTH)), m64, rule)
        rec = _reciprocals(ea, rule)
        rounded = rule.thresholds == "rounded"
        p8 = (m8.reshape(n, 8).astype(wide) * rec[:, None]).reshape(-1)
        p4 = (m4.reshape(n, 16).astype(wide) * rec[:, None]).reshape(-1)
        eb = (_bf16(p8) if rounded else p8) >= 4
        ec = (_bf16(p4) if rounded else p4) >= np.where(np.repeat(eb, 2), wide(4), wide(2))
        scale = np.repeat(rec, 16) * np.where(np.repeat(eb, 2), np.float32(0.5), np.float32(1))
        scale *= np.where(ec, np.float32(0.5), np.float32(1))
        y = size.astype(wide) * scale if wide is np.float64 else np.multiply(size, scale, out=size)
        if rule.product == "rounded":
            y = _bf16(y)
        codes = _element_codes(y, rule)
    negative = np.signbit(quads) if rule.keep_neg_zero else quads < 0
    codes |= negative.view(np.uint8) << 3
    out = np.ascontiguousarray(codes.T).reshape(n, GROUP)
    eb_bits = np.packbits(eb.reshape(n, 8), axis=1, bitorder="little").reshape(n)
    ec_bits = np.packbits(ec.reshape(n, 16), axis=1, bitorder="little").astype(np.uint16)
    ec_word = ec_bits[:, 0] | ec_bits[:, 1] << np.uint16(8)
    if poisoned.any():
        out[poisoned], eb_bits[poisoned], ec_word[poisoned] = 0, 0, 0
    return out, ea, eb_bits, ec_word


def _quantize_compiled(x: F32, rule: Hif4Rule, compiled: ModuleType) -> tuple[NDArray[Any], ...]:
    n = x.shape[0]
    patterns, saturate = x.view(np.uint32), rule.inf == "saturate"
    m64 = np.empty(n, np.float32)
    compiled.peaks(patterns, saturate, m64)
    with np.errstate(all="ignore"):
        ea, poisoned = _scale_codes(_bf16(m64 * SEVENTH), m64, rule)
    codes, eb, ec = np.empty((n, GROUP), np.uint8), np.empty(n, np.uint8), np.empty(n, np.uint16)
    compiled.elements(
        patterns,
        _reciprocals(ea, rule),
        saturate,
        rule.thresholds == "rounded",
        rule.product == "rounded",
        rule.element_tie == "away",
        rule.keep_neg_zero,
        codes,
        eb,
        ec,
    )
    if poisoned.any():
        codes[poisoned], eb[poisoned], ec[poisoned] = 0, 0, 0
    return codes, ea, eb, ec


def _reciprocals(ea: NDArray[np.uint8], rule: Hif4Rule) -> F32:
    """Multiplier of the elements of each group; 0 for an Ea of 0x00 that means nothing."""
    found: F32 = reciprocal_table()[ea]
    return np.where(ea == 0, np.float32(0), found) if rule.zero_scale == "nothing" else found


def _scale_codes(sf: F32, m64: F32, rule: Hif4Rule) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """E6M2 codes of SF, and which groups are NaN as a whole; errors where the profile has them."""
    high = bf16_bits(sf).astype(np.int64)
    high += 16 if rule.scale_tie == "up" else 15 + (high >> 5 & 1)
    code = np.clip((high >> 5) - ((127 - FORMATS["e6m2"].bias) << 2), 0, 0xFE)
    under = (sf < np.float32(2.0**-48)) & (m64 > 0)
    poisoned = np.zeros(sf.shape, bool)
    for what, choice, where in (
        ("a NaN", rule.nan, np.isnan(m64)),
        ("an infinity", rule.inf, np.isinf(m64)),
        ("a peak below 7 x 2^-48", rule.under, under),
        ("zeros only", rule.zero, m64 == 0),
        ("a peak past the largest scale", rule.over, sf >= _OVER_NAN),
    ):
        if choice == "error" and where.any():
            raise NumericsError(f"hif4: a block holds {what}, which this rule refuses")
        if choice == "nan":
            poisoned |= where
    code[poisoned] = NAN_SCALE
    return code.astype(np.uint8), poisoned


def _element_codes(y: NDArray[Any], rule: Hif4Rule) -> NDArray[np.uint8]:
    """S1P2 magnitude codes of non-negative y: nearest quarter, at most 7."""
    capped = np.minimum(y, y.dtype.type(2))
    capped *= 4
    quarters = np.rint(capped) if rule.element_tie == "even" else np.floor(capped + y.dtype.type(0.5))
    out: NDArray[np.uint8] = np.minimum(quarters, 7).astype(np.uint8)
    return out


@cache
def scale_table() -> F32:
    """fp32 value of every E6M2 code (NaN for 0xFF); shape [256]."""
    return decode_table("e6m2")


def element_scales(ea: NDArray[np.uint8], eb: NDArray[np.uint8], ec: NDArray[np.uint16]) -> F32:
    """Factor of each group of four elements, exact: [..., groups] -> [..., groups, 16]."""
    j = np.arange(16, dtype=np.uint16)
    doublings = (eb[..., None] >> (j >> 1).astype(np.uint8) & 1) + (ec[..., None] >> j & 1).astype(np.uint8)
    factor = np.array([1, 2, 4], np.float32)[doublings]
    out: F32 = scale_table()[ea][..., None] * factor
    return out
