"""Where operands live: tensors in global memory and tiles in on-chip buffers, as frozen records.

Byte positions are what two instructions can collide on, so every operand can say which bytes of which space it
touches (`spans`). Layout names are those of ``hwmodel.numerics``: a tile's bytes are a pure permutation of its
logical array, so a buffer may hold either.
"""

from __future__ import annotations

from typing import NamedTuple

GM = "gm"


class Tensor(NamedTuple):
    """A matrix in global memory (GM, HBM): ``rows`` x ``cols`` elements of ``dtype``.

    ``stored`` is ``"row"`` for row-major ``[rows, cols]`` and ``"col"`` where the transposed matrix lies row-major
    (B as ``[N, K]``). ``kind`` is ``"data"``, or ``"scale"`` for the scale cells of a block format (``rows`` are then
    rows of A or columns of B, ``cols`` is K).
    """

    name: str
    dtype: str
    rows: int
    cols: int
    stored: str = "row"
    kind: str = "data"


class Window(NamedTuple):
    """A rectangle of a GM tensor, in elements, relative to the core's origin in that tensor."""

    tensor: str
    row: int
    col: int
    rows: int
    cols: int


class Tile(NamedTuple):
    """A matrix tile in an on-chip buffer.

    ``offset`` and ``size`` are bytes and include the padding; ``rows`` x ``cols`` is the valid extent in elements,
    ``padded`` what the bytes have room for. ``kind`` is ``"data"``, ``"scale"`` (cells of a block format; ``cols``
    counts K elements) or ``"acc"``.

    In a buffer with partitions (Neuron) each row lies in a partition of its own, from ``partition`` on, and
    ``offset`` and ``size`` are bytes inside every one of them.
    """

    space: str
    offset: int
    size: int
    dtype: str
    rows: int
    cols: int
    layout: str
    kind: str = "data"
    padded: tuple[int, int] = (0, 0)
    partition: int = 0


class Part(NamedTuple):
    """A rectangle of a tile, in elements of the tile; ``offset`` and ``size`` are the bytes it touches."""

    tile: Tile
    row: int
    col: int
    rows: int
    cols: int
    offset: int
    size: int


Operand = Window | Tile | Part


def whole(tile: Tile) -> Part:
    """The part of ``tile`` that is all of it."""
    return Part(tile, 0, 0, tile.rows, tile.cols, tile.offset, tile.size)


def describe(operand: Operand) -> str:
    """Short text for people: ``l1[0:32768] hif4 512x128 NZ`` or ``gm.a[0:512, 0:128]``."""
    if isinstance(operand, Window):
        row, col = operand.row, operand.col
        return f"{GM}.{operand.tensor}[{row}:{row + operand.rows}, {col}:{col + operand.cols}]"
    tile = operand.tile if isinstance(operand, Part) else operand
    what = tile.dtype if tile.kind == "data" else f"{tile.dtype} {tile.kind}"
    place = f"{tile.space}[{operand.offset}:{operand.offset + operand.size}]"
    if tile.partition:
        first = tile.partition + (operand.row if isinstance(operand, Part) else 0)
        place = f"{tile.space}[p{first}:{first + operand.rows}, {operand.offset}:{operand.offset + operand.size}]"
    return f"{place} {what} {operand.rows}x{operand.cols} {tile.layout}"
