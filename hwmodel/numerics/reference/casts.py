"""One sum cast to its output format, one step a line, in exact fractions."""

from __future__ import annotations

from hwmodel.numerics.formats import element_format
from hwmodel.numerics.reference.codec import NAN, Value, decode, encode, finite
from hwmodel.numerics.reference.sums import fp32


def cast_out(
    acc: Value, dtype: str, relu: bool, saturate: bool | str | None, scale: Value | None, offset: int | None
) -> int:
    """Code of one fp32 sum; the rules are those of ``hwmodel.numerics.cast_out`` for a scalar scale."""
    record, value = element_format(dtype), acc
    if relu and not value.is_nan and (value.negative or value.magnitude == 0):
        value = finite(0)
    if scale is not None:
        value = _product(value, scale)
    if offset is not None and value.magnitude is not None:
        value = fp32(value.exact + offset)
    wide = record.is_float and record.bits > 8
    if record.is_integer:
        return encode(value, dtype)
    if saturate == "inf":
        return encode(finite(0) if value.is_nan else value, dtype, "saturate")
    if saturate is False or (wide and (saturate is None or value.is_inf)):
        return encode(value, dtype, "ieee")
    return encode(value, dtype, "saturate")


def _product(value: Value, scale: Value) -> Value:
    """fp32 product; zero times infinity is NaN."""
    negative = value.negative != scale.negative
    if value.is_nan or scale.is_nan:
        return NAN
    if value.is_inf or scale.is_inf:
        return NAN if 0 in (value.magnitude, scale.magnitude) else Value(negative, None, True)
    return fp32(value.exact * scale.exact, negative_zero=negative)


def cut_scale(scale: Value) -> Value:
    """A channel's scale as the unit reads it: fp32 without its lower 13 mantissa bits."""
    return decode(encode(scale, "fp32", "ieee") & 0xFFFFE000, "fp32")
