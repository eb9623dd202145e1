"""TEXTRACT (pipe MTE1): L1 to L0A or L0B, and scale cells to L0A_MX or L0B_MX."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hwmodel.program.instructions import Extract, Instruction
from hwmodel.program.memory import Part, Tile
from hwmodel.quantities import ceil_div
from hwmodel.units.base import Cycles, Rate, UnitKind, UnitSpec
from hwmodel.units.storage import Array, Storage


class TExtractSpec(UnitSpec):
    """Rates and latencies of TEXTRACT."""

    kind: Literal["textract"] = "textract"
    startup_cycles: Cycles = Field(description="for each instruction")
    bytes_per_cycle: dict[str, Rate] = Field(description="rate by target buffer: l0a, l0b, l0a_mx, l0b_mx")


def cycles(spec: TExtractSpec, params: Extract) -> int:
    """Start-up plus bytes at the rate of the target buffer."""
    return spec.startup_cycles + ceil_div(params.size, spec.bytes_per_cycle[params.target])


def capture(instruction: Instruction, storage: Storage) -> Array:
    """The part of the L1 tile, as it is when the move starts."""
    (part,) = instruction.reads
    assert isinstance(part, Part)
    return storage.read(part)


def commit(instruction: Instruction, storage: Storage, payload: Array) -> None:
    """Write the L0 tile when the move has ended."""
    (tile,) = instruction.writes
    assert isinstance(tile, Tile)
    storage.write(tile, payload)


UNIT = UnitKind(
    kind="textract",
    spec=TExtractSpec,
    engine="MTE1",
    operations={"textract": 1},
    spaces=frozenset({"l1", "l0a", "l0b", "l0a_mx", "l0b_mx"}),
    cycles=cycles,
    capture=capture,
    commit=commit,
    summary="L1 to L0A, L0B and their scale buffers (pipe MTE1)",
)
