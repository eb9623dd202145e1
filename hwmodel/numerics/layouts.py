"""Bytes of a matrix of codes: packed rows as they lie in global memory, and the fractal layouts of on-chip buffers.

A fractal is 16 rows x 32 bytes. ``e32`` below is the number of elements in 32 bytes: 64 for 4-bit, 32 for 8-bit,
16 for 16-bit and 8 for 32-bit elements. Every layout is a permutation of the padded matrix (zeros are added up to
whole fractals), so reading undoes writing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwmodel.errors import NumericsError
from hwmodel.numerics.checks import check_choice, whole
from hwmodel.numerics.codec import as_codes
from hwmodel.numerics.dtypes import dtype_record
from hwmodel.numerics.formats import ElementFormat
from hwmodel.quantities import ceil_div

Bytes = NDArray[np.uint8]
Codes = NDArray[Any]
FRACTAL_ROWS = 16
FRACTAL_BYTES = 32


@dataclass(frozen=True, slots=True)
class Fractals:
    """How fractals follow each other and how elements lie in one: ``rows`` first (row-major) or ``columns`` first.

    ``wide_columns`` fixes a fractal's columns (the accumulator's 16) where they are not 32 bytes.
    """

    outer: str
    inner: str
    wide_columns: int | None
    shape: str

    def extent(self, record: ElementFormat) -> tuple[int, int]:
        """Rows and columns of one fractal for an element format."""
        e32 = self.wide_columns or FRACTAL_BYTES * 8 // record.bits
        return (FRACTAL_ROWS, e32) if self.inner == "rows" else (e32, FRACTAL_ROWS)


LAYOUTS: dict[str, Fractals | None] = {
    "ND": None,
    "NZ": Fractals("columns", "rows", None, "[C/e32][R/16][16][e32]"),
    "ZZ": Fractals("rows", "rows", None, "[R/16][C/e32][16][e32]"),
    "ZN": Fractals("rows", "columns", None, "[R/e32][C/16][16 columns][e32 rows]"),
    "NN": Fractals("columns", "columns", None, "[C/16][R/e32][16 columns][e32 rows]"),
    "ACC": Fractals("columns", "rows", 16, "[C/16][R/16][16][16]"),
}
"""Layout names. ``ND`` is packed row-major; ``ACC`` the accumulator's NZ with 16 x 16 fractals."""


def pack_rows(codes: ArrayLike, dtype: str) -> Bytes:
    """Bytes of ``codes`` [R, C], row-major, as a 1-D uint8 array of R x ceil(C x bits / 8).

    4-bit codes lie two to a byte along the row, the first in the low nibble; each row starts on a byte, and the high
    nibble left over by an odd C is 0. 16- and 32-bit codes are little-endian. Block dtypes pack their element codes.
    """
    record, array = _matrix(codes, dtype)
    return _pack(array, record)


def unpack_rows(data: ArrayLike, rows: int, cols: int, dtype: str) -> Codes:
    """Codes [rows, cols] from packed row-major bytes; a left-over high nibble is ignored. Undoes `pack_rows`."""
    record = dtype_record(dtype).format
    rows, cols = whole("rows", rows, 0), whole("cols", cols, 0)
    return _unpack(
        _bytes_of(data, rows * ceil_div(cols * record.bits, 8), f"{rows} x {cols} {dtype}"),
        rows,
        cols,
        record,
    )


def layout_bytes(rows: int, cols: int, layout: str, dtype: str) -> int:
    """Bytes of an [rows, cols] matrix in a layout, padding included."""
    record, fractals = dtype_record(dtype).format, _layout(layout)
    rows, cols = whole("rows", rows, 0), whole("cols", cols, 0)
    if fractals is None:
        return rows * ceil_div(cols * record.bits, 8)
    height, width = fractals.extent(record)
    return ceil_div(rows, height) * ceil_div(cols, width) * height * width * record.bits // 8


def to_layout(codes: ArrayLike, layout: str, dtype: str) -> Bytes:
    """Bytes of ``codes`` [R, C] in a layout, a 1-D uint8 array; zeros fill whole fractals.

    With R and C rounded up to whole fractals the bytes lie as

    * ``ND``  [R][C], packed rows, no padding (`pack_rows`);
    * ``NZ``  [C/e32][R/16][16][e32]: columns of fractals, rows inside;
    * ``ZZ``  [R/16][C/e32][16][e32]: rows of fractals, rows inside;
    * ``ZN``  [R/e32][C/16][16][e32]: for a right operand [K, N], fractals [K/e32][N/16], K innermost;
    * ``NN``  [C/16][R/e32][16][e32]: the same fractals, columns of them first;
    * ``ACC`` [C/16][R/16][16][16]: the accumulator's NZ (fp32 or int32 codes, 1,024-byte fractals).

    A 4-bit element packs along the innermost extent: in NZ of a [K, N] operand along N, in ZN along K.
    """
    record, array = _matrix(codes, dtype)
    fractals = _layout(layout)
    if fractals is None:
        return _pack(array, record)
    height, width = fractals.extent(record)
    rows, cols = array.shape
    high, wide = ceil_div(rows, height), ceil_div(cols, width)
    if (rows, cols) != (high * height, wide * width):
        padded = np.zeros((high * height, wide * width), record.numpy_dtype)
        padded[:rows, :cols] = array
        array = padded
    grid = array.reshape(high, height, wide, width).transpose(_axes(fractals))
    return _pack(grid.reshape(-1, grid.shape[-1]), record)


def from_layout(data: ArrayLike, rows: int, cols: int, layout: str, dtype: str) -> Codes:
    """Codes [rows, cols] from the bytes of a layout; padding is ignored. Undoes `to_layout`."""
    record, fractals = dtype_record(dtype).format, _layout(layout)
    raw = _bytes_of(data, layout_bytes(rows, cols, layout, dtype), f"{rows} x {cols} {dtype} in {layout}")
    if fractals is None:
        return _unpack(raw, rows, cols, record)
    height, width = fractals.extent(record)
    high, wide = ceil_div(rows, height), ceil_div(cols, width)
    axes = _axes(fractals)
    lengths = [(high, height, wide, width)[axis] for axis in axes]
    elements = _unpack(raw, high * wide * height * width // lengths[-1], lengths[-1], record)
    grid = elements.reshape(lengths).transpose(np.argsort(axes))
    return np.ascontiguousarray(grid.reshape(high * height, wide * width)[:rows, :cols])


def _axes(fractals: Fractals) -> list[int]:
    """Order of the axes (fractal row, row, fractal column, column) in memory."""
    outer = [0, 2] if fractals.outer == "rows" else [2, 0]
    return outer + ([1, 3] if fractals.inner == "rows" else [3, 1])


def _layout(name: str) -> Fractals | None:
    check_choice("layout", name, LAYOUTS)
    return LAYOUTS[name]


def _matrix(codes: ArrayLike, dtype: str) -> tuple[ElementFormat, Codes]:
    record = dtype_record(dtype).format
    array = as_codes(codes, record)
    if array.ndim != 2:
        raise NumericsError(f"codes: expected a matrix [R, C], not shape {array.shape}")
    return record, array


def _bytes_of(data: ArrayLike, length: int, what: str) -> Bytes:
    raw = np.asarray(data)
    if raw.dtype != np.uint8 or raw.ndim != 1:
        raise NumericsError(f"bytes of {what}: expected a 1-D uint8 array, not {raw.dtype} of shape {raw.shape}")
    if raw.size != length:
        raise NumericsError(f"bytes of {what}: expected {length} bytes, not {raw.size}")
    return raw


def _pack(array: Codes, record: ElementFormat) -> Bytes:
    if record.bits == 4:
        rows, cols = array.shape
        out = np.zeros((rows, ceil_div(cols, 2)), np.uint8)
        out[...] = array[:, 0::2]
        np.bitwise_or(out[:, : cols // 2], array[:, 1::2] << 4, out=out[:, : cols // 2])
        return out.reshape(-1)
    little = np.array(array, dtype=array.dtype.newbyteorder("<"), order="C", copy=True)
    return little.reshape(-1).view(np.uint8)


def _unpack(raw: Bytes, rows: int, cols: int, record: ElementFormat) -> Codes:
    if record.bits == 4:
        packed = raw.reshape(rows, ceil_div(cols, 2))
        out = np.empty((rows, cols), np.uint8)
        out[:, 0::2] = packed & 0x0F
        out[:, 1::2] = packed[:, : cols // 2] >> 4
        return out
    little = np.ascontiguousarray(raw).view(record.numpy_dtype.newbyteorder("<"))
    return little.astype(record.numpy_dtype).reshape(rows, cols)
