"""What a machine is: clocks, cores, buffers, links and units, read from ``configs/arch/*.yaml``.

The numbers here are plain; where each comes from and how far to trust it is kept beside them in `Arch.sources`, by
dotted path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union

from pydantic import Field

from hwmodel.quantities import common_rate
from hwmodel.units import UNITS, UnitKind
from hwmodel.units.base import Cycles, Rate, Spec, UnitSpec

OVERRIDE = "override"
"""Source of a number that was set for one run (``--set``) and says nothing about itself."""
CONFIDENCES = ("spec", "silicon", "derived", "fit", "assumed")


class BufferSpec(Spec):
    """An on-chip buffer."""

    capacity_bytes: int = Field(gt=0, description="for one core")
    partitions: int = Field(default=1, gt=0, description="rows of the buffer; an address counts bytes inside one")
    allocation_bytes: int = Field(default=32, gt=0, description="start and size of a tile are multiples of it")
    banks: Annotated[int, Field(gt=0)] | Literal["none", "per_tile"] = Field(
        default="none",
        description="two engines in one bank take turns; none: not modelled, per_tile: a bank for each tile",
    )
    one_at_a_time: tuple[str, ...] = Field(
        default=(), description="engines that share a port: they take turns whatever banks they use"
    )

    @property
    def partition_bytes(self) -> int:
        """What an address can reach: the capacity of one partition, all of it where there is only one."""
        return self.capacity_bytes // self.partitions


class LinkSpec(Spec):
    """A link that the cores share."""

    bytes_per_cycle: Rate = Field(description="of the whole chip, in cycles of the reference clock")
    core_bytes_per_cycle: Rate | None = Field(
        default=None, description="most that one core gets, however idle the others are; none: what its unit takes"
    )


class L2Spec(Spec):
    """The cache between HBM and the cores."""

    capacity_bytes: int = Field(gt=0, description="of the whole chip")
    line_bytes: int = Field(default=512, gt=0, description="unit of transfer from HBM")


class OperandPairs(Spec):
    """Which operand dtypes the Cube multiplies, ``[a, b]`` each."""

    mx: tuple[tuple[str, str], ...] = Field(default=(), description="TMATMUL_MX, block scales")
    plain: tuple[tuple[str, str], ...] = Field(default=(), description="TMATMUL")


class KnownError(Spec):
    """How far the machine is from published measurements: what ``hwmodel validate`` finds."""

    measurements: int = Field(gt=0, description="kernels that were measured and simulated")
    mape_percent: float = Field(ge=0, description="mean absolute error of their time")
    worst_percent: float = Field(ge=0, description="largest absolute error of their time")


UnitUnion: TypeAlias = Annotated[Union[tuple(kind.spec for kind in UNITS.values())], Field(discriminator="kind")]  # type: ignore[valid-type]  # noqa: UP007


class ArchSpec(Spec):
    """A machine, as the arch file gives it."""

    schema_version: Literal[1] = 1
    name: str
    family: Literal["ascend", "neuron"]
    description: str = ""
    calibrated: bool = Field(default=False, description="true where silicon measurements back the timing")
    validation: KnownError | None = Field(default=None, description="where calibrated: the errors that are left")
    clock_mhz: Rate = Field(description="reference clock: the Cube's or the PE's")
    cores: int = Field(gt=0)
    launch_cycles: Cycles = Field(default=0, description="from the start of the kernel to the first instruction")
    buffers: dict[str, BufferSpec]
    links: dict[str, LinkSpec] = Field(default_factory=dict)
    l2: L2Spec | None = None
    units: dict[str, UnitUnion]
    operand_pairs: OperandPairs = Field(default_factory=OperandPairs)
    l0a_layout: Literal["NZ", "ZZ"] = Field(default="NZ", description="fractal order in L0A: ZZ on A2/A3")
    max_extent: int = Field(default=4095, gt=0, description="largest M, K or N of one matmul instruction")
    features: tuple[str, ...] = Field(default=(), description="what instructions may ask beyond the common ones")


class Source(NamedTuple):
    """Where a number comes from and how far to trust it."""

    source: str
    confidence: str


@dataclass(frozen=True)
class Unit:
    """A unit of this machine: its kind, its specification and how many ticks one of its cycles has."""

    name: str
    kind: UnitKind
    spec: Any
    ticks_per_cycle: int


@dataclass(frozen=True)
class Arch:
    """A machine with the source of each of its numbers, by dotted path (``units.cube.startup_cycles``)."""

    spec: ArchSpec
    sources: dict[str, Source] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the machine."""
        return self.spec.name

    @property
    def calibrated(self) -> bool:
        """Whether measurements back the timing: not any more once somebody has overridden a number."""
        return self.spec.calibrated and all(source.source != OVERRIDE for source in self.sources.values())

    @property
    def known_error(self) -> KnownError | None:
        """The errors that are left, where the machine is calibrated."""
        return self.spec.validation if self.calibrated else None

    def unit(self, kind: str) -> Any:
        """Specification of the unit of that kind."""
        return self.spec.units[kind]

    def buffer_bytes(self, name: str) -> int:
        """Capacity of a buffer in bytes, of one partition where it has several."""
        return self.spec.buffers[name].partition_bytes

    @cached_property
    def tick_rate(self) -> Fraction:
        """Ticks a microsecond: the common rate of all clocks (in MHz)."""
        own = (unit.clock_mhz for unit in self.spec.units.values() if unit.clock_mhz)
        return common_rate({self.spec.clock_mhz, *own})

    @cached_property
    def ticks_per_cycle(self) -> int:
        """Ticks of one cycle of the reference clock."""
        return int(self.tick_rate / self.spec.clock_mhz)

    @cached_property
    def units(self) -> dict[str, Unit]:
        """The units by the names of their engines."""
        found = {}
        for name, spec in self.spec.units.items():
            kind = UNITS[spec.kind]
            ticks = int(self.tick_rate / (spec.clock_mhz or self.spec.clock_mhz))
            unit = Unit(kind.unit or name, kind, spec, ticks)
            found.update(dict.fromkeys(kind.engines_of(spec), unit))
        return found

    @cached_property
    def core_link_rates(self) -> dict[str, Fraction]:
        """Bytes a tick that one core gets over a link it has for itself: as much as link, core and unit allow."""
        found = {}
        for name, link in self.spec.links.items():
            limits = [rate / self.ticks_per_cycle for rate in (link.bytes_per_cycle, link.core_bytes_per_cycle) if rate]
            for unit in self.units.values():
                rates = unit.kind.link_rates(unit.spec)
                limits += [rates[name] / unit.ticks_per_cycle] if name in rates else []
            found[name] = min(limits)
        return found

    @property
    def clock_hz(self) -> Fraction:
        """Reference clock in Hz."""
        return self.spec.clock_mhz * 1_000_000

    def microseconds(self, cycles: int) -> float:
        """Modelled time of ``cycles`` of the reference clock."""
        return float(cycles / self.spec.clock_mhz)

    def peak_macs_per_cycle(self, a: str, b: str) -> int:
        """Multiply-adds a cycle and core for a pair of operands."""
        return max(
            kind.peak_macs(spec, a, b)
            for kind, spec in ((UNITS[spec.kind], spec) for spec in self.spec.units.values())
            if kind.peak_macs is not None
        )


__all__ = ["CONFIDENCES", "Arch", "ArchSpec", "BufferSpec", "L2Spec", "LinkSpec", "OperandPairs", "Source", "UnitSpec"]
