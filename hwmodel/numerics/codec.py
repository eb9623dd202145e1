"""Encode, decode and convert arrays of element codes. Bit for bit what ``reference.codec`` says, only faster."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwmodel.errors import NumericsError
from hwmodel.numerics.checks import check_choice
from hwmodel.numerics.dtypes import element_record
from hwmodel.numerics.formats import ElementFormat
from hwmodel.numerics.rounding import CANONICAL_NAN, CHUNK, F32, bf16_bits, round_to_odd
from hwmodel.numerics.tables import decode_table, exact_values, half_table, integer_codes, short_fp32_table

Overflow = Literal["saturate", "ieee"]
NanMode = Literal["keep", "max"]
Codes = NDArray[Any]
_OVERFLOW = ("saturate", "ieee")
_NAN = ("keep", "max")


def encode(values: ArrayLike, dtype: str, overflow: Overflow = "saturate", nan: NanMode = "keep") -> Codes:
    """Nearest codes of ``values`` in an element format; same shape, unsigned integers.

    ``values``: fp32, fp16, float64 or an ``ml_dtypes`` float of any shape (lists and integers count as float64).
    Every source is rounded once, ties to even (``hif8``: away from zero; where neither neighbour is even, as in
    ``e8m0``, the larger).

    ``overflow="saturate"`` gives everything past the maximum, infinities included, the largest finite code;
    ``"ieee"`` gives what rounds past it the format's infinity, or NaN where it has none. Formats with neither
    (FP4, integers) always saturate. ``nan="keep"`` gives the canonical NaN code (0 where there is none), ``"max"`` the
    largest code with the NaN's sign; integers give 0. A negative number has no code in an unsigned scale format
    (``e8m0``, ``e6m2``): NaN. ``e8m0`` and ``e6m2`` clamp below at code 0; do not use them to choose block scales.

    Raises NumericsError for an unknown dtype or mode, a block dtype, or values that are no numbers.
    """
    record = element_record(dtype)
    check_choice("overflow", overflow, _OVERFLOW)
    check_choice("nan", nan, _NAN)
    source, kind = as_source(values)
    out = np.empty(source.size, record.numpy_dtype)
    flat = np.ascontiguousarray(source).reshape(-1)
    for start in range(0, flat.size, CHUNK):
        _encode_chunk(flat[start : start + CHUNK], kind, record, overflow, nan, out[start : start + CHUNK])
    return out.reshape(source.shape)


def _encode_chunk(x: NDArray[Any], kind: str, record: ElementFormat, overflow: str, nan: str, out: Codes) -> None:
    narrow = record.bits <= 8
    if narrow and kind in ("fp16", "bf16"):
        np.take(half_table(kind, record.name, overflow, nan), x.view(np.uint16), out=out, mode="clip")
        return
    if record.is_integer:
        out[...] = integer_codes(to_fp32(x, kind) if kind != "float64" else x, record)
        return
    if record.name == "fp32" and kind == "float64":
        with np.errstate(all="ignore"):
            fp32 = x.astype(np.float32)
    else:
        fp32 = round_to_odd(x) if kind == "float64" else to_fp32(x, kind)
    if narrow:
        bits = fp32.view(np.uint32)
        sticky = bits & np.uint32(0x7FFF)
        sticky += np.uint32(0x7FFF)  # bit 15 is set where any lower bit was
        sticky |= bits
        index = np.right_shift(sticky, 15, dtype=np.int64, casting="unsafe")
        np.take(short_fp32_table(record.name, overflow, nan), index, out=out, mode="clip")
    else:
        out[...] = _encode_wide(fp32, record, overflow, nan)


def _encode_wide(x: F32, record: ElementFormat, overflow: str, nan: str) -> Codes:
    """fp16, bf16 or fp32 codes of fp32 values."""
    codes: Codes
    if record.name == "bf16":
        codes = bf16_bits(x)
    elif record.name == "fp16":
        with np.errstate(all="ignore"):
            codes = x.astype(np.float16).view(np.uint16)
    else:
        codes = x.view(np.uint32).copy()
    assert record.inf_code is not None
    assert record.nan_code is not None
    low = codes & (record.sign_bit - 1)
    if overflow == "saturate":
        over = low >= record.inf_code
        if over.any():
            sign = codes & record.sign_bit
            codes = np.where(over, sign | record.numpy_dtype.type(record.max_code), codes)
    not_a_number = np.isnan(x)
    if not_a_number.any():
        value: Any = record.nan_code
        if nan == "max":
            value = np.where(np.signbit(x), record.sign_bit | record.max_code, record.max_code)[not_a_number]
        codes[not_a_number] = value
    return codes


def decode(codes: ArrayLike, dtype: str) -> F32:
    """fp32 values of element codes; same shape.

    ``codes`` are integers in 0 .. 2^bits - 1 (signed numpy types of the same width count as bit patterns). All formats
    decode exactly but ``int32``, which rounds half-even beyond 2^24 (`decode_int` is exact). fp32 and bf16 keep the
    payload of a NaN, the others give the canonical NaN.

    Raises NumericsError for an unknown or block dtype, codes that are no integers or out of range.
    """
    record = element_record(dtype)
    array = as_codes(codes, record)
    if record.name == "fp32":
        return array.view(np.float32).copy()
    if record.name == "bf16":
        return _decode_bf16(array)
    if record.name == "int32":
        return array.view(np.int32).astype(np.float32)
    table = decode_table(dtype)
    flat = np.ascontiguousarray(array).reshape(-1)
    out = np.empty(flat.size, np.float32)
    for start in range(0, flat.size, CHUNK):
        np.take(table, flat[start : start + CHUNK], out=out[start : start + CHUNK], mode="clip")
    return out.reshape(array.shape)


def _decode_bf16(array: Codes) -> F32:
    flat = np.ascontiguousarray(array).reshape(-1)
    wide = np.empty(flat.size, np.uint32)
    for start in range(0, flat.size, CHUNK):
        piece = wide[start : start + CHUNK]
        piece[...] = flat[start : start + CHUNK]
        piece <<= 16
    return wide.view(np.float32).reshape(array.shape)


def decode_int(codes: ArrayLike, dtype: str) -> NDArray[Any]:
    """Integers of integer codes, exact: int8 for ``int4`` and ``int8``, uint8 for ``uint8``, int32 for ``int32``."""
    record = element_record(dtype)
    if not record.is_integer:
        raise NumericsError(f"decode_int: expected an integer dtype, not {dtype!r}")
    array = as_codes(codes, record)
    if record.bits == 4:
        return ((array ^ 8).astype(np.int8) - np.int8(8)).astype(np.int8)
    if not record.signed:
        return array.copy()
    return array.view(f"int{record.bits}").copy()


def convert(
    codes: ArrayLike, source: str, target: str, overflow: Overflow = "saturate", nan: NanMode = "keep"
) -> Codes:
    """Codes of one element format as codes of another, rounded once; same shape. Modes as in `encode`.

    From formats of up to 16 bits this is one look-up.
    """
    record = element_record(source)
    element_record(target)
    check_choice("overflow", overflow, _OVERFLOW)
    check_choice("nan", nan, _NAN)
    array = as_codes(codes, record)
    if record.bits <= 16:
        table = _conversions(source, target, overflow, nan)
        flat = np.ascontiguousarray(array).reshape(-1)
        out = np.empty(flat.size, table.dtype)
        for start in range(0, flat.size, CHUNK):
            np.take(table, flat[start : start + CHUNK], out=out[start : start + CHUNK], mode="clip")
        return out.reshape(array.shape)
    if source == "int32":
        return encode(array.view(np.int32).astype(np.float64), target, overflow, nan)
    return encode(decode(array, source), target, overflow, nan)


@cache
def _conversions(source: str, target: str, overflow: Overflow, nan: NanMode) -> Codes:
    """Code in ``target`` of every code of a format up to 16 bits; shape [2^bits]. NaN codes keep their sign."""
    if element_record(target).bits <= 8:
        return half_table(source, target, overflow, nan)
    table = encode(exact_values(element_record(source)).astype(np.float32), target, overflow, nan)
    table.flags.writeable = False
    return table


def as_array(name: str, values: ArrayLike) -> NDArray[Any]:
    """``values`` as an array; NumericsError where nested lists have no shape."""
    try:
        return np.asarray(values)
    except ValueError:
        raise NumericsError(f"{name}: expected an array or lists of equal lengths") from None


def as_source(values: ArrayLike) -> tuple[NDArray[Any], str]:
    """Array of values and what it holds: ``fp32``, ``fp16``, ``bf16`` or ``float64``."""
    array = as_array("values", values)
    if not (array.dtype.isnative and array.flags.aligned):
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype == np.float32:
        return array, "fp32"
    if array.dtype == np.float16:
        return array, "fp16"
    if array.dtype.name == "bfloat16":
        return array, "bf16"
    if array.dtype == np.float64:
        return array, "float64"
    if array.dtype.kind in "iub":
        if array.dtype.itemsize == 8 and array.size and max(abs(int(array.min())), abs(int(array.max()))) > 1 << 53:
            raise NumericsError("values: integers beyond 2^53 would be rounded twice; pass them as float64")
        return array.astype(np.float64), "float64"
    if array.dtype.name.startswith("float") and array.dtype.itemsize == 1:
        return array.astype(np.float32), "fp32"  # the narrow floats of ml_dtypes; exact
    raise NumericsError(f"values: expected floating-point numbers, not dtype {array.dtype}")


def to_fp32(x: NDArray[Any], kind: str) -> F32:
    """Exact fp32 values of a source that is not float64."""
    if kind == "bf16":
        return (x.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if kind == "fp16":
        out: F32 = x.astype(np.float32)
        return out
    return x


def as_codes(codes: ArrayLike, record: ElementFormat) -> Codes:
    """Codes as the format's unsigned type; NumericsError when they are no integers or out of range."""
    array = as_array(f"codes of {record.name}", codes)
    wanted = record.numpy_dtype
    if array.dtype == wanted:
        if record.bits == 4:
            _check_range(array, record)
        return array
    if array.dtype.kind == "i" and array.dtype.itemsize == wanted.itemsize and record.signed and record.bits != 4:
        return array.astype(array.dtype.newbyteorder("="), copy=False).view(wanted)
    if array.size == 0 and array.dtype == np.float64:
        return array.astype(wanted)
    if array.dtype.kind not in "iu":
        raise NumericsError(f"codes of {record.name}: expected integers, not dtype {array.dtype}")
    _check_range(array, record)
    return array.astype(wanted)


def _check_range(array: Codes, record: ElementFormat) -> None:
    if not array.size:
        return
    low, high = 0 if array.dtype.kind == "u" else int(array.min()), int(array.max())
    if low < 0 or high >= record.code_count:
        raise NumericsError(
            f"codes of {record.name}: expected 0 to {record.code_count - 1}, not {low if low < 0 else high}"
        )


__all__ = ["CANONICAL_NAN", "Codes", "NanMode", "Overflow", "convert", "decode", "decode_int", "encode"]
