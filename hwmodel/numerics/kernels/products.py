"""Products in a stated order. Rows and columns do not depend on each other, so blocking them changes no bit.

A panel of columns of B is packed, and a few rows of A at a time run down it. ``a`` [M, K], ``b`` [K, N] and ``c``
[M, N] are fp32 of any strides; ``c`` holds the start of every sum and then the result.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from hwmodel.numerics.kernels.signatures import compiled, f32, given, i64, made, void
from hwmodel.numerics.kernels.tile import LANES, tile

PANEL = 2 * LANES
WIDE_PANEL = LANES
DEPTH = 256
"""k packed at a time: a panel is then 32 KiB."""
_NAN = np.float32(np.nan)
"""The canonical NaN, 0x7FC00000; the machine's own may have a sign."""
_ROWS = 3
_FUSED_ROWS = 4
_PLAIN = void(given(f32, 2, "A"), given(f32, 2), made(f32, 2))
_STRIDED = void(given(f32, 2, "A"), given(f32, 2, "A"), made(f32, 2, "A"))
_GROUPED_PLAIN = void(given(f32, 2, "A"), given(f32, 2), made(f32, 2), i64)
_GROUPED_STRIDED = void(given(f32, 2, "A"), given(f32, 2, "A"), made(f32, 2, "A"), i64)

_chain_rows, _chain_one = tile(_ROWS), tile(1)
_wide_rows, _wide_one = tile(_ROWS, wide=True), tile(1, wide=True)
_group_rows, _group_one = tile(_FUSED_ROWS, fused=True, grouped=True), tile(1, fused=True, grouped=True)
_wide_group_rows = tile(_ROWS, wide=True, fused=True, grouped=True)
_wide_group_one = tile(1, wide=True, fused=True, grouped=True)


@numba.njit(inline="always")
def _read(c: Any, j: int, width: int, panel: int, sums: Any) -> None:
    for i in range(c.shape[0]):
        line, into = c[i, j : j + width], sums[i * panel : i * panel + width]
        for n in range(width):
            into[n] = line[n]


@numba.njit(inline="always")
def _write(sums: Any, j: int, width: int, panel: int, c: Any) -> None:
    for i in range(c.shape[0]):
        line, into = sums[i * panel : i * panel + width], c[i, j : j + width]
        for n in range(width):
            into[n] = np.float32(line[n]) if line[n] == line[n] else _NAN


@numba.njit(inline="always")
def _pack(b: Any, start: int, depth: int, j: int, width: int, panel: int, packed: Any) -> None:
    for d in range(depth):
        line, into = b[start + d, j : j + width], packed[d * panel : d * panel + width]
        for n in range(width):
            into[n] = line[n]


@compiled(_PLAIN, _STRIDED)
def chain(a: Any, b: Any, c: Any) -> None:
    """c = (c + a_0 b_0) + a_1 b_1 ..., a product and a sum each rounded to fp32."""
    rows, k = a.shape
    cols = b.shape[1]
    packed = np.zeros(DEPTH * PANEL, np.float32)
    sums = np.zeros(rows * PANEL, np.float32)
    whole = rows - rows % _ROWS
    for j in range(0, cols, PANEL):
        width = min(PANEL, cols - j)
        _read(c, j, width, PANEL, sums)
        for start in range(0, k, DEPTH):
            depth = min(DEPTH, k - start)
            _pack(b, start, depth, j, width, PANEL, packed)
            for i in range(0, whole, _ROWS):
                _chain_rows(a, i, start, depth, packed, 0, PANEL, sums, i * PANEL)
            for i in range(whole, rows):
                _chain_one(a, i, start, depth, packed, 0, PANEL, sums, i * PANEL)
        _write(sums, j, width, PANEL, c)


@compiled(_PLAIN, _STRIDED)
def chain_in_float64(a: Any, b: Any, c: Any) -> None:
    """As `chain` with products and sums in float64, rounded to fp32 once at the end."""
    rows, k = a.shape
    cols = b.shape[1]
    packed = np.zeros(DEPTH * WIDE_PANEL, np.float64)
    sums = np.zeros(rows * WIDE_PANEL, np.float64)
    whole = rows - rows % _ROWS
    for j in range(0, cols, WIDE_PANEL):
        width = min(WIDE_PANEL, cols - j)
        _read(c, j, width, WIDE_PANEL, sums)
        for start in range(0, k, DEPTH):
            depth = min(DEPTH, k - start)
            _pack(b, start, depth, j, width, WIDE_PANEL, packed)
            for i in range(0, whole, _ROWS):
                _wide_rows(a, i, start, depth, packed, 0, WIDE_PANEL, sums, i * WIDE_PANEL)
            for i in range(whole, rows):
                _wide_one(a, i, start, depth, packed, 0, WIDE_PANEL, sums, i * WIDE_PANEL)
        _write(sums, j, width, WIDE_PANEL, c)


@compiled(_GROUPED_PLAIN, _GROUPED_STRIDED)
def grouped(a: Any, b: Any, c: Any, group: int) -> None:
    """c += sums over runs of ``group``, for runs whose sums are exact in fp32 in any order."""
    rows, k = a.shape
    cols = b.shape[1]
    runs = max(1, DEPTH // group)
    packed = np.zeros(runs * group * PANEL, np.float32)
    sums = np.zeros(rows * PANEL, np.float32)
    whole = rows - rows % _FUSED_ROWS
    for j in range(0, cols, PANEL):
        width = min(PANEL, cols - j)
        _read(c, j, width, PANEL, sums)
        for start in range(0, k, runs * group):
            depth = min(runs * group, k - start)
            _pack(b, start, depth, j, width, PANEL, packed)
            for i in range(0, whole, _FUSED_ROWS):
                for d in range(0, depth, group):
                    run = min(group, depth - d)
                    _group_rows(a, i, start + d, run, packed, d * PANEL, PANEL, sums, i * PANEL)
            for i in range(whole, rows):
                for d in range(0, depth, group):
                    run = min(group, depth - d)
                    _group_one(a, i, start + d, run, packed, d * PANEL, PANEL, sums, i * PANEL)
        _write(sums, j, width, PANEL, c)


@compiled(_GROUPED_PLAIN, _GROUPED_STRIDED)
def grouped_in_float64(a: Any, b: Any, c: Any, group: int) -> None:
    """As `grouped`, for runs whose sums are exact in float64 in any order; each is rounded to fp32 once."""
    rows, k = a.shape
    cols = b.shape[1]
    runs = max(1, DEPTH // group)
    packed = np.zeros(runs * group * WIDE_PANEL, np.float64)
    sums = np.zeros(rows * WIDE_PANEL, np.float32)
    whole = rows - rows % _ROWS
    for j in range(0, cols, WIDE_PANEL):
        width = min(WIDE_PANEL, cols - j)
        _read(c, j, width, WIDE_PANEL, sums)
        for start in range(0, k, runs * group):
            depth = min(runs * group, k - start)
            _pack(b, start, depth, j, width, WIDE_PANEL, packed)
            for i in range(0, whole, _ROWS):
                for d in range(0, depth, group):
                    run = min(group, depth - d)
                    _wide_group_rows(a, i, start + d, run, packed, d * WIDE_PANEL, WIDE_PANEL, sums, i * WIDE_PANEL)
            for i in range(whole, rows):
                for d in range(0, depth, group):
                    run = min(group, depth - d)
                    _wide_group_one(a, i, start + d, run, packed, d * WIDE_PANEL, WIDE_PANEL, sums, i * WIDE_PANEL)
        _write(sums, j, width, WIDE_PANEL, c)
