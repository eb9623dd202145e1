"""When a sum of products is exact whatever the order, so that a BLAS may compute it.

Let q be the largest power of two that divides every element of a row of A (a column of B). Every product is a
multiple of q_a q_b, and so is every partial sum. If sum |a||b| < 2^p q_a q_b, no partial sum in any order needs more
than p bits: p = 24 makes every order exact in fp32, p = 53 in float64, with or without fused multiply-add. The sum is
bounded by K max|a| max|b| and by the product of the norms (Cauchy-Schwarz), so the test costs one pass over A and B;
where these bounds just fail, a product of the magnitudes can still decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodel.numerics.backend import run_slices
from hwmodel.numerics.rounding import F32

Array = NDArray[Any]
_CHUNK = 1 << 15
_PANEL = 1 << 18
"""Magnitudes of an operand, or their sums, that are held at a time."""
_NO_QUANTUM = 1 << 20
_SMALLEST_PEAK = 2.0**-100


@dataclass(frozen=True, slots=True)
class Grain:
    """One operand's vectors along K: ``quanta`` is the exponent of each one's q, the rest bounds over all of them: the
    largest max|x| / q, the largest norm / q, the smallest exponent of q, and the largest |x|."""

    quanta: Array
    peak: float
    norm: float
    quantum: int
    top: float


def _nothing(count: int) -> Grain:
    """Bounds of ``count`` vectors of zeros."""
    return Grain(np.zeros(count, np.int64), 0.0, 0.0, _NO_QUANTUM, 0.0)


def grain(x: F32, axis: int) -> Grain | None:
    """Bounds of a matrix's vectors along ``axis``; None where one is not finite or needs more than 24 bits.

    Vectors are looked at some at a time, so a matrix that fails usually does so at once.
    """
    vectors = x if axis == 1 else x.T
    parts = []
    step = max(1, _CHUNK // max(1, vectors.shape[1]))
    for start in [0, *range(1, vectors.shape[0], step)]:
        end = 1 if start == 0 else start + step
        part = _some_vectors(x[start:end] if axis == 1 else x[:, start:end], axis)
        if part is None:
            return None
        parts.append(part)
    return Grain(
        np.concatenate([part.quanta for part in parts]),
        max(part.peak for part in parts),
        max(part.norm for part in parts),
        min(part.quantum for part in parts),
        max(part.top for part in parts),
    )


def _some_vectors(x: F32, axis: int) -> Grain | None:
    count = x.shape[1 - axis]
    if x.size == 0:
        return _nothing(count)
    top = np.abs(x).max(axis=axis)
    largest = float(top.max())
    if not np.isfinite(largest):
        return None
    used = top > 0
    if not used.any():
        return _nothing(count)
    if float(top[used].min()) < _SMALLEST_PEAK:
        return None  # so small that the scaling below could leave fp32
    _, exponent = np.frexp(np.where(used, top, np.float32(1)))
    shift = np.ldexp(np.float32(1), 24 - exponent)
    scaled = x * (shift[:, None] if axis == 1 else shift)
    whole = scaled.astype(np.int32)
    if not np.array_equal(whole, scaled):
        return None
    joined = np.bitwise_or.reduce(whole, axis=axis)
    lowest = np.where(used, joined & -joined, 1).astype(np.float64)
    squares = np.einsum("ij,ij->i" if axis == 1 else "ij,ij->j", scaled, scaled).astype(np.float64)
    slack = 1 + x.shape[axis] * 2.0**-22  # of sums of non-negative fp32 numbers in any order
    quanta = np.log2(lowest).astype(np.int64) - 24 + exponent
    return Grain(
        quanta,
        float((top.astype(np.float64) * shift / lowest).max()),
        float((np.sqrt(squares) / lowest).max()) * slack,
        int(quanta[used].min()),
        largest,
    )


def exact_in_any_order(a: F32, b: F32, bits: int, acc: F32 | None = None, thorough: bool = False) -> bool:
    """True when every output of ``a`` [M, K] x ``b`` [K, N] (+ ``acc`` [M, N]) is exact in any order in ``bits`` bits.

    A sufficient test on bounds of rows and columns; False says nothing. ``thorough`` spends a BLAS product where those
    bounds fail by less than a factor of four.
    """
    left = grain(a, 1)
    right = None if left is None else grain(b, 0)
    if left is None or right is None:
        return False
    k, limit = a.shape[1], float(1 << bits)
    bound = min(k * left.peak * right.peak, left.norm * right.norm)
    if bound >= limit and not (thorough and bound < 4 * limit and _magnitudes_fit(a, b, left, right, limit)):
        return False
    quantum, size = left.quantum + right.quantum, k * left.top * right.top
    if bits <= 24 and (quantum < -149 or size >= 2.0**127):
        return False  # fp32 ends before the bits do
    return acc is None or _acc_fits(acc, quantum, size, limit)


def _magnitudes_fit(a: F32, b: F32, left: Grain, right: Grain, limit: float) -> bool:
    """True when sum |a||b| < limit x q_a q_b for every output. The sums have no sign, so rounding them costs little."""
    columns = np.abs(b) * np.ldexp(np.float32(1), -right.quanta)
    shifts = np.ldexp(np.float32(1), -left.quanta)[:, None]
    slack = 1 + a.shape[1] * 2.0**-22
    step = max(64, _PANEL // max(1, *columns.shape))
    for start in range(0, a.shape[0], step):
        rows = np.abs(a[start : start + step]) * shifts[start : start + step]
        if float(np.matmul(rows, columns).max()) * slack >= limit:
            return False
    return True


def _acc_fits(acc: NDArray[Any], quantum: int, size: float, limit: float) -> bool:
    """True when starting from ``acc`` keeps the chain exact: a multiple of the quantum, small enough, no -0."""
    top = float(np.abs(acc).max(initial=0.0))
    if not np.isfinite(top) or (np.signbit(acc) & (acc == 0)).any():
        return False
    if quantum >= _NO_QUANTUM // 2:
        return True
    units = acc.astype(np.float64) * 2.0**-quantum if -900 < quantum < 900 else np.full(1, np.inf)
    return bool(np.array_equal(units, np.rint(units)) and (size + top) * 2.0**-quantum < limit)


def runs_are_exact(a: F32, b: F32, group: int) -> int:
    """24 when every run of ``group`` of K has exact fp32 sums in any order, 53 when exact float64 ones, else 0.

    Needs compiled kernels (`kernels.grain`). Looks at each run's own quanta, so block scales do not spoil it.
    """
    from hwmodel.numerics.kernels import grain as compiled

    runs = -(-a.shape[1] // group)
    bound = np.full(runs, float(min(group, a.shape[1])))
    size, quantum = bound.copy(), np.zeros(runs, np.int64)
    rows, columns = (np.ascontiguousarray(x).view(np.uint32) for x in (a, b))
    seen: list[tuple[bool, Array, Array, Array]] = []

    def some_rows(start: int, stop: int) -> None:
        peak, last, top = np.zeros(runs), np.full(runs, _NO_QUANTUM, np.int64), np.zeros(runs)
        seen.append((compiled.rows(rows[start:stop], group, peak, last, top), peak, last, top))

    def some_runs(start: int, stop: int) -> None:
        peak, last, top = np.zeros(runs), np.full(runs, _NO_QUANTUM, np.int64), np.zeros(runs)
        here, some = slice(start, stop), columns[start * group : stop * group]
        seen.append((compiled.columns(some, group, peak[here], last[here], top[here]), peak, last, top))

    for task, extent, elements in ((some_rows, a.shape[0], a.size), (some_runs, runs, b.size)):
        seen.clear()
        run_slices(extent, elements * 2e-9, task)
        if not all(each[0] for each in seen):
            return 0
        bound *= np.max([each[1] for each in seen], axis=0)
        quantum += np.min([each[2] for each in seen], axis=0)
        size *= np.max([each[3] for each in seen], axis=0)
    limit = bound.max(initial=0)
    inside_fp32 = size.max(initial=0) < 2.0**127 and quantum.min(initial=0) >= -149
    return 24 if limit < 2.0**24 and inside_fp32 else 53 if limit < 2.0**53 else 0
