"""Sums of products in a stated order: each function writes ``out`` [M, N] for ``a`` [M, K] and ``b`` [K, N], fp32.

``acc`` [M, N] is where every sum starts (+0 without it) and may be ``out`` itself. Compiled kernels, numpy and, where
every order is exact, the BLAS give the same bits; the shape and the data decide which is fastest. Every NaN is
canonical.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodel.numerics.backend import THREAD_SECONDS, kernels, run_slices, thread_count
from hwmodel.numerics.chains import EINSUM_RATE, STEPS_RATE, chain
from hwmodel.numerics.exact_sums import exact_product, float64_panels
from hwmodel.numerics.exactness import exact_in_any_order, runs_are_exact
from hwmodel.numerics.rounding import F32, canonical_nan

Array = NDArray[Any]
_ELEMENTS = 1 << 17
"""float64 sums held at a time."""
_COMPILED_RATE = 35e9  # multiply-adds a second of one core; they choose a path, never a bit
_BLAS_RATE = 60e9
_WORTH_A_TEST = 2e-4


def sequential(a: F32, b: F32, acc: F32 | None, out: F32) -> None:
    """((acc + a_0 b_0) + a_1 b_1) + ... with k ascending, each product and each sum rounded to fp32."""
    work = a.size * b.shape[1]
    numpy_rate = EINSUM_RATE if acc is None else EINSUM_RATE / 2
    compiled = kernels("products", work / numpy_rate)
    rate = numpy_rate if compiled is None else _COMPILED_RATE
    gain = work * (1 / rate - 1 / _BLAS_RATE)
    worth_it = gain > _WORTH_A_TEST and gain > _test_seconds(a, b) * thread_count()
    if worth_it and exact_in_any_order(a, b, 24, acc, thorough=compiled is None):
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
    if cols < 8 and rows > cols:  # the same sums, with more of them side by side
        turned = np.ascontiguousarray(out.T)
        kernel(np.ascontiguousarray(b.T), np.ascontiguousarray(a.T), turned, *more)
        out[...] = turned.T
        return
    if a.strides[1] != a.itemsize:
        a = np.ascontiguousarray(a)
    seconds = a.size * cols / _COMPILED_RATE
    if seconds < THREAD_SECONDS or rows >= 24 or rows > cols:
        right = np.ascontiguousarray(b)
        if seconds < THREAD_SECONDS:
            kernel(a, right, out, *more)
        else:
            run_slices(rows, seconds, lambda start, stop: kernel(a[start:stop], right, out[start:stop], *more), 12)
        return

    def some_columns(start: int, stop: int) -> None:
        part = np.ascontiguousarray(out[:, start:stop])
        kernel(a, np.ascontiguousarray(b[:, start:stop]), part, *more)
        out[:, start:stop] = part

    run_slices(cols, seconds, some_columns, 32)


def sequential_numpy(a: F32, b: F32, acc: F32 | None, out: F32) -> None:
    """`sequential` with numpy alone."""
    with np.errstate(all="ignore"):
        chain(a, b, acc, out)
    canonical_nan(out)


def in_float64(a: F32, b: F32, acc: F32 | None, out: F32) -> None:
    """Ascending k in float64 from ``acc`` or +0 (products are exact there), one rounding to fp32."""
    compiled = kernels("products", a.size * b.shape[1] / STEPS_RATE)
    if compiled is not None:
        _start(acc, out)
        _in_threads(compiled.chain_in_float64, a, b, out)
        return
    with np.errstate(all="ignore"):
        for columns, right in float64_panels(b):
            step = max(1, _ELEMENTS // max(right.shape))
            for row in range(0, a.shape[0], step):
                some = slice(row, row + step), columns
                total = np.empty(out[some].shape)
                start = None if acc is None else acc[some].astype(np.float64)
                chain(a[row : row + step].astype(np.float64), right, start, total)
                out[some] = total
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
