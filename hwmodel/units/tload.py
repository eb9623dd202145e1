"""TLOAD (pipe MTE2): GM to L1. Data become NZ fractals on the way, scale cells are copied as they lie."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hwmodel.program.instructions import Instruction, Load
from hwmodel.program.memory import Tile, Window
from hwmodel.quantities import ceil_div
from hwmodel.units.base import Cycles, Rate, Traffic, UnitKind, UnitSpec
from hwmodel.units.storage import Array, Storage


class TLoadSpec(UnitSpec):
    """Rates and latencies of TLOAD."""

    kind: Literal["tload"] = "tload"
    startup_cycles: Cycles = Field(description="from issue to the first byte, for each instruction")
    bytes_per_cycle: Rate = Field(description="what one core takes from the L2, and at most from HBM")


def cycles(spec: TLoadSpec, params: Load) -> int:
    """Start-up, then the bytes that hit in the L2 at the core's rate; the misses are traffic on the HBM link.

    Of the link, too, a core takes no more than its own rate (``link_rates``).
    """
    return spec.startup_cycles + ceil_div(params.size - params.miss_bytes, spec.bytes_per_cycle)


def traffic(_spec: TLoadSpec, params: Load) -> tuple[Traffic, ...]:
    """Bytes that come over HBM."""
    return (Traffic("hbm", params.miss_bytes),) if params.miss_bytes else ()


def capture(instruction: Instruction, storage: Storage) -> Array:
    """The rectangle of global memory, as it is when the load starts."""
    (window,) = instruction.reads
    assert isinstance(window, Window)
    return storage.load(window)


def commit(instruction: Instruction, storage: Storage, payload: Array) -> None:
    """Write the L1 tile when the load has ended."""
    (tile,) = instruction.writes
    assert isinstance(tile, Tile)
    storage.write(tile, payload)


UNIT = UnitKind(
    kind="tload",
    spec=TLoadSpec,
    engine="MTE2",
    operations={"tload": 0},
    spaces=frozenset({"l1"}),
    cycles=cycles,
    traffic=traffic,
    link_rates=lambda spec: {"hbm": spec.bytes_per_cycle},
    gm_bytes=lambda params: (params.size, 0),
    capture=capture,
    commit=commit,
    summary="GM to L1, ND to NZ (pipe MTE2)",
)
