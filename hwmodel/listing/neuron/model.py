"""How a Neuron program stands in a scenario: tensors and instructions, with all their fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from hwmodel.listing.contents import Contents
from hwmodel.units.base import Spec

Index = Annotated[int, Field(ge=0)]
Range = tuple[Index, Annotated[int, Field(gt=0)]]
Byte = Annotated[int, Field(ge=0, le=255)]


class TensorModel(Spec):
    """A tensor: where it lies, what it is made of, and what it holds at the start."""

    space: Literal["dram", "sbuf", "psum"]
    dtype: str | int = Field(description="Neuron name or number")
    shape: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]] = Field(
        description="[rows, stored elements of each]; rows are partitions on chip"
    )
    partition: Index = Field(default=0, description="first partition")
    offset: Index | None = Field(default=None, description="first byte in each partition; default: behind the others")
    bank: int | None = Field(default=None, description="PSUM bank; the offset then counts from its start")
    init: Contents | None = Field(default=None, description="contents at the start; without it nobody wrote them")
    output: bool | None = Field(default=None, description="part of the result; default: what is written in DRAM")


class RegionModel(Spec):
    """A rectangle of a tensor."""

    tensor: str
    rows: Range | None = Field(default=None, description="[first, count]; default: all")
    cols: Range | None = Field(default=None, description="[first, count] of stored elements; default: all")


Region: TypeAlias = str | RegionModel


class SemaphoreWait(Spec):
    """Wait until a semaphore has reached a count."""

    semaphore: str
    at_least: Annotated[int, Field(gt=0)]


class SemaphoreSet(Spec):
    """Add to a semaphore when the instruction has ended."""

    semaphore: str
    amount: Annotated[int, Field(gt=0)] = 1


class InstructionModel(Spec):
    """Fields of every instruction. ``start`` and ``accumulate`` belong to the matmul family; others are refused."""

    waits: tuple[SemaphoreWait, ...] = ()
    sets: tuple[SemaphoreSet, ...] = ()
    start: bool = Field(default=False, description="clear PSUM, then add")
    accumulate: bool = Field(default=False, description="add to what PSUM holds")


class Load(InstructionModel):
    """DMA from DRAM to SBUF."""

    src: Region
    dst: Region
    queue: Index = 0


class Store(InstructionModel):
    """DMA from SBUF to DRAM."""

    src: Region
    dst: Region
    queue: Index = 0


class Copy(InstructionModel):
    """Copy with a cast."""

    src: Region
    dst: Region
    engine: Literal["vector", "scalar"] = "vector"


class Add(InstructionModel):
    """Sum of two tensors, in fp32, with a cast."""

    a: Region
    b: Region
    dst: Region


class ZeroPoint(Spec):
    """A zero point, which counts only when it is marked valid."""

    value: Byte
    valid: bool = False


class MatmulModel(InstructionModel):
    """Fields of the matmul family."""

    ifmap: Region | None = Field(default=None, description="moving operand")
    weights: Region | None = Field(default=None, description="stationary operand")
    dst: Region
    stop: bool | None = Field(default=None, description="last matmul of a group; unsaid: nobody checks it")
    clear_banks_log2: Byte = Field(default=0, description="a start clears 2 to this power banks")
    base_partition: Index = Field(default=0, description="first partition that a start clears, when above 0")
    weights_index: Region | None = Field(default=None, description="rows of the weights to gather, one a partition")


class Matmult(MatmulModel):
    """Opcode 8: dense."""

    weights_zero: ZeroPoint | None = None
    ifmap_zero: ZeroPoint | None = None
    perf_mode: int | str = Field(default=0, description="0 none, 1 double_pixel, 4 double_row")
    transpose: bool = False
    weights_onezero: bool = Field(default=False, description="float32 weights hold only 0 and 1: half the passes")
    ifmap_onezero: bool = Field(default=False, description="a float32 ifmap holds only 0 and 1: half the passes")
    row_group: int = Field(default=128, description="rows of the array that work together; splits only the work")
    col_group: int = Field(default=128, description="columns of the array that work together; splits only the work")
    fp32r_bits: Literal[10, 11] = Field(default=11, description="explicit mantissa bits of float32r operands")


class MatmultMx(MatmulModel):
    """Opcode 95: x4 operands with their scale bytes."""

    ifmap_scales: Region | None = None
    weights_scales: Region | None = None
    block: tuple[int, int] = Field(default=(8, 4), description="partitions and elements that share a scale")
    lane_remap: LaneRemap | None = None


class MatmultSparse(MatmulModel):
    """Opcode 9: structured sparse weights."""

    index: Region | None = None
    num_active_rows: int = 128
    ratio: Literal[1, 2, 3, 4] = Field(default=4, description="dense rows for each active one")


class LaneRemap(Spec):
    """Order of lanes in an FP4 container."""

    stride: Annotated[int, Field(ge=0)] = 1
    parity: Literal[0, 1] = 1


class QuantizeMx(InstructionModel):
    """Opcode 96."""

    src: Region
    data: Region | None = None
    scales: Region | None = None
    preset: Literal["requirement", "hw"] | None = Field(default=None, description="default: that of the program")
    alternative_emax: bool = False
    nan_suppress: bool = False
    block: tuple[int, int] = Field(default=(8, 4), description="partitions and elements that share a scale")
    lane_remap: LaneRemap | None = None


class EngineAccumulate(InstructionModel):
    """Reduce rows into the accumulator."""

    command: str | int
    src: Region | None = None
    alu_op: str = "add"
    immediate: float | int | None = None
    partitions: Range | None = Field(default=None, description="of the accumulator, for a command without a source")
    dst: Region | None = Field(default=None, description="must be float32, if given")


class ReadAccumulator(InstructionModel):
    """Opcode 5."""

    dst: Region


MatmultMx.model_rebuild()

MODELS: dict[str, type[InstructionModel]] = {
    "load": Load,
    "store": Store,
    "copy": Copy,
    "add": Add,
    "matmult": Matmult,
    "matmult_sparse": MatmultSparse,
    "matmult_mx": MatmultMx,
    "quantize_mx": QuantizeMx,
    "engine_accumulate": EngineAccumulate,
    "read_activation_accumulator": ReadAccumulator,
}
"""Fields of each operation by its name."""


class Attributes(Spec):
    """Attributes of the function."""

    has_psum_accumulate_flag: bool | None = Field(
        default=None, description="unsaid: the flags count; true: every matmul adds; false: every matmul clears first"
    )


class ProgramModel(Spec):
    """``program:`` of a scenario on a NeuronCore."""

    legality: Literal["arch", "off"] = Field(default="arch", description="off: the requirement's value model alone")
    preset: Literal["requirement", "hw"] = Field(default="requirement", description="rules of quantize_mx")
    attributes: Attributes = Field(default_factory=Attributes)
    tensors: dict[str, TensorModel]
    instructions: tuple[dict[str, Any], ...]
