"""Extents, bytes and places of a GEMM's tiles in SBUF and PSUM.

A tile is 128 m x 512 n x one instruction of K: 128, or 512 for x4 operands, whose partitions hold four k each. The lhs
(A) lies in HBM as [K, M] and is the stationary operand, the rhs (B) as [K, N] streams; sums are fp32 [m, n], one PSUM
bank a tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from hwmodel import neuron_mx
from hwmodel.arch import Arch
from hwmodel.errors import CapacityError, InputError
from hwmodel.problem import OUTPUTS, MatmulProblem
from hwmodel.program.memory import Tensor
from hwmodel.program.neuron_dtypes import LANES, OF_OPERAND, NeuronDtype

PARTITIONS = 128
TILE_M = 128
TILE_N = 512
SUM_BYTES = 4

Item = TypeVar("Item")


class Span(NamedTuple):
    """One tile along an axis: its first element and how many there are."""

    start: int
    size: int


@dataclass(frozen=True)
class Geometry:
    """How a problem is cut into tiles, and how large they are."""

    problem: MatmulProblem
    lhs: NeuronDtype
    rhs: NeuronDtype
    out: NeuronDtype
    scaled: bool
    """MX operands: scales travel beside the data."""

    @classmethod
    def of(cls, problem: MatmulProblem, *, mx: bool) -> Geometry:
        """The geometry of a problem whose operands the machine multiplies."""
        if problem.out not in OF_OPERAND:
            known = ", ".join(name for name in OUTPUTS if name in OF_OPERAND)
            raise InputError(f"problem.out: expected one of {known} on a NeuronCore, not {problem.out}")
        return cls(problem, OF_OPERAND[problem.a], OF_OPERAND[problem.b], OF_OPERAND[problem.out], mx)

    @property
    def k_tile(self) -> int:
        """K of one matmul instruction."""
        return PARTITIONS * LANES if self.scaled else PARTITIONS

    @property
    def lanes(self) -> int:
        """Elements of K in one partition."""
        return LANES if self.scaled else 1

    @property
    def m(self) -> list[Span]:
        """Tiles along M."""
        return spans(self.problem.m, TILE_M)

    @property
    def n(self) -> list[Span]:
        """Tiles along N."""
        return spans(self.problem.n, TILE_N)

    @property
    def k(self) -> list[Span]:
        """Instructions along K."""
        return spans(self.problem.k, self.k_tile)

    def partitions(self, k: Span) -> int:
        """Partitions that an instruction's K takes; MX pads to the next legal number."""
        return neuron_mx.chunks(k.size)[0].partitions if self.scaled else k.size

    def row(self, k: Span) -> int:
        """First row of an instruction's operands in HBM."""
        return k.start // self.lanes

    @property
    def rows(self) -> int:
        """Rows of the operands in HBM, padding included."""
        return neuron_mx.rows_of(self.problem.k) if self.scaled else self.problem.k

    def tensors(self) -> dict[str, Tensor]:
        """Tensors in HBM: rows of K, then columns."""
        problem = self.problem
        found = {
            "a": Tensor("a", self.lhs.name, self.rows, problem.m),
            "b": Tensor("b", self.rhs.name, self.rows, problem.n),
            "out": Tensor("out", self.out.name, problem.m, problem.n),
        }
        if self.scaled:
            found["a_scale"] = Tensor("a_scale", "uint8", self.rows, problem.m)
            found["b_scale"] = Tensor("b_scale", "uint8", self.rows, problem.n)
        return found


def spans(extent: int, size: int) -> list[Span]:
    """Tiles of ``size`` along an axis, the last one the rest."""
    return [Span(start, min(size, extent - start)) for start in range(0, extent, size)]


def widths(tiles: Sequence[Span], block: int = 1, chunk: int | None = None) -> tuple[int, ...]:
    """Sizes of the pieces that blocks of tiles are moved in: ``chunk`` tiles each (default: the block whole)."""
    pieces = (piece for some in blocks(tiles, block) for piece in blocks(some, chunk or block))
    return tuple(sum(tile.size for tile in piece) for piece in pieces)


def blocks(tiles: Sequence[Item], count: int) -> list[Sequence[Item]]:
    """Tiles in groups of ``count``, the last group the rest."""
    return [tiles[first : first + count] for first in range(0, len(tiles), count)]


@dataclass
class Allocator:
    """Hands out bytes of every SBUF partition, one region after the other."""

    arch: Arch
    used: int = 0

    def take(self, count: int, size: int) -> tuple[int, ...]:
        """Offsets of ``count`` regions of ``size`` bytes."""
        offsets = tuple(self.used + index * size for index in range(count))
        self.used += count * size
        return offsets

    def check(self, what: str, hint: str = "") -> None:
        """Refuse what does not fit a partition of SBUF."""
        there = self.arch.buffer_bytes("sbuf")
        if self.used > there:
            raise CapacityError("sbuf (each partition)", self.used, there, what, hint)
