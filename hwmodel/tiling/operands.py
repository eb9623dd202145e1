"""Sizes of Ascend operand tiles: padding, bytes, layouts. The same for every tiling.

Padding (hardware facts 3.1 to 3.5): rows of A to 16, K to a whole fractal (64 with block scales), N of B to the C0 of
its width (32 bytes: 64 elements of 4 bits), columns of the sums to 16.
"""

from __future__ import annotations

from typing import NamedTuple

from hwmodel import numerics as nm
from hwmodel.program import Part, Tensor, Tile
from hwmodel.program.regions import SCALE_ADDRESS_SHIFT
from hwmodel.quantities import ceil_div, round_up

FRACTAL = 16
C0_BYTES = 32
CELL_ROWS = 16
CELL_K = 64
ACC_BYTES = 4


class OperandKind(NamedTuple):
    """Sizes of one operand: dtype, bits an element, K granule of its tiles, bytes of a scale cell (0: no scales)."""

    dtype: str
    bits: int
    k_granule: int
    n_granule: int
    cell_bytes: int

    def bytes_of(self, rows: int, cols: int) -> int:
        """Bytes of rows x cols elements that are already padded."""
        return rows * cols * self.bits // 8

    def scale_bytes(self, rows: int, k: int) -> int:
        """Bytes of the scale cells of ``rows`` rows of A (columns of B) over ``k``."""
        return ceil_div(rows, CELL_ROWS) * ceil_div(k, CELL_K) * self.cell_bytes


def operand_kind(dtype: str, *, mx: bool) -> OperandKind:
    """Sizes of an operand of a TMATMUL (``mx`` False) or TMATMUL_MX."""
    record = nm.DTYPES[dtype]
    c0 = C0_BYTES * 8 // record.storage_bits
    granule = max(c0, CELL_K) if mx else max(c0, FRACTAL)
    cell = record.block.scale_cell_bytes if mx and record.block is not None else 0
    return OperandKind(dtype, record.storage_bits, granule, max(c0, FRACTAL), cell)


def l1_tile(kind: OperandKind, offset: int, rows: int, cols: int, *, k_axis: int) -> Tile:
    """NZ tile in L1: A [m, k] with ``k_axis`` 1, B [k, n] with ``k_axis`` 0."""
    if k_axis == 1:
        padded = (round_up(rows, FRACTAL), round_up(cols, kind.k_granule))
    else:
        padded = (round_up(rows, kind.k_granule), round_up(cols, kind.n_granule))
    return Tile("l1", offset, kind.bytes_of(*padded), kind.dtype, rows, cols, "NZ", "data", padded)


def l0_tile(kind: OperandKind, space: str, offset: int, rows: int, cols: int, layout: str) -> Tile:
    """Tile in L0A ([m, k]) or L0B ([k, n], K innermost)."""
    if space == "l0a":
        padded = (round_up(rows, FRACTAL), round_up(cols, kind.k_granule))
    else:
        padded = (round_up(rows, kind.k_granule), round_up(cols, kind.n_granule))
    return Tile(space, offset, kind.bytes_of(*padded), kind.dtype, rows, cols, layout, "data", padded)


def scale_tile(kind: OperandKind, space: str, offset: int, rows: int, k: int, layout: str = "ZZ") -> Tile:
    """Scale cells over ``k`` of ``rows`` rows of A (layout ZZ) or columns of B (NN): row fractals first, then K."""
    padded = (round_up(rows, CELL_ROWS), round_up(k, CELL_K))
    return Tile(space, offset, kind.scale_bytes(rows, k), kind.dtype, rows, k, layout, "scale", padded)


def acc_tile(offset: int, rows: int, cols: int, dtype: str) -> Tile:
    """Sums in L0C: NZ with 16 x 16 fractals of 4 bytes."""
    padded = (round_up(rows, FRACTAL), round_up(cols, FRACTAL))
    return Tile("l0c", offset, padded[0] * padded[1] * ACC_BYTES, dtype, rows, cols, "ACC", "acc", padded)


def columns(tile: Tile, kind: OperandKind, col: int, cols: int) -> Part:
    """Columns [col, col + cols) of an NZ tile: whole fractal columns, contiguous in its bytes."""
    c0 = C0_BYTES * 8 // kind.bits
    column_bytes = tile.padded[0] * C0_BYTES
    first, last = col // c0, ceil_div(col + cols, c0)
    return Part(tile, 0, col, tile.rows, cols, tile.offset + first * column_bytes, (last - first) * column_bytes)


def rows(tile: Tile, kind: OperandKind, row: int, count: int) -> Part:
    """Rows [row, row + count) of an NZ tile: a piece of each fractal column; the bytes span from first to last."""
    c0 = C0_BYTES * 8 // kind.bits
    column_bytes = tile.padded[0] * C0_BYTES
    last_column = tile.padded[1] // c0 - 1
    start = row * C0_BYTES
    stop = last_column * column_bytes + round_up(row + count, FRACTAL) * C0_BYTES
    return Part(tile, row, 0, count, tile.cols, tile.offset + start, stop - start)


def scale_columns(tile: Tile, kind: OperandKind, k: int, depth: int) -> Part:
    """Cells of K [k, k + depth) of a scale tile, all rows; the bytes span from first to last."""
    per_row = ceil_div(tile.cols, CELL_K)
    first, last = k // CELL_K, ceil_div(k + depth, CELL_K)
    row_fractals = ceil_div(tile.rows, CELL_ROWS)
    start = first * kind.cell_bytes
    stop = ((row_fractals - 1) * per_row + last) * kind.cell_bytes
    return Part(tile, 0, k, tile.rows, depth, tile.offset + start, stop - start)


def scale_rows(tile: Tile, kind: OperandKind, row: int, rows: int) -> Part:
    """Cells of rows [row, row + rows) of a scale tile, all of K: contiguous in its bytes."""
    row_bytes = ceil_div(tile.cols, CELL_K) * kind.cell_bytes
    first, last = row // CELL_ROWS, ceil_div(row + rows, CELL_ROWS)
    return Part(tile, row, 0, rows, tile.cols, tile.offset + first * row_bytes, (last - first) * row_bytes)


def row_bytes_in_gm(tensor: Tensor, rows: int, cols: int, bits: int) -> tuple[int, int]:
    """(pieces, bytes of one piece) of a rectangle in GM: a piece is contiguous."""
    pieces, length = (rows, cols) if tensor.stored == "row" else (cols, rows)
    return pieces, ceil_div(length * bits, 8)


__all__ = [
    "ACC_BYTES",
    "CELL_K",
    "CELL_ROWS",
    "FRACTAL",
    "SCALE_ADDRESS_SHIFT",
    "OperandKind",
    "acc_tile",
    "columns",
    "l0_tile",
    "l1_tile",
    "operand_kind",
    "row_bytes_in_gm",
    "rows",
    "scale_columns",
    "scale_rows",
    "scale_tile",
]
