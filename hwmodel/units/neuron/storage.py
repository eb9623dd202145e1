"""What one NeuronCore sees: SBUF and PSUM as 128 partitions of bytes, the array's weights, and global memory.

Bytes that nobody wrote are 0xFF. PSUM also remembers which of its bytes were written: a matmul that accumulates finds
nothing to add to where nobody wrote.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hwmodel.program.memory import Part, Tensor, Tile, Window
from hwmodel.program.neuron_dtypes import NEURON_DTYPES
from hwmodel.units.storage import UNWRITTEN, Array

PARTITIONS = 128
SMALLEST = 16 * 1024
"""Bytes of a partition that are there at first."""


class CoreMemory:
    """Buffers of one core. ``capacities`` are bytes of a partition; ``gm`` maps a tensor's name to its array."""

    def __init__(
        self,
        capacities: dict[str, int],
        gm: dict[str, Array],
        tensors: dict[str, Tensor],
        origins: dict[str, tuple[int, int]],
        *,
        as_bytes: bool = False,
    ) -> None:
        del as_bytes  # everything is bytes here
        self.capacities = capacities
        self.gm = gm
        self.tensors = tensors
        self.origins = origins
        self.weights: dict[int, Any] = {}
        """What each copy of the array's weights holds, by offset."""
        self.accumulator: Array | None = None
        self._bytes: dict[str, Array] = {}
        self._written: dict[str, Array] = {}

    def bytes_of(self, space: str, end: int) -> Array:
        """uint8 [128, bytes of a partition], of which at least ``end`` are there: memory grows as it is used."""
        found = self._bytes.get(space)
        width = 0 if found is None else found.shape[1]
        if width < end:
            grown = np.full(
                (PARTITIONS, min(self.capacities[space], max(end, 2 * width, SMALLEST))), UNWRITTEN, np.uint8
            )
            if found is not None:
                grown[:, :width] = found
            found = self._bytes[space] = grown
        assert found is not None
        return found

    def written(self, space: str) -> Array:
        """bool [128, bytes of a partition]: which bytes somebody wrote."""
        found = self._written.get(space)
        if found is None:
            found = self._written[space] = np.zeros((PARTITIONS, self.capacities[space]), np.bool_)
        return found

    def read(self, part: Part) -> Array:
        """Copy of the stored elements [rows, cols] of a part, as unsigned integers."""
        tile = part.tile
        rows, columns = _place(tile, part)
        data = self.bytes_of(tile.space, columns.stop)[rows, columns].copy()
        return data.view(NEURON_DTYPES[tile.dtype].numpy)

    def write(self, tile: Tile, value: Array) -> None:
        """Put stored elements [rows, cols] where a tile lies."""
        rows, columns = _place(tile, tile)
        self.bytes_of(tile.space, columns.stop)[rows, columns] = (
            np.ascontiguousarray(value).view(np.uint8).reshape(tile.rows, -1)
        )
        if tile.space == "psum":
            self.written("psum")[rows, columns] = True

    def clear_psum(self, partition: int, partitions: int, offset: int, size: int) -> None:
        """Zero bits in ``size`` bytes of some partitions."""
        rows, columns = slice(partition, partition + partitions), slice(offset, offset + size)
        self.bytes_of("psum", columns.stop)[rows, columns] = 0
        self.written("psum")[rows, columns] = True

    def load(self, window: Window) -> Array:
        """Copy of a rectangle of global memory."""
        row, col = self._origin(window)
        return np.array(self.gm[window.tensor][row : row + window.rows, col : col + window.cols])

    def store(self, window: Window, value: Array) -> None:
        """Write a rectangle of global memory."""
        row, col = self._origin(window)
        target = self.gm[window.tensor]
        target[row : row + window.rows, col : col + window.cols] = value.view(target.dtype)

    def _origin(self, window: Window) -> tuple[int, int]:
        row, col = self.origins.get(window.tensor, (0, 0))
        return row + window.row, col + window.col


def _place(tile: Tile, part: Tile | Part) -> tuple[slice, slice]:
    first = tile.partition + (part.row if isinstance(part, Part) else 0)
    return slice(first, first + part.rows), slice(part.offset, part.offset + part.size)
