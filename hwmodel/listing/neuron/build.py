"""From the fields of one instruction to its action: operands, extents and dtypes, as the requirement has them.

These checks hold on every machine; what only some machines refuse is in `rules`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hwmodel.errors import InputError, counted
from hwmodel.listing.neuron import model as m
from hwmodel.listing.neuron.isa import command
from hwmodel.listing.neuron.places import Place, Region, region_of
from hwmodel.listing.neuron.steps import Accumulate, Action, Move, Multiply, Quantise, ReadOut, Transfer
from hwmodel.numerics import lane_remap
from hwmodel.program.neuron_dtypes import LANES, NeuronDtype
from hwmodel.units.neuron.operands import BLOCK_ROWS, DOUBLE_PIXEL, DOUBLE_ROW

ALU_OPS = ("add", "max", "min", "mult")
MODES = {"none": 0, "double_pixel": DOUBLE_PIXEL, "double_row": DOUBLE_ROW}
GROUPS = (32, 64, 128)
BLOCK = (8, 4)
ACTIVE_ROWS = 128
SPARSE_GROUP = 4
QUANTISE_SOURCES = ("bfloat16", "float16")


def build(op: str, fields: m.InstructionModel, places: dict[str, Place], preset: str, scalars: set[int]) -> Action:
    """The action of an instruction; InputError says what is wrong. ``scalars``: fresh partitions of the accumulator."""
    find = _Finder(places)
    if isinstance(fields, m.Load | m.Store):
        return _transfer(op, fields, find)
    if isinstance(fields, m.Copy):
        src, dst = find("src", fields.src), find("dst", fields.dst)
        return _move((src,), dst, fields.engine)
    if isinstance(fields, m.Add):
        return _move((find("a", fields.a), find("b", fields.b)), find("dst", fields.dst), "vector")
    if isinstance(fields, m.Matmult):
        return _dense(fields, find)
    if isinstance(fields, m.MatmultSparse):
        return _sparse(fields, find)
    if isinstance(fields, m.MatmultMx):
        return _mx(fields, find)
    if isinstance(fields, m.QuantizeMx):
        return _quantise(fields, find, preset)
    if isinstance(fields, m.EngineAccumulate):
        return _accumulate(fields, find, scalars)
    assert isinstance(fields, m.ReadAccumulator)
    dst = find("dst", fields.dst)
    _fp32_out(dst)
    if dst.cols != 1:
        raise InputError(f"dst: expected one element a partition, as the accumulator holds one, not {dst}")
    return ReadOut(dst)


class _Finder:
    def __init__(self, places: dict[str, Place]) -> None:
        self.places = places

    def __call__(self, field: str, given: Any) -> Region:
        if given is None:
            raise InputError(f"{field}: expected a tensor, but it is missing")
        return region_of(given, self.places, field)

    def maybe(self, field: str, given: Any) -> Region | None:
        return None if given is None else self(field, given)


# -- movement ----------------------------------------------------------------------------------------------------------


def _transfer(op: str, fields: m.Load | m.Store, find: _Finder) -> Transfer:
    src, dst = find("src", fields.src), find("dst", fields.dst)
    ends = ("dram", "sbuf") if op == "load" else ("sbuf", "dram")
    for name, region, space in (("src", src, ends[0]), ("dst", dst, ends[1])):
        if region.space != space:
            hint = "; DMA does not reach PSUM: copy to SBUF first" if region.space == "psum" else ""
            raise InputError(f"{name}: expected a tensor in {space} for a {op}, not {region}{hint}")
    _same_shape(src, dst)
    if src.dtype != dst.dtype:
        raise InputError(f"dst: expected {src.dtype.name}, as DMA moves bytes, not {dst.dtype.name}")
    return Transfer(src, dst, fields.queue)


def _same_shape(src: Region, dst: Region) -> None:
    if (src.rows, src.cols) != (dst.rows, dst.cols):
        raise InputError(f"dst: expected the shape of the source [{src.rows}, {src.cols}], not {dst}")


def _move(sources: tuple[Region, ...], dst: Region, engine: str) -> Move:
    for source in sources:
        if source.space == "dram" or dst.space == "dram":
            raise InputError("src, dst: expected tensors on chip; load and store move to and from dram")
        _same_shape(source, dst)
    move = Move(sources, dst, engine)
    for region in () if move.keeps_bits else (*sources, dst):
        if not _is_number(region):
            raise InputError(f"expected a dtype that can be cast, or the same on both sides, not {region}")
    return move


def _is_number(region: Region) -> bool:
    """Whether an engine can compute with its elements; scale bytes and containers are only moved."""
    dtype = region.dtype
    return dtype.element is not None and dtype.lanes == 1 and dtype.name != "float8_e8m0fnu"


# -- matmuls -----------------------------------------------------------------------------------------------------------


def gate(ifmap: Region, weights: Region) -> None:
    """Only floats and uint8 enter the array."""
    for name, region in (("ifmap", ifmap), ("weights", weights)):
        dtype = region.dtype
        if not dtype.is_float and dtype.name != "uint8":
            raise InputError(f"Invalid {name} data type for matmult: {dtype.name}; legal are floats and uint8")
    if ifmap.dtype.name == "float32r" and weights.dtype.name != "float32r":
        raise InputError(f"an ifmap of float32r needs weights of float32r, not {weights.dtype.name}")


def _product(ifmap_k: int, weights_k: int) -> None:
    if ifmap_k != weights_k:
        raise InputError(
            f"invalid matrix product: the ifmap contracts {ifmap_k}, the weights {weights_k}; both must be the same"
        )


def _wide(region: Region) -> int:
    """Elements of a partition, containers unpacked."""
    return region.cols * region.dtype.lanes


def _result(dst: Region, p: int, n: int) -> None:
    if (dst.rows, dst.cols) != (p, n):
        raise InputError(f"dst: expected [{p}, {n}] (weight columns, moving rows), not {dst}")


def _dense(fields: m.Matmult, find: _Finder) -> Multiply:
    ifmap, weights = find("ifmap", fields.ifmap), find("weights", fields.weights)
    dst, gather = find("dst", fields.dst), find.maybe("weights_index", fields.weights_index)
    gate(ifmap, weights)
    mode = _mode(fields.perf_mode)
    for name, size in (("row_group", fields.row_group), ("col_group", fields.col_group)):
        if size not in GROUPS:
            raise InputError(f"{name}: expected one of {', '.join(map(str, GROUPS))}, not {size}")
    for name, region in (("ifmap", ifmap), ("weights", weights)):
        if getattr(fields, f"{name}_onezero") and region.dtype.name != "float32":
            raise InputError(f"{name}_onezero: expected with float32 operands, whose passes it halves, not {region}")
    weights_rows = _gathered(gather, weights)
    shortened = fields.fp32r_bits if ifmap.dtype.name == "float32r" else None
    if fields.transpose:
        if ifmap.dtype.lanes > 1:
            raise InputError(f"ifmap: expected single elements for a transpose, not containers of four, {ifmap}")
        _product(_wide(ifmap), _wide(weights))
        _result(dst, weights_rows, ifmap.rows)
        if dst.dtype != ifmap.dtype:
            raise InputError(f"dst: expected {ifmap.dtype.name}, as a transpose keeps the dtype, not {dst.dtype.name}")
        k, p, n = _wide(ifmap), weights_rows, ifmap.rows
    else:
        times = 2 if mode else 1
        for name, region in (("ifmap", ifmap), ("weights", weights)):
            if _wide(region) % times:
                raise InputError(f"{name}: expected an even number of elements for perf_mode {mode}, not {region}")
        _product(times * ifmap.rows, times * weights_rows)
        k, p, n = times * ifmap.rows, _wide(weights) // times, _wide(ifmap) // times
        _result(dst, p, n)
        _sums_dtype(dst)
    return Multiply(
        8, ifmap, weights, dst, k, p, n, None, (0, 0),
        gather=gather,
        weights_zero=_zero(fields.weights_zero),
        ifmap_zero=_zero(fields.ifmap_zero),
        mode=mode,
        col_group=fields.col_group,
        transpose=fields.transpose,
        onezero=(fields.weights_onezero, fields.ifmap_onezero),
        fp32r_bits=shortened,
    )  # fmt: skip


def _sums_dtype(dst: Region) -> None:
    if dst.dtype.name not in ("float32", "bfloat16"):
        raise InputError(f"dst: expected float32 sums, or bfloat16 where PSUM keeps them, not {dst.dtype.name}")


def _mode(given: int | str) -> int:
    mode = MODES.get(given, -1) if isinstance(given, str) else given
    if mode not in MODES.values():
        legal = ", ".join(f"{number} {name}" for name, number in MODES.items())
        raise InputError(
            f"perf_mode: expected {legal}, not {given!r} (public lists number them otherwise: 1 double row, "
            "3 double pixel, 4 double row software-interleaved)"
        )
    return mode


def _zero(given: m.ZeroPoint | None) -> int | None:
    return given.value if given is not None and given.valid else None


def _gathered(gather: Region | None, weights: Region) -> int:
    """Rows of the weights after the gather."""
    if gather is None:
        return weights.rows
    if gather.cols != 1 or gather.dtype.is_float or gather.dtype.bytes < 2:
        raise InputError(f"weights_index: expected integers of at least 16 bits, one a partition, not {gather}")
    return gather.rows


def _mx(fields: m.MatmultMx, find: _Finder) -> Multiply:
    ifmap, weights = find("ifmap", fields.ifmap), find("weights", fields.weights)
    ifmap_scales = find("ifmap_scales", fields.ifmap_scales)
    weights_scales = find("weights_scales", fields.weights_scales)
    gather = find.maybe("weights_index", fields.weights_index)
    dst = find("dst", fields.dst)
    gate(ifmap, weights)
    _block(fields.block)
    weights_rows = _gathered(gather, weights)
    for name, region, rows in (("ifmap", ifmap, ifmap.rows), ("weights", weights, weights_rows)):
        if rows % BLOCK_ROWS or _wide(region) % LANES:
            what = f"{counted(rows, 'partition')} x {counted(_wide(region), 'element')}"
            raise InputError(f"{name}: expected whole blocks of 8 partitions x 4 elements, not {what}")
        if region.dtype.bytes > 1 and region.dtype.lanes == 1:
            raise InputError(f"{name}: expected an x4 dtype (2, 8, 9) or an 8-bit float, not {region.dtype.name}")
    _scale_size("ifmap", ifmap, ifmap.rows, ifmap_scales)
    _scale_size("weights", weights, weights_rows, weights_scales)
    _product(ifmap.rows * LANES, weights_rows * LANES)
    p, n = _wide(weights) // LANES, _wide(ifmap) // LANES
    _result(dst, p, n)
    _sums_dtype(dst)
    return Multiply(
        95, ifmap, weights, dst, ifmap.rows * LANES, p, n, None, (0, 0),
        gather=gather,
        ifmap_scales=ifmap_scales,
        weights_scales=weights_scales,
        lanes=_lanes(fields.lane_remap, ifmap, weights),
    )  # fmt: skip


def _block(given: tuple[int, int]) -> None:
    if given != BLOCK:
        raise InputError(f"block: expected [8, 4] (8 partitions x 4 elements = 32), not {list(given)}")


def _scale_size(name: str, data: Region, partitions: int, scales: Region) -> None:
    """A byte for each 8 partitions and container: its place is a slot of the data's partitions."""
    columns = _wide(data) // LANES
    needed = partitions // BLOCK_ROWS * columns
    found = scales.rows // BLOCK_ROWS * scales.cols if scales.rows == partitions else scales.rows * scales.cols
    if (scales.rows, scales.cols) != (partitions, columns):
        raise InputError(
            f"{name}_scales: expected {counted(needed, 'scale byte')} in the slots of [{partitions}, {columns}], "
            f"not {found:,} in {scales}"
        )
    if scales.dtype.bytes != 1 or scales.dtype.name not in ("uint8", "float8_e8m0fnu"):
        raise InputError(f"{name}_scales: expected uint8 or float8_e8m0fnu, not {scales.dtype.name}")


def _lanes(given: m.LaneRemap | None, *packed: Region) -> tuple[int, int] | None:
    """Order of lanes in the containers of ``packed``, whose elements are whole periods of it."""
    if given is None:
        return None
    period = len(lane_remap(given.stride, given.parity))
    for region in packed:
        if region.dtype.lanes > 1 and _wide(region) % period:
            raise InputError(
                f"lane_remap: expected a multiple of {period} elements a partition for stride {given.stride}, "
                f"not {_wide(region)} in {region}"
            )
    return given.stride, given.parity


def _sparse(fields: m.MatmultSparse, find: _Finder) -> Multiply:
    ifmap, weights = find("ifmap", fields.ifmap), find("weights", fields.weights)
    index, dst = find("index", fields.index), find("dst", fields.dst)
    gate(ifmap, weights)
    if fields.num_active_rows % SPARSE_GROUP:
        raise InputError(f"Error: num_active_rows should be divisible by 4, not {fields.num_active_rows}")
    if fields.num_active_rows != ACTIVE_ROWS:
        raise InputError(f"Only the 128-active-rows case is supported, not {fields.num_active_rows}")
    if index.dtype.name != "int16":
        raise InputError(f"index: expected int16, not {index.dtype.name}")
    if fields.weights_index is not None:
        raise InputError("weights_index: expected none for a sparse matmul")
    _product(ifmap.rows, weights.rows)
    if weights.rows != ACTIVE_ROWS:
        raise InputError(f"weights: expected {ACTIVE_ROWS} active rows, not {weights}")
    ratio = fields.ratio
    if _wide(ifmap) % ratio:
        raise InputError(f"ifmap: expected {ratio} pieces of equal size a partition, not {ifmap}")
    p, n = _wide(weights), _wide(ifmap) // ratio
    if (index.rows, index.cols) != (ACTIVE_ROWS // SPARSE_GROUP, p):
        raise InputError(f"index: expected [{ACTIVE_ROWS // SPARSE_GROUP}, {p}] (groups, weight columns), not {index}")
    _result(dst, p, n)
    _sums_dtype(dst)
    return Multiply(9, ifmap, weights, dst, ACTIVE_ROWS, p, n, None, (0, 0), tags=index, ratio=ratio)


# -- the rest ----------------------------------------------------------------------------------------------------------


def _quantise(fields: m.QuantizeMx, find: _Finder, preset: str) -> Quantise:
    src = find("src", fields.src)
    data, scales = find("data", fields.data), find("scales", fields.scales)
    _block(fields.block)
    if src.dtype.name not in QUANTISE_SOURCES:
        raise InputError(f"src: expected bfloat16 or float16, not {src.dtype.name}")
    if src.rows % BLOCK_ROWS or src.cols % LANES:
        raise InputError(f"src: expected whole blocks of 8 partitions x 4 elements, not {src}")
    target: NeuronDtype = data.dtype
    if target.element is None or not 2 <= target.number <= 9 or target.name == "float8_e8m0fnu":
        raise InputError(f"data: expected an FP4 or FP8 dtype (2 to 9), not {target.name}")
    if (data.rows, _wide(data)) != (src.rows, src.cols):
        raise InputError(f"data: expected [{src.rows}, {src.cols // target.lanes}] {target.name}, not {data}")
    _scale_size("data", data, data.rows, scales)
    hardware = (fields.preset or preset) == "hw"
    if hardware and target.element == "fp4_e2m1":
        raise InputError(
            "data: preset hw quantises to FP8 only (float8_e4m3fn_x4, float8_e5m2_x4), as the hardware does"
        )
    rule = "neuron_hw" if hardware else "neuron_alt_emax" if fields.alternative_emax else "neuron"
    return Quantise(src, data, scales, rule, fields.nan_suppress, _lanes(fields.lane_remap, data))


def _accumulate(fields: m.EngineAccumulate, find: _Finder, fresh: set[int]) -> Accumulate:
    what = command(fields.command)
    if fields.dst is not None:
        _fp32_out(find("dst", fields.dst))
    if fields.alu_op not in ALU_OPS:
        raise InputError(f"alu_op: expected one of {', '.join(ALU_OPS)}, not {fields.alu_op!r}")
    if what.loads and fields.immediate is None:
        raise InputError("an instruction that does a LoadAccumulate must provide an immediate value to load")
    src = find.maybe("src", fields.src)
    if what.reduces and src is None:
        raise InputError(f"src: expected a tensor to reduce for command {what.name}, but it is missing")
    if src is not None and (not _is_number(src) or src.space == "dram"):
        raise InputError(f"src: expected numbers on chip, not {src}")
    first, count = fields.partitions or ((0, 128) if src is None else (src.partition, src.rows))
    if src is not None and (first, count) != (src.partition, src.rows):
        raise InputError(f"partitions: expected those of the source, [{src.partition}, {src.rows}]")
    if first + count > 128:
        raise InputError(f"partitions: expected 0 to 127, not {first} + {count}")
    mine = set(range(first, first + count))
    begins = what.loads or what.zeroes
    if not begins and mine & fresh and mine - fresh:
        raise InputError("partitions: some of them begin a reduction and some go on with one")
    immediate = _fp32(fields.immediate) if what.loads else None
    return Accumulate(what, (first, count), src, fields.alu_op, immediate, begins or bool(mine & fresh))


def _fp32(number: float | None) -> float | None:
    """A number as fp32 holds it: infinite beyond its largest."""
    if number is None:
        return None
    try:
        with np.errstate(over="ignore"):
            return float(np.float32(number))
    except OverflowError:
        raise InputError("immediate: expected a number that a double holds (up to 1.8e308)") from None


def _fp32_out(dst: Region) -> None:
    if dst.dtype.name != "float32":
        raise InputError(f"the accumulator's output must be float32 (OutRes.getType() == Dtype::float32), not {dst}")
