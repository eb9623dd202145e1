"""A Neuron program worked out in order: each instruction with its operands found and its flags decided.

Lowering and the reference both start from steps. What a flag means depends only on program order, so it is settled
here; values are not looked at.
"""

from __future__ import annotations

from typing import NamedTuple

from hwmodel.listing.neuron.isa import Command
from hwmodel.listing.neuron.places import Region

RAW_BYTES = {"float8_e8m0fnu", "uint8"}
"""Dtypes between which a cast is the byte itself (hardware facts 3)."""


class Transfer(NamedTuple):
    """DMA."""

    src: Region
    dst: Region
    queue: int


class Move(NamedTuple):
    """Copy (one source) or add (two)."""

    sources: tuple[Region, ...]
    dst: Region
    engine: str

    @property
    def keeps_bits(self) -> bool:
        """Whether it moves stored elements as they are: one dtype, or scale bytes as integers."""
        dtypes = {self.dst.dtype.name, *(source.dtype.name for source in self.sources)}
        return len(self.sources) == 1 and (len(dtypes) == 1 or dtypes == RAW_BYTES)


class Multiply(NamedTuple):
    """A matmul of the family: extents ``k``, ``p``, ``n``, operands, and what it does to PSUM.

    ``clear`` is (first byte, bytes) of each partition in ``partitions`` (first, count), None without a reset.
    ``adds``: somebody wrote wherever it goes; where a product finds nothing to add to it is copied.
    """

    opcode: int
    ifmap: Region
    weights: Region
    dst: Region
    k: int
    p: int
    n: int
    clear: tuple[int, int] | None
    partitions: tuple[int, int]
    adds: bool = False
    gather: Region | None = None
    ifmap_scales: Region | None = None
    weights_scales: Region | None = None
    tags: Region | None = None
    ratio: int = 0
    weights_zero: int | None = None
    ifmap_zero: int | None = None
    mode: int = 0
    col_group: int = 128
    transpose: bool = False
    onezero: tuple[bool, bool] = (False, False)
    """Whether weights and ifmap are said to hold only 0 and 1."""
    fp32r_bits: int | None = None
    """Mantissa bits to which operands are shortened; None: they are not."""
    lanes: tuple[int, int] | None = None

    @property
    def operands(self) -> tuple[Region, ...]:
        """Everything that it reads."""
        found = (self.weights, self.weights_scales, self.gather, self.ifmap, self.ifmap_scales, self.tags)
        return tuple(region for region in found if region is not None)


class Quantise(NamedTuple):
    """QuantizeMx."""

    src: Region
    data: Region
    scales: Region
    rule: str
    nan_suppress: bool
    lanes: tuple[int, int] | None


class Accumulate(NamedTuple):
    """A command of the accumulator over ``partitions`` (first, count). ``fresh``: it does not go on from before."""

    command: Command
    partitions: tuple[int, int]
    src: Region | None
    alu_op: str
    immediate: float | None
    fresh: bool


class ReadOut(NamedTuple):
    """The accumulator into a tensor."""

    dst: Region


Action = Transfer | Move | Multiply | Quantise | Accumulate | ReadOut


class Step(NamedTuple):
    """One instruction, by its number in the program."""

    number: int
    op: str
    action: Action
    waits: tuple[tuple[str, int], ...] = ()
    sets: tuple[tuple[str, int], ...] = ()

    @property
    def reads(self) -> tuple[Region, ...]:
        """Tensors that it reads."""
        action = self.action
        if isinstance(action, Transfer | Quantise):
            return (action.src,)
        if isinstance(action, Move):
            return action.sources
        if isinstance(action, Multiply):
            return action.operands
        if isinstance(action, Accumulate):
            return () if action.src is None else (action.src,)
        return ()

    @property
    def writes(self) -> tuple[Region, ...]:
        """Tensors that it writes."""
        action = self.action
        if isinstance(action, Quantise):
            return (action.data, action.scales)
        return () if isinstance(action, Accumulate) else (action.dst,)
