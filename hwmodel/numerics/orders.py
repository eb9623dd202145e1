"""Sums of products in a stated order: each function writes ``out`` [M, N] for ``a`` [M, K] and ``b`` [K, N], fp32.

``acc`` [M, N] is where every sum starts (+0 without it) and may be ``out`` itself. Compiled kernels, numpy and, where
every order is exact, the BLAS give the same bits; the shape and the data decide which is fastest. Every NaN is
canonical.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodel.numerics.backend import THREAD_SECONDS, kernels, run_slices, thread_count
from hwmodel.numerics.exact_sums import exact_product
from hwmodel.numerics.exactness import exact_in_any_order, runs_are_exact
from hwmodel.numerics.rounding import F32, canonical_nan

Array = NDArray[Any]
_TERMS = 1 << 15
"""Products held at a time where a chain is built from separate multiplications and additions."""
_COMPILED_RATE = 35e9  # multiply-adds a second of one core; they choose a path, never a bit
_EINSUM_RATE = 7e9
_CHAIN_RATE = 0.8e9
"""Separate steps, where numpy's einsum cannot start from sums that are there."""
_BLAS_RATE = 60e9
_WORTH_A_TEST = 2e-4


def sequential(a: F32, b: F32, acc: F32 | None, out: F32) -> None:
    """((acc + a_0 b_0) + a_1 b_1) + ... with k ascending, each product and each sum rounded to fp32."""
    work = a.size * b.shape[1]
    numpy_rate = _EINSUM_RATE if acc is None else _CHAIN_RATE
    compiled = kernels("products", work / numpy_rate)
    rate = numpy_rate if compiled is None else _COMPILED_RATE
    gain = work * (1 / rate - 1 / _BLAS_RATE)
    if gain > _WORTH_A_TEST and gain > _test_seconds(a, b) * thread_count() and exact_in_any_order(a, b, 24, acc):
        _blas_exact(a, b, acc, out)
    elif compiled is not None:
        _start(acc, out)
        _in_threads(compiled.chain, a, b, out)
    else:
        sequential_numpy(a, b, acc, out)


def _test_seconds(a: F32, b: F32) -> float:
    """What `exact_in_any_order` takes."""
    return (a.size + b.size) * 6e-9


def _blas_exact(a: F32, b: F32, acc: F32 | None, out: F32) -> None:
    """A BLAS product that was proved exact; adding +0 turns a -0 that some kernels make into the chain's +0."""
    product = np.matmul(a, b)
    np.add(product, np.float32(0) if acc is None else acc, out=out)


def _start(acc: F32 | None, out: F32) -> None:
    if acc is None:
        out.fill(0)
    elif acc is not out:
        np.copyto(out, acc)


def _in_threads(kernel: Any, a: F32, b: F32, out: F32, *more: int) -> None:
    """Run a kernel that adds to ``out``, over slices of rows or, where there are few, of columns."""
    rows, cols = out.shape
    if cols < 8 and rows > cols:
        kernel(b.T, a.T, out.T, *more)  # the same sums, with more of them side by side
        return
    seconds = a.size * cols / _COMPILED_RATE
    if seconds < THREAD_SECONDS:
        kernel(a, b, out, *more)
    elif rows >= 24 or rows > cols:
        run_slices(rows, seconds, lambda start, stop: kernel(a[start:stop], b, out[start:stop], *more), 12)
    else:
        run_slices(cols, seconds, lambda start, stop: kernel(a, b[:, start:stop], out[:, start:stop], *more), 32)


def sequential_numpy(a: F32, b: F32, acc: F32 | None, out: F32) -> None:
    """`sequential` with numpy alone: its einsum where that is known to keep the order, else step by step."""
    rows, k = a.shape
    cols = b.shape[1]
    with np.errstate(all="ignore"):
        if acc is not None or max(rows, cols) < 2 or k == 0 or not einsum_is_sequential():
            _chain(a, b, acc, out)
        elif cols >= 2:
            _einsum(a, b, out)
        else:
            turned = np.empty((1, rows), np.float32)
            _einsum(b.T, a.T, turned)
            out[...] = turned.T
        canonical_nan(out)


def _einsum(a: F32, b: F32, out: F32) -> None:
    right = np.ascontiguousarray(b)

    def some_rows(start: int, stop: int) -> None:
        left = np.ascontiguousarray(a[start:stop])
        with np.errstate(all="ignore"):  # the state belongs to the thread
            np.einsum("mk,kn->mn", left, right, out=out[start:stop])

    run_slices(a.shape[0], a.size * b.shape[1] / _EINSUM_RATE, some_rows)


def _chain(a: F32, b: F32, acc: F32 | None, out: F32) -> None:
    """Multiply and add as separate steps over blocks of rows, some k at a time."""
    k, cols = b.shape
    step = max(1, _TERMS // (4 * max(1, cols)))
    for row in range(0, a.shape[0], step):
        left = a[row : row + step]
        shape = (left.shape[0], cols)
        total = np.zeros(shape, np.float32) if acc is None else acc[row : row + step].copy()
        depth = max(1, _TERMS // max(1, total.size))
        terms = np.empty((min(depth, max(k, 1)), *shape), np.float32)
        for at in range(0, k, depth):
            end = min(at + depth, k)
            some = terms[: end - at]
            np.multiply(left[:, at:end].T[:, :, None], b[at:end, None, :], out=some)
            for term in some:
                np.add(total, term, out=total)
        out[row : row + step] = total


@cache
def einsum_is_sequential() -> bool:
    """True when this numpy's einsum adds with k ascending and rounds products, so that it may stand for the chain."""
    rng = np.random.RandomState(7)
    for rows, k, cols in ((1, 9, 2), (3, 130, 5), (2, 64, 17), (5, 33, 64), (2, 7, 1030)):
        a, b = rng.standard_normal((rows, k)).astype(np.float32), rng.standard_normal((k, cols)).astype(np.float32)
        want = np.empty((rows, cols), np.float32)
        _chain(a, b, None, want)
        if not np.array_equal(want, np.einsum("mk,kn->mn", a, b)):
            return False
    # (1 + 2^-12)^2 - (1 + 2^-11): 0 when the product is rounded, 2^-24 when it is fused with the addition.
    a = np.array([[-(1 + 2.0**-11), 1 + 2.0**-12]] * 2, np.float32)
    b = np.array([[1.0] * 16, [1 + 2.0**-12] * 16], np.float32)
    return not np.einsum("mk,kn->mn", a, b).any()


def in_float64(a: F32, b: F32, acc: F32 | None, out: F32) -> None:
    """Ascending k in float64 from ``acc`` or +0 (products are exact there), one rounding to fp32."""
    compiled = kernels("products", a.size * b.shape[1] / _EINSUM_RATE)
    if compiled is not None:
        _start(acc, out)
        _in_threads(compiled.chain_in_float64, a, b, out)
        return
    rows, k = a.shape
    step = max(1, _TERMS // max(1, b.shape[1]))
    for row in range(0, rows, step):
        left = a[row : row + step].astype(np.float64)
        shape = (left.shape[0], b.shape[1])
        total = np.zeros(shape) if acc is None else acc[row : row + step].astype(np.float64)
        term = np.empty_like(total)
        with np.errstate(all="ignore"):
            for at in range(k):
                np.multiply(left[:, at : at + 1], b[at].astype(np.float64), out=term)
                np.add(total, term, out=total)
        with np.errstate(all="ignore"):
            out[row : row + step] = total
    canonical_nan(out)


def grouped(a: F32, b: F32, acc: F32 | None, out: F32, group: int) -> None:
    """Exact sums over runs of ``group`` of k, each rounded once to fp32; runs added in fp32, ascending."""
    compiled = kernels("products", a.size * b.shape[1] / _BLAS_RATE)
    if compiled is not None and _grouped_compiled(compiled, a, b, acc, out, group):
        return
    _start(acc, out)
    with np.errstate(all="ignore"):
        for start in range(0, a.shape[1], group):
            out += exact_product(a[:, start : start + group], b[start : start + group])
    canonical_nan(out)


def by_blas(a: F32, b: F32, acc: F32 | None, out: F32) -> None:
    """What the BLAS makes of a @ b, then + ``acc``."""
    with np.errstate(all="ignore"):
        product = np.matmul(a, b)
        np.copyto(out, canonical_nan(product if acc is None else product + acc))


def _grouped_compiled(compiled: ModuleType, a: F32, b: F32, acc: F32 | None, out: F32, group: int) -> bool:
    """Write ``out`` and return True where every run is exact in fp32 or in float64 in any order."""
    bits = runs_are_exact(a, b, group)
    if bits == 0:
        return False
    _start(acc, out)
    _in_threads(compiled.grouped if bits == 24 else compiled.grouped_in_float64, a, b, out, group)
    return True
