"""The correctly rounded fp32 value of exact sums of products, whatever the operands."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hwmodel.numerics.exactness import exact_in_any_order
from hwmodel.numerics.rounding import F32

_ELEMENTS = 1 << 15
_PANEL = 1 << 17
"""Elements of an operand, or of a product, that are held in float64 at a time."""
_OVERFLOW_MIDDLE = 2.0**128 - 2.0**103


def exact_product(a: F32, b: F32) -> F32:
    """Exact sums of ``a`` [M, K] x ``b`` [K, N], each rounded once, half-even; NaN and infinities as in IEEE."""
    with np.errstate(all="ignore"):
        return _exact_product(a, b)


def _exact_product(a: F32, b: F32) -> F32:
    if exact_in_any_order(a, b, 24):
        exact: F32 = np.matmul(a, b) + np.float32(0)
        return exact
    finite_rows, finite_columns = np.isfinite(a).all(axis=1), np.isfinite(b).all(axis=0)
    if finite_rows.all() and finite_columns.all():
        return _finite_product(a, b)
    # A row that holds NaN or infinity has no finite output, and float64 finds which: nothing overflows there.
    out = _by_float64(a, b)
    rows, columns = np.ix_(finite_rows, finite_columns)
    out[rows, columns] = _exact_product(a[finite_rows], b[:, finite_columns])
    return out


def _finite_product(a: F32, b: F32) -> F32:
    if exact_in_any_order(a, b, 53):
        return _by_float64(a, b) + np.float32(0)
    out = np.empty((a.shape[0], b.shape[1]), np.float32)
    for columns, right in float64_panels(b):
        step = max(1, _ELEMENTS // right.shape[1])
        for row in range(0, a.shape[0], step):
            out[row : row + step, columns] = _compensated(a[row : row + step].astype(np.float64), right)
    return out


def float64_panels(b: F32) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Columns of ``b`` [K, N] in float64, some at a time: all of them would take twice the room of ``b``."""
    width = max(64, _PANEL // max(1, b.shape[0]))
    for start in range(0, b.shape[1], width):
        columns = slice(start, start + width)
        yield columns, b[:, columns].astype(np.float64)


def _by_float64(a: F32, b: F32) -> F32:
    """What the BLAS makes of the product in float64, in some order, each sum rounded to fp32."""
    out = np.empty((a.shape[0], b.shape[1]), np.float32)
    for columns, right in float64_panels(b):
        step = max(64, _PANEL // max(1, *right.shape))
        for row in range(0, a.shape[0], step):
            out[row : row + step, columns] = a[row : row + step].astype(np.float64) @ right
    return out


def _compensated(a: NDArray[np.float64], b: NDArray[np.float64]) -> F32:
    """Sums in float64 with the error of each addition added up beside them (T. Ogita, S. Rump, S. Oishi, 2005).

    Only a sum that lies on a midpoint of fp32, as far as float64 shows, needs its error's sign; where that is in doubt,
    the sum is done again in exact arithmetic.
    """
    total = np.zeros((a.shape[0], b.shape[1]))
    error, size = np.zeros_like(total), np.zeros_like(total)
    for k in range(a.shape[1]):
        term = a[:, k : k + 1] * b[k]  # exact: at most 48 bits
        after = total + term
        back = after - total
        error += (total - (after - back)) + (term - back)
        size += np.abs(term)
        total = after
    near = total + error
    rest = (total - near) + error  # near + rest is total + error, as |total| >= |error| where it matters
    rest = np.where(np.abs(total) >= np.abs(error), rest, (error - near) + total)
    rounded = near.astype(np.float32)
    toward = np.nextafter(rounded, np.where(near > rounded, np.float32(np.inf), np.float32(-np.inf)))
    wide = rounded.astype(np.float64)
    middle = (near != wide) & (near - wide == toward.astype(np.float64) - near)
    doubt = middle & (np.abs(rest) <= size * (a.shape[1] ** 2 * 2.0**-104))
    doubt |= np.abs(near) == _OVERFLOW_MIDDLE
    # Off the middle by ``rest``: step one float64 to that side and round again.
    side = middle & ~doubt
    if side.any():
        stepped = np.nextafter(near, np.where(rest > 0, np.inf, -np.inf))
        rounded = np.where(side, stepped.astype(np.float32), rounded)
    cancelled = (np.abs(near) <= size * (a.shape[1] ** 2 * 2.0**-50)) & (size > 0)
    for i, j in zip(*np.nonzero(doubt | cancelled), strict=True):
        rounded[i, j] = exact_dot(a[i], b[:, j])
    return rounded + np.float32(0)


def exact_dot(x: NDArray[np.float64], y: NDArray[np.float64]) -> np.float32:
    """Exact dot product of finite fp32 values (given in float64), rounded once to fp32."""
    terms = (x * y).tolist()  # exact: 48 bits
    near = math.fsum(terms)
    rest = math.fsum([*terms, -near])
    if rest:
        # Round to odd: the neighbour below in magnitude, last bit set, shows fp32's rounding what float64 lost.
        if (rest > 0) != (near > 0):
            near = math.nextafter(near, 0.0)
        mantissa, exponent = math.frexp(near)
        whole = int(math.ldexp(mantissa, 53))
        near = math.ldexp(whole | 1 if whole >= 0 else -(-whole | 1), exponent - 53)
    with np.errstate(over="ignore"):
        return np.float32(near)
