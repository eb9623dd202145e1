"""Chains of products with numpy alone: k ascending, every product and every sum rounded, in fp32 or float64.

numpy's einsum does that for a C-ordered right operand of at least two columns, at several times the speed of separate
multiplications and additions. It does not promise to, so a small test decides once in a process whether it may.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodel.numerics.backend import run_slices

Array = NDArray[Any]
_TERMS = 1 << 15
"""Products held at a time where a chain is built from separate steps."""
_ROWS = 16
"""Rows that go on from their sums together; each costs the others one more term."""
EINSUM_RATE = 7e9  # multiply-adds a second of one core
STEPS_RATE = 0.8e9


def chain(a: Array, b: Array, acc: Array | None, out: Array) -> None:
    """out [M, N] = ((acc + a_0 b_0) + a_1 b_1) + ... for ``a`` [M, K] and ``b`` [K, N] of one float type.

    ``acc`` (+0 without it) may be ``out``. The caller takes care of floating-point warnings.
    """
    rows, k = a.shape
    cols = b.shape[1]
    if k == 0 or max(rows, cols) < 2 or not einsum_is_sequential(a.dtype.char):
        by_steps(a, b, acc, out)
    elif cols < 2:
        turned = np.empty((1, rows), out.dtype)
        chain(b.T, a.T, None if acc is None else acc.T, turned)
        out[...] = turned.T
    elif acc is None:
        _by_einsum(a, b, out)
    elif _can_be_a_term(acc):
        _go_on_by_einsum(a, b, acc, out)
    else:
        by_steps(a, b, acc, out)


def _by_einsum(a: Array, b: Array, out: Array) -> None:
    right = np.ascontiguousarray(b)

    def some_rows(start: int, stop: int) -> None:
        left = np.ascontiguousarray(a[start:stop])
        with np.errstate(all="ignore"):  # the state belongs to the thread
            np.einsum("mk,kn->mn", left, right, out=out[start:stop])

    run_slices(a.shape[0], a.size * b.shape[1] / EINSUM_RATE, some_rows)


def _can_be_a_term(acc: Array) -> bool:
    """True when 0 x acc is 0 and 0 + acc is acc: finite, and no -0."""
    return bool(np.isfinite(acc).all()) and not (np.signbit(acc) & (acc == 0)).any()


def _go_on_by_einsum(a: Array, b: Array, acc: Array, out: Array) -> None:
    """Let row i's chain begin with 1 x acc[i]: K grows by the rows of a block, whose other new terms are zeros."""
    rows, k = a.shape
    left = np.zeros((_ROWS, _ROWS + k), a.dtype)
    left[:, :_ROWS] = np.eye(_ROWS, dtype=a.dtype)
    right = np.zeros((_ROWS + k, b.shape[1]), a.dtype)
    right[_ROWS:] = b
    for row in range(0, rows, _ROWS):
        count = min(_ROWS, rows - row)
        left[:count, _ROWS:] = a[row : row + count]
        right[:count] = acc[row : row + count]
        np.einsum("mk,kn->mn", left[:count], right, out=out[row : row + count])


def by_steps(a: Array, b: Array, acc: Array | None, out: Array) -> None:
    """`chain` as separate multiplications and additions over blocks of rows, some k at a time."""
    k, cols = b.shape
    step = max(1, _TERMS // (4 * max(1, cols)))
    for row in range(0, a.shape[0], step):
        left = a[row : row + step]
        shape = (left.shape[0], cols)
        total = np.zeros(shape, a.dtype) if acc is None else acc[row : row + step].copy()
        depth = max(1, _TERMS // max(1, total.size))
        terms = np.empty((min(depth, max(k, 1)), *shape), a.dtype)
        for at in range(0, k, depth):
            end = min(at + depth, k)
            some = terms[: end - at]
            np.multiply(left[:, at:end].T[:, :, None], b[at:end, None, :], out=some)
            for term in some:
                np.add(total, term, out=total)
        out[row : row + step] = total


@cache
def einsum_is_sequential(kind: str) -> bool:
    """True when this numpy's einsum adds with k ascending and rounds products, for type ``kind`` (``f`` or ``d``)."""
    rng = np.random.RandomState(7)
    dtype = np.dtype(kind)
    for rows, k, cols in ((1, 9, 2), (3, 130, 5), (2, 64, 17), (5, 33, 64), (2, 7, 1030)):
        a, b = rng.standard_normal((rows, k)).astype(dtype), rng.standard_normal((k, cols)).astype(dtype)
        want = np.empty((rows, cols), dtype)
        by_steps(a, b, None, want)
        if not np.array_equal(want, np.einsum("mk,kn->mn", a, b)):
            return False
    # (1 + e)^2 - (1 + 2 e) with e^2 too small for the type: 0 when the product is rounded, e^2 when it is fused.
    small = 2.0 ** -(12 if kind == "f" else 27)
    a = np.array([[-(1 + 2 * small), 1 + small]] * 2, dtype)
    b = np.array([[1.0] * 16, [1 + small] * 16], dtype)
    return not np.einsum("mk,kn->mn", a, b).any()
