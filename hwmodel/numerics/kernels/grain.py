"""What `exactness` asks of the operands of grouped sums: bounds of every run of K.

A run is looked at twice: for its largest and its smallest element, and for the bits that are set in any of its
elements when all are written as multiples of the smallest one's last place. The lowest of these bits is q. All of it is
arithmetic of 32 bits, which compilers make vectors of; numba widens every result, so each is cut to its width at once.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from hwmodel.numerics.kernels.signatures import boolean, compiled, f64, given, i64, made, u32

_MANTISSA = np.uint32(0x7FFFFF)
_HIDDEN = np.uint32(0x800000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_ZERO = np.uint32(0)
_ONE = np.uint32(1)
_SHIFT = np.uint32(23)
_MOST = np.uint32(31)
NO_QUANTUM = 1 << 20
_LANES = 16
_INF = np.uint32(0x7F800000)
_SIGNATURE = boolean(given(u32, 2), i64, made(f64, 1), made(i64, 1), made(f64, 1))


@numba.njit(inline="always")
def _extremes(words: Any, high: Any, low: Any) -> None:
    """Largest magnitude, and the smallest but zero, less 1 (which zero wraps around)."""
    for n in range(words.shape[0]):
        magnitude = np.uint32(words[n] & _MAGNITUDE)
        high[n] = max(high[n], magnitude)
        low[n] = min(low[n], np.uint32(magnitude - _ONE))


@numba.njit(inline="always")
def _join(words: Any, least: Any, joined: Any) -> None:
    """Bits set in any element, as a multiple of the last place at exponent field ``least``.

    Bits above 2^31 are lost. None of them can be the lowest: the smallest element has a bit below 2^24.
    """
    for n in range(words.shape[0]):
        magnitude = np.uint32(words[n] & _MAGNITUDE)
        field = np.uint32(magnitude >> _SHIFT)
        mantissa = np.uint32(magnitude & _MANTISSA)
        whole = np.uint32(mantissa | _HIDDEN) if field > _ZERO else mantissa
        places = np.uint32(max(field, _ONE) - least[n])
        inside = min(places, _MOST) if magnitude > _ZERO else _ZERO
        joined[n] = np.uint32(joined[n] | np.uint32(whole << inside))


@numba.njit(inline="always")
def _quanta(high: Any, least: Any, joined: Any, lowest: Any, quantum: Any, scale: Any) -> None:
    """Exponent of each q (``NO_QUANTUM`` for zeros alone) and, as bits of a float64, 1 / q."""
    bits = lowest.view(np.uint32)
    for n in range(high.shape[0]):
        lowest[n] = np.float32(np.int32(np.uint32(joined[n] & np.uint32(_ZERO - joined[n]))))
    for n in range(high.shape[0]):
        exponent = np.int32(np.int32(least[n]) + np.int32(bits[n] >> _SHIFT) - np.int32(277))  # biases of 127, 150
        quantum[n] = np.int32(NO_QUANTUM) if high[n] == _ZERO else exponent
        scale[n] = np.int64(1023 - exponent) << 52


@compiled(_SIGNATURE)
def rows(x: Any, group: int, peak: Any, last: Any, top: Any) -> bool:
    """Bounds over the rows of ``x`` [R, K] (fp32 patterns), for each run of ``group`` of K; outputs [runs].

    ``peak`` max|x| / q of any row, ``last`` the smallest exponent of q, ``top`` the largest |x|; what the outputs hold
    already counts too. False, at once, where x has NaN or infinity.
    """
    k, runs = x.shape[1], peak.shape[0]
    high, low = np.empty(_LANES, np.uint32), np.empty(_LANES, np.uint32)
    least, joined = np.empty(_LANES, np.uint32), np.empty(_LANES, np.uint32)
    tops, places, bits = np.empty(runs, np.uint32), np.empty(runs, np.uint32), np.empty(runs, np.uint32)
    lowest, quantum, scale = np.empty(runs, np.float32), np.empty(runs, np.int32), np.empty(runs, np.int64)
    values, inverses = tops.view(np.float32), scale.view(np.float64)
    for r in range(x.shape[0]):
        line = x[r]
        for g in range(runs):
            start, stop = g * group, min(g * group + group, k)
            whole = start + (stop - start) // _LANES * _LANES
            high[:] = _ZERO
            low[:] = _MAGNITUDE
            joined[:] = _ZERO
            for at in range(start, whole, _LANES):
                _extremes(line[at : at + _LANES], high, low)
            _extremes(line[whole:stop], high, low)
            for half in (8, 4, 2, 1):
                for n in range(half):
                    high[n] = max(high[n], high[n + half])
                    low[n] = min(low[n], low[n + half])
            if high[0] >= _INF:
                return False
            least[:] = max(np.uint32(np.uint32(low[0] + _ONE) >> _SHIFT), _ONE)
            for at in range(start, whole, _LANES):
                _join(line[at : at + _LANES], least, joined)
            _join(line[whole:stop], least, joined)
            for half in (8, 4, 2, 1):
                for n in range(half):
                    joined[n] |= joined[n + half]
            tops[g], places[g], bits[g] = high[0], least[0], joined[0]
        _quanta(tops, places, bits, lowest, quantum, scale)
        for g in range(runs):
            peak[g] = max(peak[g], np.float64(values[g]) * inverses[g])
            last[g] = min(last[g], np.int64(quantum[g]))
            top[g] = max(top[g], np.float64(values[g]))
    return True


@compiled(_SIGNATURE)
def columns(x: Any, group: int, peak: Any, last: Any, top: Any) -> bool:
    """As `rows` for the columns of ``x`` [K, C]."""
    k, width = x.shape
    high, low = np.empty(width, np.uint32), np.empty(width, np.uint32)
    least, joined = np.empty(width, np.uint32), np.empty(width, np.uint32)
    lowest, quantum, scale = np.empty(width, np.float32), np.empty(width, np.int32), np.empty(width, np.int64)
    values, inverses = high.view(np.float32), scale.view(np.float64)
    for g in range(peak.shape[0]):
        run = x[g * group : min(g * group + group, k)]
        high[:] = _ZERO
        low[:] = _MAGNITUDE
        joined[:] = _ZERO
        for d in range(run.shape[0]):
            _extremes(run[d], high, low)
        for n in range(width):
            if high[n] >= _INF:
                return False
        for n in range(width):
            least[n] = max(np.uint32(np.uint32(low[n] + _ONE) >> _SHIFT), _ONE)
        for d in range(run.shape[0]):
            _join(run[d], least, joined)
        _quanta(high, least, joined, lowest, quantum, scale)
        for n in range(width):
            peak[g] = max(peak[g], np.float64(values[n]) * inverses[n])
            last[g] = min(last[g], np.int64(quantum[n]))
            top[g] = max(top[g], np.float64(values[n]))
    return True
