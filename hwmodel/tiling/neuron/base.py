"""What the four loop structures share: their parameters, the plan, and the checks before cycle 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import Field

from hwmodel.arch import Arch
from hwmodel.errors import InputError
from hwmodel.inputs import Operand
from hwmodel.problem import Accumulate, Epilogue, MatmulProblem
from hwmodel.program import Program
from hwmodel.program.instructions import Instruction
from hwmodel.program.program import CoreProgram
from hwmodel.quantities import ceil_div
from hwmodel.tiling.base import TilingParams, check_operands
from hwmodel.tiling.neuron.emit import Emitter
from hwmodel.tiling.neuron.geometry import PARTITIONS, TILE_M, TILE_N, Geometry
from hwmodel.tiling.neuron.memory import hbm
from hwmodel.units.neuron.dma import UNIT as DMA
from hwmodel.units.neuron.dma import row_cycles
from hwmodel.units.storage import Array


class LoopParams(TilingParams):
    """Parameters that every loop structure has."""

    evacuate: Literal["vector", "scalar"] = Field(default="vector", description="engine that empties PSUM")


Params = TypeVar("Params", bound=LoopParams)
Lower = Callable[["LoopPlan"], list[Instruction]]


class Moves(NamedTuple):
    """How often an operand or the output moves between HBM and SBUF, and how wide the pieces are that it moves in."""

    times: int
    cols: tuple[int, ...]


class Traffic(NamedTuple):
    """Everything that a loop structure moves, but the scales of MX operands."""

    lhs: Moves
    rhs: Moves
    out: Moves


@dataclass(frozen=True)
class LoopPlan:
    """A loop structure for one problem: everything fits SBUF and PSUM.

    ``k_tile`` is the K of one instruction, whose finished product is added to the bank; ``k_block`` the K whose sum
    the bank holds before it is added up in SBUF (0: all of K).
    """

    problem: MatmulProblem
    accumulate: Accumulate
    arch: Arch
    params: Any
    geometry: Geometry
    layout: Any
    lower: Lower
    traffic: Traffic
    k_block: int = 0
    sbuf_bytes: int = 0

    k_slice = 0

    @property
    def k_tile(self) -> int:
        """K of one instruction."""
        return self.geometry.k_tile

    def emitter(self) -> Emitter:
        """An empty list of instructions."""
        geometry = self.geometry
        matmuls = len(geometry.m) * len(geometry.n) * len(geometry.k)
        banks = self.arch.spec.buffers["psum"].banks
        assert isinstance(banks, int)
        return Emitter(geometry, self.accumulate, banks, matmuls)

    def summary(self) -> dict[str, Any]:
        """For result.json."""
        geometry = self.geometry
        return {
            **self.params.model_dump(mode="json"),
            "tile": [TILE_M, TILE_N, geometry.k_tile],
            "tiles": [len(geometry.m), len(geometry.n), len(geometry.k)],
            "sbuf_bytes_per_partition": self.sbuf_bytes,
        }

    def program(self) -> Program:
        """Lower to instructions of one core."""
        return Program(self.geometry.tensors(), (CoreProgram(0, tuple(self.lower(self))),))

    def bound(self) -> int:
        """Cycles that no run falls short of: the rings must move every row, however the rest overlaps.

        Counted from what the loop structure moves, without unrolling it; scales of MX operands are left out.
        """
        geometry, arch = self.geometry, self.arch
        dma = arch.units[DMA.engine]
        rows = sum(geometry.partitions(k) for k in geometry.k)
        work = sum(
            count * moves.times * row_cycles(dma.spec, cols * dtype.bytes)
            for count, moves, dtype in (
                (rows, self.traffic.lhs, geometry.lhs),
                (rows, self.traffic.rhs, geometry.rhs),
                (self.problem.m, self.traffic.out, geometry.out),
            )
            for cols in moves.cols
        )
        cycles = dma.spec.startup_cycles + ceil_div(work, dma.spec.rings) + dma.spec.completion_cycles
        return arch.spec.launch_cycles + ceil_div(cycles * dma.ticks_per_cycle, arch.ticks_per_cycle)

    def memory(self, operands: dict[str, Operand]) -> dict[str, Array]:
        """Arrays of the tensors in HBM, and an output that nobody has written."""
        return hbm(self.geometry, operands)


def geometry_of(problem: MatmulProblem, accumulate: Accumulate, arch: Arch) -> Geometry:
    """Check what does not depend on the loop structure."""
    mx = check_operands(problem, arch)
    if problem.epilogue != Epilogue():
        raise InputError(f"problem.epilogue: expected none, as {arch.name} has no FIXPIPE")
    if accumulate.scale_on != "operand":
        raise InputError(f"accumulate.scale_on: expected operand, as {arch.name} scales operands")
    if problem.layout.b != "kn":
        raise InputError(f"problem.layout.b: expected kn on {arch.name}, where both operands lie with K outermost")
    geometry = Geometry.of(problem, mx=mx)
    assert geometry.k_tile % PARTITIONS == 0
    return geometry


def check_block(name: str, block: tuple[int, ...]) -> None:
    """Refuse blocks of no tiles."""
    if any(count < 1 for count in block):
        shown = ", ".join(str(count) for count in block)
        raise InputError(f"tiling.{name}: expected numbers of tiles of at least 1, not [{shown}]")
