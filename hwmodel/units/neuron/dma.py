"""DMA: queues that hand transfers to the rings of a core. A ring moves one descriptor (a contiguous row) at a time.

A transfer starts some time after its trigger, keeps its descriptors on the rings, and is seen by others some time
after its last byte. One queue hands out one transfer in ``issue_cycles``; transfers of several queues share the rings.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hwmodel.program.instructions import Instruction
from hwmodel.program.memory import Part, Tile, Window
from hwmodel.program.neuron import Transfer
from hwmodel.quantities import ceil_div
from hwmodel.units.base import Cycles, Rate, Timing, UnitKind, UnitSpec
from hwmodel.units.neuron.storage import CoreMemory
from hwmodel.units.storage import Array


class DmaSpec(UnitSpec):
    """Rates and latencies of the DMA rings of a core."""

    kind: Literal["dma"] = "dma"
    queues: int = Field(gt=0, description="queues that a program uses (DMA0, DMA1, ...)")
    rings: int = Field(gt=0, description="descriptors that move at the same time")
    partitions_per_ring: int = Field(gt=0, description="partitions that one ring serves")
    bytes_per_cycle: Rate = Field(description="of one ring, inside a descriptor")
    descriptor_cycles: Rate = Field(description="of each descriptor, whatever its size")
    descriptor_bytes: int = Field(gt=0, description="a longer row is several descriptors")
    startup_cycles: Cycles = Field(description="from the trigger to the first byte")
    completion_cycles: Cycles = Field(description="from the last byte until a waiting engine can start")
    issue_cycles: Cycles = Field(description="between two transfers of one queue")


def row_cycles(spec: DmaSpec, row_bytes: int) -> Rate:
    """Cycles of one row on its ring: descriptors one after the other (hardware facts 2.4)."""
    return ceil_div(row_bytes, spec.descriptor_bytes) * spec.descriptor_cycles + row_bytes / spec.bytes_per_cycle


def timing(spec: DmaSpec, params: Transfer) -> Timing:
    """The rings as one server: a transfer that uses some of them takes its share of it, and its own time at least."""
    row = row_cycles(spec, params.row_bytes)
    alone = min(params.rows, spec.partitions_per_ring) * row
    if params.rows > spec.rings * spec.partitions_per_ring:
        alone = ceil_div(params.rows, spec.rings) * row
    share = params.rows * row / spec.rings
    work = ceil_div(min(share, alone), 1)
    return Timing(spec.issue_cycles, spec.startup_cycles, work, spec.completion_cycles + ceil_div(alone, 1) - work)


def cycles(spec: DmaSpec, params: Transfer) -> int:
    """From trigger to completion when nobody else uses the rings."""
    timed = timing(spec, params)
    return timed.before + timed.work + timed.after


def capture(instruction: Instruction, storage: CoreMemory) -> Array:
    """What lies at the source when the transfer starts."""
    (source,) = instruction.reads
    if isinstance(source, Window):
        return storage.load(source)
    assert isinstance(source, Part)
    return storage.read(source)


def commit(instruction: Instruction, storage: CoreMemory, payload: Array) -> None:
    """Write the destination when the transfer has ended."""
    (target,) = instruction.writes
    if isinstance(target, Window):
        storage.store(target, payload)
    else:
        assert isinstance(target, Tile)
        storage.write(target, payload)


UNIT = UnitKind(
    kind="dma",
    spec=DmaSpec,
    engine="DMA0",
    engines=lambda spec: tuple(f"DMA{queue}" for queue in range(spec.queues)),
    operations={"load": 0, "store": 4},
    spaces=frozenset({"sbuf"}),
    cycles=cycles,
    timing=timing,
    gm_bytes=lambda params: (params.read_bytes, params.written_bytes),
    capture=capture,
    commit=commit,
    summary="HBM to SBUF and back (queues DMA0, DMA1, ...)",
)
