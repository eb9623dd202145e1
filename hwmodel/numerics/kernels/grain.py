"""What `exactness` asks of the operands of grouped sums, in one pass: bounds of every run of K."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from hwmodel.numerics.kernels.signatures import boolean, compiled, f64, given, i64, made, u32

_FIELD = np.uint32(0xFF)
_MANTISSA = np.uint32(0x7FFFFF)
_HIDDEN = np.uint32(0x800000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_ZERO = np.uint32(0)
_ONE = np.uint32(1)
_SHIFT = np.uint32(23)
NO_QUANTUM = 1 << 20
_LANES = 16
_INF = np.uint32(0x7F800000)
_SIGNATURE = boolean(given(u32, 2), i64, made(f64, 1), made(i64, 1), made(f64, 1))


@numba.njit(inline="always")
def _last_bits(line: Any, single: Any, single_bits: Any, out: Any) -> None:
    """Exponent of the last set bit of each fp32 pattern, plus 150; ``NO_QUANTUM`` for zeros."""
    count = line.shape[0]
    for n in range(count):
        field = (line[n] >> _SHIFT) & _FIELD
        mantissa = (line[n] & _MANTISSA) | (_HIDDEN if field > _ZERO else _ZERO)
        single[n] = np.float32(np.int32(mantissa & (_ZERO - mantissa)))
    for n in range(count):
        field = (line[n] >> _SHIFT) & _FIELD
        zero = (line[n] & _MAGNITUDE) == _ZERO
        place = np.int32(max(field, _ONE)) + np.int32(single_bits[n] >> _SHIFT) - np.int32(127)
        out[n] = np.int32(NO_QUANTUM) if zero else place


@numba.njit(inline="always")
def _note(g: int, high: Any, low: Any, one: Any, one_bits: Any, peak: Any, last: Any, top: Any) -> None:
    """Take one run of one vector into the bounds of all vectors' run ``g``."""
    if high == _ZERO:
        return
    one_bits[0] = high
    exponent = low - 150
    peak[g] = max(peak[g], math.ldexp(np.float64(one[0]), -exponent))
    last[g] = min(last[g], exponent)
    top[g] = max(top[g], one[0])


@compiled(_SIGNATURE)
def rows(x: Any, group: int, peak: Any, last: Any, top: Any) -> bool:
    """Bounds over the rows of ``x`` [R, K] (fp32 patterns), for each run of ``group`` of K; outputs [runs].

    ``peak`` max|x| / q of any row, ``last`` the smallest exponent of q, ``top`` the largest |x|; what the outputs hold
    already counts too. False, at once, where x has NaN or infinity.
    """
    k = x.shape[1]
    single = np.empty(k, np.float32)
    single_bits = single.view(np.uint32)
    place = np.empty(k, np.int32)
    high, low = np.empty(_LANES, np.uint32), np.empty(_LANES, np.int32)
    one = np.empty(1, np.float32)
    one_bits = one.view(np.uint32)
    for r in range(x.shape[0]):
        line = x[r]
        _last_bits(line, single, single_bits, place)
        for g in range(peak.shape[0]):
            start, stop = g * group, min(g * group + group, k)
            high[:] = _ZERO
            low[:] = np.int32(NO_QUANTUM)
            whole = start + (stop - start) // _LANES * _LANES
            for at in range(start, whole, _LANES):
                words, places = line[at : at + _LANES], place[at : at + _LANES]
                for n in range(_LANES):
                    high[n] = max(high[n], words[n] & _MAGNITUDE)
                    low[n] = min(low[n], places[n])
            for n in range(whole, stop):
                high[0] = max(high[0], line[n] & _MAGNITUDE)
                low[0] = min(low[0], place[n])
            for half in (8, 4, 2, 1):
                for n in range(half):
                    high[n] = max(high[n], high[n + half])
                    low[n] = min(low[n], low[n + half])
            if high[0] >= _INF:
                return False
            _note(g, high[0], low[0], one, one_bits, peak, last, top)
    return True


@compiled(_SIGNATURE)
def columns(x: Any, group: int, peak: Any, last: Any, top: Any) -> bool:
    """As `rows` for the columns of ``x`` [K, C]."""
    k, width = x.shape
    single = np.empty(width, np.float32)
    single_bits = single.view(np.uint32)
    place = np.empty(width, np.int32)
    high, low = np.empty(width, np.uint32), np.empty(width, np.int32)
    one = np.empty(1, np.float32)
    one_bits = one.view(np.uint32)
    for g in range(peak.shape[0]):
        high[:] = _ZERO
        low[:] = np.int32(NO_QUANTUM)
        for d in range(g * group, min(g * group + group, k)):
            line = x[d]
            _last_bits(line, single, single_bits, place)
            for n in range(width):
                high[n] = max(high[n], line[n] & _MAGNITUDE)
                low[n] = min(low[n], place[n])
        for n in range(width):
            if high[n] >= _INF:
                return False
            _note(g, high[n], low[n], one, one_bits, peak, last, top)
    return True
