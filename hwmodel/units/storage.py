"""The bytes of a core: on-chip buffers and global memory, holding what was written and nothing else.

A buffer is memory: bytes that nobody wrote are 0xFF, a write replaces what it covers, a read gets what lies there.
As a layout is a pure permutation, a tile that was written whole is kept as its logical array and becomes bytes only
when somebody looks at those bytes in another way (another layout, another extent, a tile that overlaps it).
``as_bytes=True`` renders every write at once; both ways give the same values, which a test shows.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from hwmodel import numerics as nm
from hwmodel.program.memory import Part, Tensor, Tile, Window
from hwmodel.units.decoded import Decoded

Array = np.ndarray[Any, Any]
UNWRITTEN = 0xFF
CELL_ROWS = 16
CELL_K = 64


class Lazy(Protocol):
    """A value that is worked out when somebody looks at it."""

    def array(self) -> Array:
        """The value."""
        ...


def settle(value: Array | Lazy) -> Array:
    """The array of a value."""
    return value if isinstance(value, np.ndarray) else value.array()


def render(tile: Tile, value: Array) -> Array:
    """Bytes (uint8, 1-D) of a tile's logical array."""
    if tile.kind == "scale":
        return value.reshape(-1)
    codes = value.view(np.uint32) if tile.kind == "acc" else value
    if tile.padded != (tile.rows, tile.cols):
        padded = np.zeros(tile.padded, codes.dtype)
        padded[: tile.rows, : tile.cols] = codes
        codes = padded
    return nm.to_layout(codes, tile.layout, _codec(tile))


def parse(tile: Tile, data: Array) -> Array:
    """Logical array of a tile from its bytes: codes [rows, cols], scale cells [rows/16, cols/64, bytes], sums."""
    if tile.kind == "scale":
        cells = (-(-tile.rows // CELL_ROWS), -(-tile.cols // CELL_K))
        return data.reshape(*cells, -1)
    codes = nm.from_layout(data, *tile.padded, tile.layout, _codec(tile))[: tile.rows, : tile.cols]
    if tile.kind == "acc":
        return np.ascontiguousarray(codes).view(np.int32 if tile.dtype == "int32" else np.float32)
    return codes


def _codec(tile: Tile) -> str:
    """Dtype whose width and fractal the tile's bytes have."""
    return "fp32" if tile.kind == "acc" else tile.dtype


def window_of(tile: Tile, value: Array, row: int, col: int, rows: int, cols: int) -> Array:
    """The rectangle of a tile's logical array; whole cells where it holds scales."""
    if tile.kind == "scale":
        return value[row // CELL_ROWS : -(-(row + rows) // CELL_ROWS), col // CELL_K : -(-(col + cols) // CELL_K)]
    return value[row : row + rows, col : col + cols]


class Buffer:
    """One on-chip buffer of ``capacity`` bytes."""

    def __init__(self, capacity: int, *, as_bytes: bool = False) -> None:
        self.capacity = capacity
        self.as_bytes = as_bytes
        self._bytes: Array | None = None
        self._tiles: dict[int, tuple[Tile, Array | Lazy]] = {}

    def write(self, tile: Tile, value: Array | Lazy) -> None:
        """Put a whole tile where it says it lies."""
        start, stop = tile.offset, tile.offset + tile.size
        for offset, (other, held) in list(self._tiles.items()):
            if offset < stop and start < offset + other.size:
                if offset < start or offset + other.size > stop:
                    self._flush(other, held)
                del self._tiles[offset]
        if self.as_bytes:
            self._flush(tile, value)
        else:
            self._tiles[start] = (tile, value)

    def look(self, tile: Tile) -> Array | Lazy:
        """What the buffer holds in the place of a whole tile now, not worked out if it need not be."""
        held = self._tiles.get(tile.offset)
        if held is not None and (held[0] is tile or held[0] == tile):
            return held[1]
        return parse(tile, self.peek(tile.offset, tile.size))

    def read(self, part: Part) -> Array:
        """Logical array of a part of a tile, made of what the buffer holds there now."""
        tile = part.tile
        value = settle(self.look(tile))
        if part.rows == tile.rows and part.cols == tile.cols:
            return value
        return window_of(tile, value, part.row, part.col, part.rows, part.cols)

    def peek(self, offset: int, size: int) -> Array:
        """Copy of the bytes [offset, offset + size)."""
        for tile, value in self._tiles.values():
            if tile.offset < offset + size and offset < tile.offset + tile.size:
                self._flush(tile, value)
        return self._memory()[offset : offset + size].copy()

    def _flush(self, tile: Tile, value: Array | Lazy) -> None:
        self._memory()[tile.offset : tile.offset + tile.size] = render(tile, settle(value))

    def _memory(self) -> Array:
        if self._bytes is None:
            self._bytes = np.full(self.capacity, UNWRITTEN, np.uint8)
        return self._bytes


class Storage:
    """What one core sees: its own buffers and, shifted by its origins, the shared global memory.

    ``gm`` maps a tensor's name to its array: codes [rows, cols], or scale cells [rows/16, cols/64, cell bytes].
    """

    def __init__(
        self,
        capacities: dict[str, int],
        gm: dict[str, Array],
        tensors: dict[str, Tensor],
        origins: dict[str, tuple[int, int]],
        *,
        as_bytes: bool = False,
        decoded: Decoded | None = None,
    ) -> None:
        self.decoded = decoded if decoded is not None else Decoded()
        self.buffers = {space: Buffer(size, as_bytes=as_bytes) for space, size in capacities.items()}
        self.gm = gm
        self.tensors = tensors
        self.origins = origins

    def read(self, part: Part) -> Array:
        """Logical array of a part of an on-chip tile."""
        return self.buffers[part.tile.space].read(part)

    def look(self, tile: Tile) -> Array | Lazy:
        """What lies in the place of a whole tile, not worked out if it need not be."""
        return self.buffers[tile.space].look(tile)

    def write(self, tile: Tile, value: Array | Lazy) -> None:
        """Write an on-chip tile."""
        self.buffers[tile.space].write(tile, value)

    def load(self, window: Window) -> Array:
        """A rectangle of global memory, as it is now; for scales the cells that cover it.

        A copy, unless nobody can write the tensor (its array is read-only): then it is the place itself.
        """
        row, col = self.origin(window)
        array = self.gm[window.tensor]
        if self.tensors[window.tensor].kind == "scale":
            piece = array[
                row // CELL_ROWS : -(-(row + window.rows) // CELL_ROWS),
                col // CELL_K : -(-(col + window.cols) // CELL_K),
            ]
        else:
            piece = array[row : row + window.rows, col : col + window.cols]
        return piece.copy() if array.flags.writeable else piece

    def store(self, window: Window, value: Array) -> None:
        """Write a rectangle of global memory."""
        row, col = self.origin(window)
        self.gm[window.tensor][row : row + window.rows, col : col + window.cols] = value

    def origin(self, window: Window) -> tuple[int, int]:
        """Row and column of a window in its whole tensor."""
        row, col = self.origins.get(window.tensor, (0, 0))
        return row + window.row, col + window.col
