"""What is wrong with where an instruction reads and writes, whatever happens before or after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hwmodel.program.instructions import Instruction, Matmul
from hwmodel.program.memory import Operand, Part, Tensor, Tile, Window, describe

SCALE_BUFFERS = {"l0a": "l0a_mx", "l0b": "l0b_mx"}
SCALE_ADDRESS_SHIFT = 4
"""A scale buffer's address is the operand buffer's address divided by 16."""


class BufferLimits(NamedTuple):
    """Capacity (of a partition) and allocation unit of a buffer, in bytes, and its partitions."""

    capacity_bytes: int
    allocation_bytes: int
    partitions: int = 1


class Regions:
    """Checks operands against tensors and buffers; each operand is looked at once."""

    def __init__(self, tensors: Mapping[str, Tensor], buffers: Mapping[str, BufferLimits]) -> None:
        self.tensors = tensors
        self.buffers = buffers
        self.seen: set[Operand] = set()

    def faults(self, instruction: Instruction) -> Iterator[tuple[str, str]]:
        """(kind, what the instruction does wrong)."""
        for operand in (*instruction.reads, *instruction.writes):
            if operand in self.seen:
                continue
            self.seen.add(operand)
            yield from self._window(operand) if isinstance(operand, Window) else self._tile(operand)
        if isinstance(instruction.params, Matmul):
            yield from _scale_addresses(instruction)

    def _window(self, window: Window) -> Iterator[tuple[str, str]]:
        tensor = self.tensors.get(window.tensor)
        if tensor is None:
            yield "beyond", f"names tensor {window.tensor}, which is not there"
        elif (
            min(window.row, window.col) < 0
            or window.row + window.rows > tensor.rows
            or window.col + window.cols > tensor.cols
        ):
            yield "beyond", f"touches {describe(window)} beyond [{tensor.rows}, {tensor.cols}]"

    def _tile(self, operand: Tile | Part) -> Iterator[tuple[str, str]]:
        tile = operand.tile if isinstance(operand, Part) else operand
        limits = self.buffers.get(tile.space)
        if limits is None:
            yield "beyond", f"names buffer {tile.space}, which is not there"
            return
        if limits.partitions > 1 and partitions_of(operand)[2] > limits.partitions:
            yield "beyond", f"touches {describe(operand)}; {tile.space} has {limits.partitions} partitions"
        if operand.offset + operand.size > limits.capacity_bytes or operand.offset < 0:
            kind = "scale overrun" if tile.space in SCALE_BUFFERS.values() else "beyond"
            yield kind, f"touches {describe(operand)}; {tile.space} ends at {limits.capacity_bytes}"
        if tile.offset % limits.allocation_bytes:
            unit = limits.allocation_bytes
            yield "misaligned", f"touches {describe(tile)}, which does not start at a multiple of {unit} bytes"


def partitions_of(operand: Tile | Part) -> tuple[str, int, int]:
    """Buffer, and its first and last partition (exclusive) that an operand touches, where it has partitions."""
    tile, row = (operand.tile, operand.row) if isinstance(operand, Part) else (operand, 0)
    return tile.space, tile.partition + row, tile.partition + row + operand.rows


def _scale_addresses(instruction: Instruction) -> Iterator[tuple[str, str]]:
    """The Cube finds the scales at the operand's address divided by 16; nothing in the hardware checks it."""
    tiles = {part.tile.space: part.tile for part in instruction.reads if isinstance(part, Part)}
    for data, scale in SCALE_BUFFERS.items():
        if data not in tiles or scale not in tiles:
            continue
        expected = tiles[data].offset >> SCALE_ADDRESS_SHIFT
        if tiles[scale].offset != expected:
            where = f"{scale}[{tiles[scale].offset}]"
            yield "scale address", f"reads scales at {where}, the hardware looks at {data} offset / 16 = {expected}"
