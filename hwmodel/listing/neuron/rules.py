"""What a machine refuses beyond the requirement's value model (hardware facts 3 and 4). ``legality: off`` skips it."""

from __future__ import annotations

from hwmodel.arch import Arch
from hwmodel.errors import InputError, counted
from hwmodel.listing.neuron.places import BANK_BYTES, Region
from hwmodel.listing.neuron.steps import Accumulate, Action, Move, Multiply, Quantise, ReadOut, Transfer
from hwmodel.neuron_mx import PARTITIONS as MX_PARTITIONS
from hwmodel.program.neuron_dtypes import NeuronDtype

MOST_WEIGHT_COLUMNS = 128
OCP, NOT_OCP = "float8_e4m3fn", "float8e4"
FULL_WIDTH = ("float32", "float32r")
SBUF_ELEMENTS, PSUM_ELEMENTS = 64 * 1024, 4 * 1024
"""That an engine reads or writes of a partition; how much a matmul writes is the array's own limit."""
SUM_BYTES = 4
"""Of the sums that ``max_moving`` counts; narrower ones may be more."""


def check_engine(action: Action, arch: Arch) -> None:
    """InputError where there is no engine for an instruction, whatever is legal."""
    if isinstance(action, Transfer):
        queues = arch.unit("dma").queues
        if action.queue >= queues:
            raise InputError(f"queue: expected 0 to {queues - 1}, not {action.queue}")


def check(action: Action, arch: Arch) -> None:
    """InputError for the first thing that the machine refuses, with what is legal."""
    if isinstance(action, Transfer):
        return
    if isinstance(action, Multiply):
        _spaces(action)
    for region in _touched(action):
        _access(region)
        if not isinstance(action, Multiply) or region is not action.dst:
            _size(region)
    if isinstance(action, Multiply):
        _multiply(action, arch)
    elif isinstance(action, Move):
        if len(action.sources) > 1 and all(source.space == "psum" for source in action.sources):
            raise InputError("a, b: expected at most one of them in psum, as an engine reads PSUM once at a time")
    elif isinstance(action, Quantise):
        _quantise(action, arch)


def _touched(action: Action) -> tuple[Region, ...]:
    if isinstance(action, Multiply):
        return (*action.operands, action.dst)
    if isinstance(action, Move):
        return (*action.sources, action.dst)
    if isinstance(action, Quantise):
        return (action.src, action.data, action.scales)
    if isinstance(action, ReadOut):
        return (action.dst,)
    return (action.src,) if isinstance(action, Accumulate) and action.src is not None else ()


def _access(region: Region) -> None:
    """Engines begin at partition 0 for up to 128, 0 or 64 for up to 64, a multiple of 32 for up to 32 partitions."""
    if region.space == "dram":
        raise InputError(f"{region}: engines read and write SBUF and PSUM only; load it first")
    step = 128 if region.rows > 64 else 64 if region.rows > 32 else 32
    if region.partition % step:
        legal = {128: "0", 64: "0 or 64", 32: "0, 32, 64 or 96"}[step]
        raise InputError(
            f"{region}: an access to {counted(region.rows, 'partition')} starts at partition {legal}, "
            f"not {region.partition}"
        )


def _size(region: Region) -> None:
    most = PSUM_ELEMENTS if region.space == "psum" else SBUF_ELEMENTS
    if region.cols > most:
        raise InputError(f"{region}: an access has at most {most} elements a partition in {region.space}")


def _spaces(action: Multiply) -> None:
    for region in action.operands:
        if region.space != "sbuf":
            raise InputError(f"{region}: the PE array reads SBUF only")
    if action.dst.space != "psum":
        asserted = "!curMemLoc.isSB()" if action.dst.space == "sbuf" else "!curMemLoc.isDRAM()"
        raise InputError(f"dst: a matmul writes PSUM only ({asserted}), not {action.dst}")


def _multiply(action: Multiply, arch: Arch) -> None:
    _sums(action, arch)
    _extents(action, arch)
    if action.opcode == 95:
        _mx(action, arch)
        return
    _mixture(action.ifmap.dtype, action.weights.dtype)
    if action.opcode == 9:
        _feature(arch, "sparse", "a structured sparse matmul")
    if action.transpose:
        _transpose(action, arch)
    if action.mode:
        _feature(arch, "double_row", f"perf_mode {action.mode}")
        if action.col_group != arch.unit("pe").columns:
            raise InputError(
                f"col_group: expected {arch.unit('pe').columns} with perf_mode {action.mode}, which has no column "
                f"tiling, not {action.col_group}"
            )
        for region in (action.ifmap, action.weights):
            if region.dtype.bytes != 1 or not region.dtype.is_float:
                raise InputError(f"perf_mode {action.mode}: expected FP8 operands, not {region}")


def _transpose(action: Multiply, arch: Arch) -> None:
    """It moves data: what else changes operands goes with products only."""
    _feature(arch, "transpose", "the transpose variant")
    for name, given in (
        ("perf_mode", action.mode or None),
        ("weights_zero", action.weights_zero),
        ("ifmap_zero", action.ifmap_zero),
        ("weights_onezero", action.onezero[0] or None),
        ("ifmap_onezero", action.onezero[1] or None),
    ):
        if given is not None:
            raise InputError(f"{name}: expected none in transpose mode, which moves data, not {given}")


def _feature(arch: Arch, name: str, what: str) -> None:
    if name not in arch.spec.features:
        raise InputError(f"{arch.name} has no {what.removeprefix('the ').removeprefix('a ')}")


def _sums(action: Multiply, arch: Arch) -> None:
    if not action.transpose and action.dst.dtype.name == "bfloat16":
        _feature(arch, "psum_bf16", "bfloat16 sums in PSUM: expected float32")


def _extents(action: Multiply, arch: Arch) -> None:
    most = arch.unit("pe").max_moving * SUM_BYTES // action.dst.dtype.bytes
    if action.n > most:
        why = "one matmul writes one PSUM bank" if most * action.dst.dtype.bytes == BANK_BYTES else "all PSUM banks"
        raise InputError(f"ifmap: expected at most {most} moving rows on {arch.name} ({why}), not {action.n}")
    columns = action.k if action.transpose else action.p
    if columns > MOST_WEIGHT_COLUMNS:
        raise InputError(f"weights: expected at most {MOST_WEIGHT_COLUMNS} columns, not {columns}")
    dst = action.dst
    last = (dst.offset + dst.size - 1) // BANK_BYTES
    if last != dst.offset // BANK_BYTES and "psum_multibank" not in arch.spec.features:
        raise InputError(f"dst: {dst} lies in more than one bank; one matmul writes one bank on {arch.name}")


def _mixture(ifmap: NeuronDtype, weights: NeuronDtype) -> None:
    for dtype in (ifmap, weights):
        if dtype.lanes > 1:
            raise InputError(f"{dtype.name}: x4 operands go with matmult_mx (95), not with a dense or sparse matmul")
        if not dtype.operand:
            raise InputError(f"{dtype.name}: no operand of a matmul: it holds scale bytes")
    full = [dtype.name for dtype in (ifmap, weights) if dtype.name in FULL_WIDTH]
    if full and ifmap.name != weights.name:
        raise InputError(
            f"{ifmap.name} x {weights.name}: fp32 is not mixed with other dtypes in one matmul; "
            f"legal is {full[0]} x {full[0]} or two dtypes of at most 16 bits"
        )
    if {ifmap.name, weights.name} == {OCP, NOT_OCP}:
        raise InputError(f"{ifmap.name} x {weights.name}: the two kinds of e4m3 are not mixed in one matmul")


def _mx(action: Multiply, arch: Arch) -> None:
    _feature(arch, "mx", "MX matmul")
    ifmap, weights = action.ifmap, action.weights
    legal = ", ".join(map(str, MX_PARTITIONS))
    for name, region in (("ifmap", ifmap), ("weights", weights)):
        if region.dtype.lanes == 1:
            raise InputError(f"{name}: expected an x4 dtype (2, 8, 9), not {region.dtype.name}")
        if region.rows not in MX_PARTITIONS:
            raise InputError(f"{name}: expected {legal} partitions, the same for both operands, not {region.rows}")
    if action.p % 2:
        raise InputError(f"weights: expected an even number of columns up to 128, not {action.p}")
    _beside("ifmap_scales", action.ifmap_scales, ifmap)
    _beside("weights_scales", action.weights_scales, weights)


def _beside(name: str, scales: Region | None, data: Region) -> None:
    """Scale bytes lie in the partition quadrants of their data."""
    if scales is not None and scales.partition != data.partition:
        raise InputError(
            f"{name}: expected scale bytes in the partition quadrants of {data.place.name}, from {data.partition} on, "
            f"not from {scales.partition} on"
        )


def _quantise(action: Quantise, arch: Arch) -> None:
    _feature(arch, "mx", "quantize_mx")
    if action.src.space != "sbuf" or action.data.space != "sbuf" or action.scales.space != "sbuf":
        raise InputError("src, data, scales: expected tensors in sbuf")
    if action.src.rows % 32:
        raise InputError(f"src: expected a multiple of 32 partitions, not {action.src.rows}")
    _beside("scales", action.scales, action.data)
    if action.data.dtype.lanes == 1:
        raise InputError(f"data: expected an x4 dtype (2, 8, 9), not {action.data.dtype.name}")
