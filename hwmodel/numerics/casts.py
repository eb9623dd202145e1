"""The cast on the way out of the accumulator (FIXPIPE): fp32 or int32 sums to codes of the output dtype."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwmodel.errors import NumericsError
from hwmodel.numerics.checks import whole
from hwmodel.numerics.codec import Codes, encode
from hwmodel.numerics.dtypes import element_record
from hwmodel.numerics.formats import ElementFormat
from hwmodel.numerics.rounding import F32

CHANNEL_SCALE_MASK = np.uint32(0xFFFFE000)
"""Per-channel scales keep 10 explicit mantissa bits of their fp32 pattern."""
OFFSET_MAX = 511
Saturate = bool | Literal["inf"] | None


def cast_out(
    acc: ArrayLike,
    dtype: str,
    relu: bool = False,
    saturate: Saturate = None,
    scale: ArrayLike | None = None,
    offset: int | None = None,
) -> Codes:
    """Codes of ``dtype`` for sums ``acc`` [..., N] (fp32 or int32); same shape.

    In this order: ``relu`` (anything below zero, and -0, becomes +0), product with ``scale`` in fp32 (a number, or one
    a channel [N], whose lower 13 mantissa bits are cut off), for integer outputs plus ``offset`` (0..511) in fp32, then
    one rounding, half-even (hif8: half away). int32 sums become fp32 first unless the output is int32.

    ``saturate``: None is the unit's habit: 16- and 32-bit floats go to infinity, everything narrower to its largest
    value. False is IEEE (infinity, or NaN where there is none). True clamps finite overflow to the largest value; an
    infinity stays one in 16 and 32 bits and becomes the largest value in narrower formats. ``"inf"`` also clamps
    infinities and turns NaN into 0. Integers always clip and take NaN as 0. NaN codes are canonical.

    Raises NumericsError for unknown or block dtypes, sums that are neither fp32 nor int32, a scale of another shape,
    and an offset without an integer output or out of range.
    """
    record = element_record(dtype)
    sums = np.asarray(acc)
    if sums.dtype not in (np.float32, np.int32):
        raise NumericsError(f"acc: expected fp32 or int32 sums, not {sums.dtype}")
    if saturate not in (None, True, False, "inf"):
        raise NumericsError(f"saturate: expected None, True, False or 'inf', not {saturate!r}")
    _check_offset(offset, record)
    if sums.dtype == np.int32 and dtype == "int32" and scale is None and offset is None:
        codes = np.where(sums < 0, 0, sums) if relu else sums
        return codes.astype(np.int32).view(np.uint32)
    x = sums.astype(np.float32)
    with np.errstate(all="ignore"):
        if relu:
            x[~(x > 0) & ~np.isnan(x)] = 0
        if scale is not None:
            x = x * _scales(scale, sums)
        if offset is not None:
            x = x + np.float32(offset)
    return _narrow(x, record, saturate)


def _narrow(x: F32, record: ElementFormat, saturate: Saturate) -> Codes:
    wide = record.is_float and record.bits > 8
    if record.is_integer:
        return encode(x, record.name)
    if saturate == "inf":
        return encode(np.where(np.isnan(x), np.float32(0), x), record.name, "saturate")
    if wide and saturate:
        codes = encode(x, record.name, "saturate")
        infinite = np.isinf(x)
        if infinite.any():
            codes[infinite] = encode(x[infinite], record.name, "ieee")
        return codes
    keep_ieee = saturate is False or (wide and saturate is None)
    return encode(x, record.name, "ieee" if keep_ieee else "saturate")


def _scales(scale: ArrayLike, sums: NDArray[Any]) -> F32:
    given = np.asarray(scale)
    if given.dtype.kind not in "fiub" and given.dtype.name != "bfloat16":
        raise NumericsError(f"scale: expected a number or one a channel, not dtype {given.dtype}")
    factors = given.astype(np.float32)
    if factors.ndim == 0:
        return factors
    if sums.ndim == 0 or factors.shape != (sums.shape[-1],):
        raise NumericsError(f"scale: expected a number or one a channel, shape {sums.shape[-1:]}, not {factors.shape}")
    return (np.ascontiguousarray(factors).view(np.uint32) & CHANNEL_SCALE_MASK).view(np.float32)


def _check_offset(offset: int | None, record: ElementFormat) -> None:
    if offset is None:
        return
    if not record.is_integer:
        raise NumericsError(f"offset: only integer outputs take one, not {record.name}")
    whole("offset (9 bits, unsigned)", offset, 0, OFFSET_MAX)
