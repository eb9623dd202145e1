"""When a sum of products is exact whatever the order, so that a BLAS may compute it.

Let q be the largest power of two that divides every element of a row of A (a column of B). Every product is a
multiple of q_a q_b, and so is every partial sum. If sum |a||b| < 2^p q_a q_b, no partial sum in any order needs more
than p bits: p = 24 makes every order exact in fp32, p = 53 in float64, with or without fused multiply-add.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodel.numerics.rounding import F32

_SLACK = 1 + 1e-6
_NO_QUANTUM = 1 << 20


@dataclass(frozen=True, slots=True)
class Grain:
    """Bounds over the rows of one operand (vectors along K).

    ``peak``, ``total``, ``norm``: largest max|x| / q, sum|x| / q and root of sum x^2 / q^2 of any row. ``quantum`` is
    the smallest exponent of q, ``size`` the largest sum|x| and ``top`` the largest |x|.
    """

    peak: float
    total: float
    norm: float
    quantum: int
    size: float
    top: float


def grain(x: F32, axis: int, bits: int) -> Grain | None:
    """Bounds of a matrix's vectors along ``axis``; None where one is not finite or needs more than ``bits`` bits."""
    top = np.abs(x).max(axis=axis, keepdims=True)
    if not np.isfinite(top).all():
        return None
    _, exponent = np.frexp(top)
    if bits <= 24:
        whole_type: type[Any] = np.int32
        scaled = np.ldexp(x, bits - exponent)
    else:
        whole_type = np.int64
        scaled = np.ldexp(x.astype(np.float64), bits - exponent)
    whole = scaled.astype(whole_type)
    if not np.array_equal(whole, scaled):
        return None
    joined = np.bitwise_or.reduce(whole, axis=axis, keepdims=True)
    lowest = (joined & -joined).astype(np.float64)
    used = lowest > 0
    if not used.any():
        return Grain(0.0, 0.0, 0.0, _NO_QUANTUM, 0.0, 0.0)
    lowest[~used] = 1.0
    size = np.abs(whole).sum(axis=axis, keepdims=True, dtype=np.float64)
    squares = np.square(scaled, dtype=np.float64).sum(axis=axis, keepdims=True)
    quanta = np.log2(lowest).astype(np.int64) - bits + exponent
    return Grain(
        float((np.ldexp(top.astype(np.float64), bits - exponent) / lowest).max()),
        float((size / lowest).max()) * _SLACK,
        float((np.sqrt(squares) / lowest).max()) * _SLACK,
        int(quanta[used].min()),
        float(np.ldexp(size, exponent - bits).max()) * _SLACK,
        float(top.max()),
    )


def exact_in_any_order(a: F32, b: F32, bits: int, acc: F32 | None = None) -> bool:
    """True when every output of ``a`` [M, K] x ``b`` [K, N] (+ ``acc`` [M, N]) is exact in any order in ``bits`` bits.

    A sufficient test on bounds of rows and columns; False says nothing.
    """
    left = grain(a[:1], 1, min(bits, 24))
    if left is None:
        return False
    left = grain(a, 1, min(bits, 24))
    if left is None:
        return False
    right = grain(b, 0, min(bits, 24))
    if right is None:
        return False
    limit = float(1 << bits)
    bound = min(left.total * right.peak, left.peak * right.total, left.norm * right.norm)
    if bound >= limit:
        return False
    quantum = left.quantum + right.quantum
    if quantum < -149 or left.size * right.top >= 2.0**127:
        return False
    if acc is None:
        return True
    return _acc_fits(acc, quantum, min(left.size * right.top, left.top * right.size), limit)


def _acc_fits(acc: NDArray[Any], quantum: int, size: float, limit: float) -> bool:
    """True when starting from ``acc`` keeps the chain exact: a multiple of the quantum, small enough, no -0."""
    top = np.abs(acc).max(initial=0.0)
    if not np.isfinite(top):
        return False
    if (np.signbit(acc) & (acc == 0)).any():
        return False
    if quantum >= _NO_QUANTUM // 2:
        return True
    units = np.ldexp(acc.astype(np.float64), -quantum)
    return bool(np.array_equal(units, np.rint(units)) and np.ldexp(size + float(top), -quantum) < limit)
