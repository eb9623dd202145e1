"""Block scales as the Cube reads them: cells of 16 rows x 64 of K, row fractals first, then K.

"Rows" are rows of A, or columns of B (layouts "ZZ" and "NN" hold the same cells). Padding rows and groups are zero
bytes when written and ignored when read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwmodel.errors import NumericsError
from hwmodel.numerics.checks import whole
from hwmodel.numerics.dtypes import block_record
from hwmodel.numerics.layouts import _bytes_of
from hwmodel.numerics.scales import BlockScales, Hif4Scales, MxScales
from hwmodel.quantities import ceil_div

Bytes = NDArray[np.uint8]
CELL_ROWS = 16
CELL_K = 64
E8M0_GROUP = 32


def hif4_cells(ea: ArrayLike, eb: ArrayLike, ec: ArrayLike) -> Bytes:
    """HiF4 cells of scales [rows, groups] (uint8, uint8, uint16; a group is 64 of K), a 1-D uint8 array.

    Bytes lie as [ceil(rows/16)][groups][64]: (Ea, Eb) of 16 rows, then (Ec low, Ec high) of 16 rows.
    """
    e1, e2, e3 = _grid(ea, np.uint8, "ea"), _grid(eb, np.uint8, "eb"), _grid(ec, np.uint16, "ec")
    if not e1.shape == e2.shape == e3.shape:
        raise NumericsError(f"hif4 scales: ea, eb, ec must have one shape, not {e1.shape}, {e2.shape}, {e3.shape}")
    rows, groups = e1.shape
    fractals = ceil_div(rows, CELL_ROWS)
    cells = np.zeros((fractals, groups, 2, CELL_ROWS, 2), np.uint8)
    for half, slot, plane in ((0, 0, e1), (0, 1, e2), (1, 0, e3 & 0xFF), (1, 1, e3 >> 8)):
        padded = np.zeros((fractals * CELL_ROWS, groups), np.uint8)
        padded[:rows] = plane
        cells[:, :, half, :, slot] = padded.reshape(fractals, CELL_ROWS, groups).transpose(0, 2, 1)
    return cells.reshape(-1)


def read_hif4_cells(data: ArrayLike, rows: int, groups: int) -> Hif4Scales:
    """Scales [rows, groups] from HiF4 cells. Undoes `hif4_cells`."""
    rows, groups = whole("rows", rows, 0), whole("groups", groups, 0)
    fractals = ceil_div(rows, CELL_ROWS)
    raw = _bytes_of(data, fractals * groups * 64, f"hif4 cells of {rows} rows x {groups} groups")
    cells = raw.reshape(fractals, groups, 2, CELL_ROWS, 2).transpose(2, 4, 0, 3, 1)
    planes = np.ascontiguousarray(cells).reshape(2, 2, fractals * CELL_ROWS, groups)[:, :, :rows]
    ec = planes[1, 0].astype(np.uint16) | planes[1, 1].astype(np.uint16) << np.uint16(8)
    return Hif4Scales(planes[0, 0].copy(), planes[0, 1].copy(), ec)


def e8m0_cells(scales: ArrayLike) -> Bytes:
    """E8M0 cells of scales [rows, groups] (uint8; a group is 32 of K), a 1-D uint8 array.

    Bytes lie as [ceil(rows/16)][ceil(groups/2)][16][2]: K is rounded up to 64, two scale bytes a row and cell.
    """
    plane = _grid(scales, np.uint8, "e8m0")
    rows, groups = plane.shape
    fractals, pairs = ceil_div(rows, CELL_ROWS), ceil_div(groups, 2)
    padded = np.zeros((fractals * CELL_ROWS, pairs * 2), np.uint8)
    padded[:rows, :groups] = plane
    return np.ascontiguousarray(padded.reshape(fractals, CELL_ROWS, pairs, 2).transpose(0, 2, 1, 3)).reshape(-1)


def read_e8m0_cells(data: ArrayLike, rows: int, groups: int) -> NDArray[np.uint8]:
    """Scales [rows, groups] from E8M0 cells. Undoes `e8m0_cells`."""
    rows, groups = whole("rows", rows, 0), whole("groups", groups, 0)
    fractals, pairs = ceil_div(rows, CELL_ROWS), ceil_div(groups, 2)
    raw = _bytes_of(data, fractals * pairs * 32, f"e8m0 cells of {rows} rows x {groups} groups")
    grid = raw.reshape(fractals, pairs, CELL_ROWS, 2).transpose(0, 2, 1, 3)
    return np.array(grid.reshape(fractals * CELL_ROWS, pairs * 2)[:rows, :groups], order="C")


def scale_cell_bytes(rows: int, k: int, dtype: str) -> int:
    """Bytes of all cells of an operand: ceil(rows/16) x ceil(k/64) x 64 (HiF4) or 32 (E8M0)."""
    _, block = block_record(dtype)
    rows, k = whole("rows", rows, 0), whole("k", k, 0)
    return ceil_div(rows, CELL_ROWS) * ceil_div(k, CELL_K) * block.scale_cell_bytes


def scale_cells(scales: BlockScales, dtype: str, axis: int = -1) -> Bytes:
    """Cells of a block dtype's scales as `quantize` gives them.

    ``axis`` is the axis that K's groups lie along: -1 for scales [rows, groups] (operand A), 0 for [groups, columns]
    (operand B, whose columns play the rows).
    """
    _, block = block_record(dtype)
    if block.scales == "hif4":
        if not isinstance(scales, Hif4Scales):
            raise NumericsError(f"scales of {dtype}: expected ea, eb and ec, not {type(scales).__name__}")
        return hif4_cells(*(_k_last(plane, axis) for plane in (scales.ea, scales.eb, scales.ec)))
    if not isinstance(scales, MxScales):
        raise NumericsError(f"scales of {dtype}: expected e8m0, not {type(scales).__name__}")
    return e8m0_cells(_k_last(scales.e8m0, axis))


def read_scale_cells(data: ArrayLike, rows: int, k: int, dtype: str, axis: int = -1) -> BlockScales:
    """Scales of ``rows`` rows and ``k`` elements of K from cells; [rows, groups], or [groups, rows] with axis 0.

    Undoes `scale_cells`. ``groups`` is ceil(k / 64) for HiF4 and ceil(k / 32) for E8M0.
    """
    _, block = block_record(dtype)
    groups = ceil_div(whole("k", k, 0), block.group)
    if block.scales == "hif4":
        found = read_hif4_cells(data, rows, groups)
        return Hif4Scales(_k_last(found.ea, axis), _k_last(found.eb, axis), _k_last(found.ec, axis))
    return MxScales(_k_last(read_e8m0_cells(data, rows, groups), axis))


def _k_last(plane: NDArray[Any], axis: int) -> NDArray[Any]:
    """Exchange the axes of a matrix when its groups lie along axis 0 (its own inverse)."""
    if plane.ndim != 2:
        raise NumericsError(f"scales: expected a matrix, not shape {plane.shape}")
    if axis not in (-2, -1, 0, 1):
        raise NumericsError(f"axis: expected -2 to 1 for a matrix of scales, not {axis}")
    return np.ascontiguousarray(plane.T) if axis % 2 == 0 else plane


def _grid(values: ArrayLike, dtype: type, name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 2:
        raise NumericsError(f"{name}: expected a matrix [rows, groups], not shape {array.shape}")
    if array.dtype != dtype:
        top = np.iinfo(dtype).max
        if array.dtype.kind not in "iu" or (array.size and (array.min() < 0 or array.max() > top)):
            raise NumericsError(f"{name}: expected integers 0 to {top}, not {array.dtype}")
        array = array.astype(dtype)
    return array
