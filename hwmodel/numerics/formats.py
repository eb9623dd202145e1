"""Element formats: what the bits of one stored number mean. Adding a format is adding one record to ``FORMATS``.

A *code* is the integer of the stored field, right-aligned (a 4-bit code lies in bits 3..0 of a byte). Everything
else in this package that knows a format reads its record; nothing asks for a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hwmodel.errors import NumericsError, unknown_name

Layout = Literal["binary", "hif8", "integer"]


@dataclass(frozen=True, slots=True)
class ElementFormat:
    """One element format.

    ``layout`` is ``binary`` (sign, exponent field, mantissa field), ``hif8`` (variable-width fields, HiFloat8) or
    ``integer`` (two's complement or unsigned). For ``binary``: value = (-1)^s x 2^(E - bias) x 1.m, and with
    ``subnormals`` the exponent field 0 means 2^(1 - bias) x 0.m. ``max_code`` is the largest finite positive code,
    ``inf_code`` positive infinity or None, ``nan_code`` the canonical NaN or None. ``ieee_specials`` says that the
    top exponent field holds only Inf and NaN; without it the only NaN is ``nan_code`` (with either sign).
    """

    name: str
    bits: int
    layout: Layout
    signed: bool
    exponent_bits: int
    mantissa_bits: int
    bias: int
    max_code: int
    inf_code: int | None
    nan_code: int | None
    summary: str
    ieee_specials: bool = False
    subnormals: bool = True
    ties: Literal["even", "away"] = "even"

    @property
    def storage_bits(self) -> int:
        """Bits of one element as it is packed in memory: 4, 8, 16 or 32."""
        return self.bits

    @property
    def is_integer(self) -> bool:
        """True for two's complement and unsigned integers."""
        return self.layout == "integer"

    @property
    def is_float(self) -> bool:
        """True for everything with an exponent, the two scale formats included."""
        return not self.is_integer

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """Unsigned type that holds one code: uint8 up to 8 bits, else uint16 or uint32."""
        return np.dtype(np.uint8 if self.bits <= 8 else np.uint16 if self.bits == 16 else np.uint32)

    @property
    def code_count(self) -> int:
        """Number of codes, 2^bits."""
        return 1 << self.bits

    @property
    def sign_bit(self) -> int:
        """Mask of the sign bit; 0 where there is none."""
        return 1 << (self.bits - 1) if self.signed else 0

    @property
    def saturates_always(self) -> bool:
        """True where the format has neither infinity nor NaN, so that overflow can only saturate."""
        return self.inf_code is None and self.nan_code is None


def _binary(
    name: str,
    bits: int,
    exponent: int,
    mantissa: int,
    bias: int,
    top: int,
    inf: int | None,
    nan: int | None,
    text: str,
) -> ElementFormat:
    return ElementFormat(
        name,
        bits,
        "binary",
        True,
        exponent,
        mantissa,
        bias,
        top,
        inf,
        nan,
        text,
        ieee_specials=inf is not None,
    )


def _scale(name: str, exponent: int, mantissa: int, bias: int, text: str) -> ElementFormat:
    return ElementFormat(name, 8, "binary", False, exponent, mantissa, bias, 0xFE, None, 0xFF, text, subnormals=False)


def _integer(name: str, bits: int, signed: bool, text: str) -> ElementFormat:
    top = (1 << (bits - 1 if signed else bits)) - 1
    return ElementFormat(name, bits, "integer", signed, 0, 0, 0, top, None, None, text)


_RECORDS = (
    _binary("fp32", 32, 8, 23, 127, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, "IEEE 754 binary32"),
    _binary("fp16", 16, 5, 10, 15, 0x7BFF, 0x7C00, 0x7E00, "IEEE 754 binary16, maximum 65504"),
    _binary("bf16", 16, 8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0, "upper half of binary32"),
    _binary("fp8_e4m3", 8, 4, 3, 7, 0x7E, None, 0x7F, "OCP E4M3 (fn): maximum 448, no infinity"),
    _binary("fp8_e4m3_ieee", 8, 4, 3, 7, 0x77, 0x78, 0x7C, "E4M3 with infinities: maximum 240"),
    _binary("fp8_e5m2", 8, 5, 2, 15, 0x7B, 0x7C, 0x7E, "OCP E5M2: maximum 57344"),
    _binary("fp8_e3m4", 8, 3, 4, 3, 0x6F, 0x70, 0x78, "E3M4, IEEE-like: maximum 15.5"),
    ElementFormat(
        "hif8", 8, "hif8", True, 0, 0, 0, 0x6E, 0x6F, 0x80,
        "HiFloat8 (arXiv 2409.16626): tapered, maximum 32768, one zero", ties="away",
    ),
    _binary("fp4_e2m1", 4, 2, 1, 1, 0x7, None, None, "OCP E2M1: 0 .5 1 1.5 2 3 4 6"),
    _binary("fp4_e1m2", 4, 1, 2, 1, 0x7, None, None, "E1M2, also HiF4's S1P2: 0 to 1.75 by 0.25"),
    _scale("e8m0", 8, 0, 127, "power-of-two scale 2^-127 to 2^127, 0xFF is NaN"),
    _scale("e6m2", 6, 2, 48, "HiF4 level 1 scale 2^-48 to 49152, 0xFF is NaN"),
    _integer("int8", 8, True, "two's complement"),
    _integer("uint8", 8, False, "unsigned"),
    _integer("int4", 4, True, "two's complement, one code in the low nibble"),
    _integer("int32", 32, True, "two's complement, the integer accumulator"),
)  # fmt: skip

FORMATS: dict[str, ElementFormat] = {record.name: record for record in _RECORDS}
"""Every element format by name, in the order in which they are listed to people."""


def element_format(name: str) -> ElementFormat:
    """Return the record of an element format; NumericsError with the nearest name where there is none."""
    record = FORMATS.get(name) if isinstance(name, str) else None
    if record is None:
        raise NumericsError(unknown_name("element dtype", name, FORMATS))
    return record
