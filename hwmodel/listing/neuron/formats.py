"""Values of stored elements for the slow reference: tables from the exact scalar codec, numpy's own casts, plain loops.

Nothing here uses the array codec that the machine uses.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from hwmodel.numerics.reference import codec
from hwmodel.program.neuron_dtypes import LANES, NeuronDtype

Array = np.ndarray[Any, Any]
NAN_BITS = 0x7FC00000
_CODES = {"fp4_e2m1": 16}


@cache
def table(element: str) -> Array:
    """fp32 value of every code of a 4- or 8-bit format."""
    values = [_float(codec.decode(code, element)) for code in range(_CODES.get(element, 256))]
    return np.array(values, np.float32)


def _float(value: codec.Value) -> float:
    if value.is_nan:
        return float("nan")
    size = float("inf") if value.magnitude is None else float(value.magnitude)
    return -size if value.negative else size


def widen(stored: Array, dtype: NeuronDtype) -> Array:
    """fp32 [partitions, elements] of stored elements; the lanes of a container next to each other, lowest first."""
    if dtype.lanes > 1:
        bits = 8 * dtype.bytes // LANES
        mask = stored.dtype.type((1 << bits) - 1)
        lanes = [(stored >> stored.dtype.type(bits * lane)) & mask for lane in range(LANES)]
        stored = np.stack(lanes, axis=-1).reshape(stored.shape[0], -1)
    element = dtype.element
    assert element is not None
    if element == "fp32":
        return stored.astype(np.uint32).view(np.float32)
    if element == "bf16":
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if element == "fp16":
        return _from_fp16(stored.astype(np.uint16))
    if element == "uint8":
        return stored.astype(np.float32)
    if element == "int8":
        return stored.astype(np.uint8).view(np.int8).astype(np.float32)
    if element == "int32":
        return stored.astype(np.uint32).view(np.int32).astype(np.float32)
    return table(element)[stored]


def _from_fp16(codes: Array) -> Array:
    """Of a NaN only the sign is kept."""
    nan = codes & 0x7FFF > 0x7C00
    wide = np.where(nan, np.uint16(0), codes).view(np.float16).astype(np.float32)
    return np.where(nan, (codes.astype(np.uint32) & 0x8000) << 16 | NAN_BITS, wide.view(np.uint32)).view(np.float32)


def narrow(values: Array, element: str, *, nan_max: bool = False) -> Array:
    """Nearest codes of fp32 values, ties to even: 16 bits go to infinity, 8 and 4 bits to their largest value.

    A NaN becomes the canonical one of the format.
    """
    x = np.ascontiguousarray(values, np.float32)
    if element == "fp32":
        return canonical(x).view(np.uint32)
    if element == "bf16":
        return _bf16(x)
    if element == "fp16":
        with np.errstate(all="ignore"):
            codes = x.astype(np.float16).view(np.uint16)
        return np.where(np.isnan(x), np.uint16(0x7E00), codes)
    if element in ("uint8", "int8", "int32"):
        return _integer(x, element)
    return _by_search(x, element, nan_max=nan_max)


def _bf16(x: Array) -> Array:
    bits = x.view(np.uint32).astype(np.uint64)
    low, high = bits & 0xFFFF, bits >> 16
    up = (low > 0x8000) | ((low == 0x8000) & (high & 1 == 1))
    return np.where(np.isnan(x), np.uint64(0x7FC0), high + up).astype(np.uint16)


def _integer(x: Array, element: str) -> Array:
    low, high, kind = {
        "uint8": (0, 255, np.uint8), "int8": (-128, 127, np.int8), "int32": (-(2**31), 2**31 - 1, np.int32),
    }[element]  # fmt: skip
    rounded = np.rint(np.where(np.isnan(x), 0, x).astype(np.float64))
    whole = np.clip(rounded, low, high).astype(np.int64).astype(kind)
    return whole.view(f"uint{8 * whole.itemsize}")


def _by_search(x: Array, element: str, *, nan_max: bool) -> Array:
    """The nearest value of all, by looking; equal distance: the even code."""
    values = table(element)
    finite = np.flatnonzero(np.isfinite(values) & ~np.signbit(values))
    magnitudes = values[finite].astype(np.float64)
    with np.errstate(invalid="ignore"):  # numpy warns of a signalling NaN
        size = np.abs(x.astype(np.float64))
    above = np.clip(np.searchsorted(magnitudes, size), 0, len(magnitudes) - 1)
    below = np.maximum(above - 1, 0)
    with np.errstate(invalid="ignore"):
        up, down = magnitudes[above] - size, size - magnitudes[below]
    even = finite[above] % 2 == 0
    codes = finite[np.where((up < down) | ((up == down) & even), above, below)]
    codes = np.where(size >= magnitudes[-1], finite[-1], codes)
    sign = 8 if len(values) == 16 else 128
    codes = codes | np.where(np.signbit(x), sign, 0)
    nan = np.isnan(x)
    if nan.any():
        codes = np.where(nan, _nan_code(x, element, sign, int(finite[-1]), nan_max=nan_max), codes)
    return codes.astype(np.uint8)


def _nan_code(x: Array, element: str, sign: int, largest: int, *, nan_max: bool) -> Array:
    signed = np.where(np.signbit(x), sign, 0)
    if sign == 8:
        return signed  # FP4 has no NaN: a zero of the same sign
    if nan_max:
        return signed | largest
    return np.full(x.shape, codec.encode(codec.Value(False, None), element, "ieee"))


def canonical(x: Array) -> Array:
    """fp32 with every NaN as 0x7FC00000."""
    bits = x.view(np.uint32).copy()
    bits[np.isnan(x)] = NAN_BITS
    return bits.view(np.float32)


def shorten(x: Array, mantissa_bits: int) -> Array:
    """fp32 with so many explicit mantissa bits, nearest even, one element at a time."""
    drop = 23 - mantissa_bits
    out = []
    for bits in np.ascontiguousarray(x).view(np.uint32).reshape(-1).tolist():
        if bits & 0x7FFFFFFF > 0x7F800000:
            out.append(NAN_BITS)
            continue
        kept, rest, half = bits >> drop, bits & ((1 << drop) - 1), 1 << (drop - 1)
        kept += rest > half or (rest == half and kept & 1)
        out.append(kept << drop)
    return np.array(out, np.uint32).view(np.float32).reshape(x.shape)
