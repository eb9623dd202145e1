"""Sums of products in a stated order with numpy alone. `matmul` chooses between these and compiled kernels."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodel.numerics.backend import run_slices
from hwmodel.numerics.exactness import exact_in_any_order
from hwmodel.numerics.rounding import F32

Array = NDArray[Any]
_TERMS = 1 << 15
"""Products held at a time where a chain is built from separate multiplications and additions."""


def sequential(a: F32, b: F32, acc: F32 | None, out: F32) -> None:
    """out = ((acc + a_0 b_0) + a_1 b_1) + ... with k ascending, each product and each sum rounded to fp32."""
    rows, k = a.shape
    cols = b.shape[1]
    if k == 0 or rows == 0 or cols == 0:
        out[...] = 0 if acc is None else acc
        return
    if acc is None and einsum_is_sequential() and max(rows, cols) >= 2:
        if cols >= 2:
            _einsum(a, b, out)
        else:
            turned = np.empty((1, rows), np.float32)
            _einsum(b.T, a.T, turned)
            out[...] = turned.T
        return
    _chain(a, b, acc, out)


def _einsum(a: F32, b: F32, out: F32) -> None:
    right = np.ascontiguousarray(b)

    def some_rows(start: int, stop: int) -> None:
        left = np.ascontiguousarray(a[start:stop])
        with np.errstate(all="ignore"):  # the state belongs to the thread
            out[start:stop] = np.einsum("mk,kn->mn", left, right)

    run_slices(a.shape[0], a.size * b.shape[1] * 1.5e-10, some_rows)


def _chain(a: F32, b: F32, acc: F32 | None, out: F32) -> None:
    """Multiply and add as separate steps over blocks of rows, some k at a time."""
    k, cols = b.shape
    step = max(1, min(a.shape[0], _TERMS // (4 * cols)))
    for row in range(0, a.shape[0], step):
        left = a[row : row + step]
        total = (
            np.zeros((left.shape[0], cols), np.float32)
            if acc is None
            else acc[row : row + step].astype(np.float32)
        )
        depth = max(1, _TERMS // total.size)
        if total.size == 1 or depth == 1:
            term = np.empty_like(total)
            for at in range(k):
                np.multiply(left[:, at : at + 1], b[at], out=term)
                np.add(total, term, out=total)
        else:
            for at in range(0, k, depth):
                end = min(at + depth, k)
                terms = np.empty((end - at + 1, *total.shape), np.float32)
                terms[0] = total
                np.multiply(left[:, at:end].T[:, :, None], b[at:end, None, :], out=terms[1:])
                for term in terms[1:]:
                    np.add(total, term, out=total)
        out[row : row + step] = total


@cache
def einsum_is_sequential() -> bool:
    """True when this numpy's einsum adds with k ascending and rounds products, so that it may stand for the chain."""
    seen = True
    rng = np.random.RandomState(7)
    for rows, k, cols in ((1, 9, 2), (3, 130, 5), (2, 64, 17), (5, 33, 64), (2, 7, 1030)):
        a, b = (
            rng.standard_normal((rows, k)).astype(np.float32),
            rng.standard_normal((k, cols)).astype(np.float32),
        )
        want = np.empty((rows, cols), np.float32)
        _chain(a, b, None, want)
        seen &= bool(np.array_equal(want, np.einsum("mk,kn->mn", a, b)))
    # 1 + 2^-12 squared less 1 + 2^-11: 0 when the product is rounded, 2^-24 when it is fused with the addition.
    a = np.array([[-(1 + 2.0**-11), 1 + 2.0**-12]] * 2, np.float32)
    b = np.array([[1.0] * 16, [1 + 2.0**-12] * 16], np.float32)
    return seen and not np.einsum("mk,kn->mn", a, b).any()


def in_float64(a: F32, b: F32, acc: F32 | None, out: F32) -> None:
    """Ascending k in float64 from ``acc`` or +0 (products are exact there), one rounding to fp32."""
    rows, k = a.shape
    cols = b.shape[1]
    step = max(1, min(rows, _TERMS // max(1, cols)))
    for row in range(0, rows, step):
        total = (
            np.zeros((min(step, rows - row), cols))
            if acc is None
            else acc[row : row + step].astype(np.float64)
        )
        term = np.empty_like(total)
        left = a[row : row + step].astype(np.float64)
        for at in range(k):
            np.multiply(left[:, at : at + 1], b[at].astype(np.float64), out=term)
            np.add(total, term, out=total)
        out[row : row + step] = total


def grouped(a: F32, b: F32, acc: F32 | None, out: F32, group: int) -> None:
    """Exact sums over runs of ``group`` of k, each rounded once to fp32; runs added in fp32, ascending."""
    total = np.zeros(out.shape, np.float32) if acc is None else acc.astype(np.float32)
    for start in range(0, a.shape[1], group):
        left, right = a[:, start : start + group], b[start : start + group]
        total += exact_product(left, right)
    out[...] = total


def exact_product(a: F32, b: F32) -> F32:
    """The correctly rounded fp32 value of every exact sum of products [M, N]."""
    if exact_in_any_order(a, b, 24):
        return np.ascontiguousarray(a) @ np.ascontiguousarray(b) + np.float32(0)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    if exact_in_any_order(a, b, 53):
        return (wide_a @ wide_b).astype(np.float32) + np.float32(0)
    plain = np.outer(np.isfinite(a).all(axis=1), np.isfinite(b).all(axis=0))
    out = (wide_a @ wide_b).astype(np.float32)  # decides Inf and NaN
    for i, j in zip(*np.nonzero(plain), strict=True):
        out[i, j] = exact_dot(wide_a[i], wide_b[:, j])
    return out


def exact_dot(x: NDArray[np.float64], y: NDArray[np.float64]) -> np.float32:
    """Exact dot product of fp32 values (given in float64), rounded once to fp32."""
    terms = (x * y).tolist()  # exact: 48 bits
    near = math.fsum(terms)
    rest = math.fsum([*terms, -near])
    if rest:
        # Round to odd: below in magnitude, last bit set, so that the rounding to fp32 sees what float64 lost.
        if (rest > 0) != (near > 0):
            near = math.nextafter(near, 0.0)
        mantissa, exponent = math.frexp(near)
        whole = int(math.ldexp(mantissa, 53))
        near = math.ldexp(whole | 1 if whole >= 0 else -(-whole | 1), exponent - 53)
    return np.float32(near)
