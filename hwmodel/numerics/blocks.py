"""Quantise to block formats along any axis, and back: `quantize`, `dequantize`, `decode_operand`."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwmodel.errors import NumericsError
from hwmodel.numerics import hif4, mx, neuron
from hwmodel.numerics.backend import kernels, run_slices
from hwmodel.numerics.checks import check_choice, whole
from hwmodel.numerics.codec import as_codes, as_source, decode, to_fp32
from hwmodel.numerics.dtypes import Block, block_record, dtype_record
from hwmodel.numerics.rounding import F32, canonical_nan, round_bf16, round_to_odd
from hwmodel.numerics.scales import BlockScales, BlockTensor, Hif4Scales, MxScales, scale_planes
from hwmodel.numerics.tables import decode_table
from hwmodel.quantities import ceil_div

Array = NDArray[Any]
CHUNK = 1 << 15
"""Elements quantised at a time: the temporaries of a chunk fit the second-level cache."""
Quantiser = Callable[[F32], tuple[Array, ...]]


def quantize(
    values: ArrayLike,
    dtype: str,
    axis: int = -1,
    rule: str | None = None,
    source: Literal["bf16", "native"] | None = None,
    **switches: Any,
) -> BlockTensor:
    """Quantise ``values`` to a block dtype, blocks along ``axis``; the codes have the shape of the values.

    Blocks never run across the ends of ``axis``: a last partial block is filled with zeros for its scale. ``rule``
    names the quantiser (`RULES`; default ``a6`` for hif4, ``floor`` for MX), ``switches`` replace single choices of it
    (fields of `Hif4Rule` or `MxRule`). ``source="bf16"`` (default for hif4) first rounds the values to bf16, half-even;
    ``"native"`` (default for MX) takes fp32, fp16 and bf16 values as they are. float64 values are rounded to the source
    type once. (The vendor's generator behind ``golden`` casts to bf16 too: ``source="bf16"`` for wider data.)

    Raises NumericsError for unknown names, a dtype without block scales, an axis that does not exist, and whatever
    the rule refuses.
    """
    record, block = block_record(dtype)
    array, kind = as_source(values)
    axis = _axis(axis, array)
    source = block.source if source is None else source
    check_choice("source", source, ("bf16", "native"))
    rule = block.default_rule if rule is None else rule
    is_bf16 = source == "bf16" or kind == "bf16"
    compiled = kernels("hif4", array.size * 1e-8) if block.scales == "hif4" and is_bf16 else None
    quantiser = _quantiser(block, rule, is_bf16, switches, compiled)
    if array.size == 0:
        raise NumericsError(f"values: nothing to quantise in shape {array.shape}")
    codes = np.empty(array.shape, np.uint8)
    planes: list[Any] = [np.empty(_grouped(array.shape, axis, block.group), each) for each in _plane_types(block)]
    flat = array.reshape(-1, array.shape[axis], _product(array.shape[axis + 1 :]))
    targets = [codes.reshape(flat.shape)] + [
        plane.reshape(flat.shape[0], plane.shape[axis], flat.shape[2]) for plane in planes
    ]
    to_source = _to_source(kind, source)
    if flat.shape[2] == 1 and flat.shape[1] % block.group == 0:
        groups = flat.reshape(-1, block.group)
        outs = [targets[0].reshape(-1, block.group)] + [target.reshape(-1) for target in targets[1:]]
        step = CHUNK // block.group

        def some_groups(start: int, stop: int) -> None:
            for at in range(start, stop, step):
                end = min(at + step, stop)
                for out, found in zip(outs, quantiser(to_source(groups[at:end])), strict=True):
                    out[at:end] = found

        run_slices(groups.shape[0], array.size * 1e-8, some_groups, step)
    elif flat.shape[2] == 1:
        rows = flat[:, :, 0]
        _quantize_rows(rows, [target[:, :, 0] for target in targets], block.group, quantiser, to_source)
    else:
        for outer in range(flat.shape[0]):
            _quantize_rows(flat[outer].T, [target[outer].T for target in targets], block.group, quantiser, to_source)
    scales: BlockScales = MxScales(*planes) if block.scales == "e8m0" else Hif4Scales(*planes)
    return BlockTensor(codes, scales, record.name, axis, (1, block.group))


def _quantize_rows(
    rows: Array, outs: list[Array], group: int, quantiser: Quantiser, to_source: Callable[[Array], F32]
) -> None:
    """Quantise rows [R, K] of any strides into codes [R, K] and scale planes [R, groups], some rows at a time."""
    height, k = rows.shape
    padded_k = ceil_div(k, group) * group
    step = max(1, CHUNK // padded_k)

    def some_rows(start: int, stop: int) -> None:
        for at in range(start, stop, step):
            end = min(at + step, stop)
            work = np.zeros((end - at, padded_k), np.float32)
            work[:, :k] = to_source(np.ascontiguousarray(rows[at:end]))
            codes, *scales = quantiser(work.reshape(-1, group))
            outs[0][at:end] = codes.reshape(end - at, padded_k)[:, :k]
            for out, found in zip(outs[1:], scales, strict=True):
                out[at:end] = found.reshape(end - at, -1)

    run_slices(height, rows.size * 1e-8, some_rows, step)


def _to_source(kind: str, source: str) -> Callable[[Array], F32]:
    """How a piece of the input becomes contiguous fp32 of the chosen source type."""

    def convert(piece: Array) -> F32:
        if kind == "float64":
            if source == "bf16":
                return round_bf16(round_to_odd(piece))
            with np.errstate(over="ignore"):
                return np.ascontiguousarray(piece, dtype=np.float32)
        fp32 = to_fp32(np.ascontiguousarray(piece), kind)
        return round_bf16(fp32) if source == "bf16" and kind != "bf16" else fp32

    return convert


def _quantiser(
    block: Block, rule: str, is_bf16: bool, switches: dict[str, Any], compiled: ModuleType | None
) -> Quantiser:
    if block.scales == "hif4":
        profile = hif4.hif4_rule(rule, switches)
        return lambda x: hif4.quantize_groups(x, profile, is_bf16, compiled)
    choice = mx.mx_rule(rule, switches)
    return lambda x: mx.quantize_groups(x, block.element, choice)


def _plane_types(block: Block) -> tuple[type, ...]:
    return (np.uint8, np.uint8, np.uint16) if block.scales == "hif4" else (np.uint8,)


def dequantize(tensor: BlockTensor) -> F32:
    """fp32 values of a block tensor, shape of its codes: element times scale, exact but for overflow to infinity.

    A NaN scale (E8M0 or E6M2 0xFF) makes its whole block NaN; Neuron's 8 x 4 blocks follow `dequantize_neuron_mx`.
    """
    if not isinstance(tensor, BlockTensor):
        raise NumericsError(f"dequantize: expected a BlockTensor as quantize gives it, not {type(tensor).__name__}")
    if tensor.block == (8, 4):
        assert isinstance(tensor.scales, MxScales)
        return neuron.dequantize_neuron_mx(_element_values(tensor.codes, tensor.dtype), tensor.scales.e8m0)
    _, block = block_record(tensor.dtype)
    codes = as_codes(tensor.codes, block_record(tensor.dtype)[0].format)
    axis = _axis(tensor.axis, codes)
    planes = scale_planes(tensor.scales)
    wanted = _grouped(codes.shape, axis, block.group)
    _check_planes(planes, wanted, block, tensor.dtype)
    out = np.empty(codes.shape, np.float32)
    rows = codes.reshape(-1, codes.shape[axis], _product(codes.shape[axis + 1 :]))
    grouped = [plane.reshape(rows.shape[0], wanted[axis], rows.shape[2]) for plane in planes]
    target = out.reshape(rows.shape)
    if rows.shape[2] == 1:
        _dequantize_rows(rows[:, :, 0], [plane[:, :, 0] for plane in grouped], block, target[:, :, 0])
    else:
        for outer in range(rows.shape[0]):
            _dequantize_columns(rows[outer], [plane[outer] for plane in grouped], block, target[outer])
    return out


def decode_operand(codes: ArrayLike, scales: BlockScales | None, dtype: str, axis: int = -1) -> F32:
    """fp32 values of a tile [rows, K] (``axis`` -1) or [K, columns] (``axis`` 0), scales applied; shape of the codes.

    ``scales`` are those of the tile as `read_scale_cells` gives them: [rows or columns, groups], K last, for either
    axis. K starts on a group. A plain dtype, or a 16-bit one whose scales do not count, is decoded without scales.
    """
    record = dtype_record(dtype)
    if record.block is None or scales is None:
        if record.block is not None:
            raise NumericsError(f"decode_operand: {dtype} needs its scales")
        return decode(codes, dtype)
    array = as_codes(codes, record.format)
    if array.ndim != 2:
        raise NumericsError(f"codes: expected a matrix, not shape {array.shape}")
    k_last = _axis(axis, array) == 1
    planes = scale_planes(scales)
    rows, k = array.shape if k_last else array.shape[::-1]
    _check_planes(planes, (rows, ceil_div(k, record.block.group)), record.block, dtype)
    out = np.empty(array.shape, np.float32)
    if k_last:
        _dequantize_rows(array, list(planes), record.block, out)
    else:
        _dequantize_columns(array, [plane.T for plane in planes], record.block, out)
    return out


def _dequantize_rows(codes: Array, planes: list[Array], block: Block, out: Array) -> None:
    """Values of codes [R, K] with scale planes [R, groups] into ``out`` [R, K]; any strides, K contiguous is best."""
    height, k = codes.shape
    group = block.group
    padded_k = ceil_div(k, group) * group
    step = max(1, CHUNK // padded_k)
    compiled = kernels("hif4", codes.size * 3e-9) if block.scales == "hif4" else None
    direct = compiled is not None and k == padded_k and out.flags.c_contiguous

    def some_rows(start: int, stop: int) -> None:
        for at in range(start, stop, step):
            end = min(at + step, stop)
            piece = np.ascontiguousarray(codes[at:end])
            if padded_k != k:
                piece = np.pad(piece, ((0, 0), (0, padded_k - k)))
            scales = [np.ascontiguousarray(plane[at:end]).reshape(-1) for plane in planes]
            values = out[at:end].reshape(-1, group) if direct else np.empty((piece.size // group, group), np.float32)
            _group_values(piece.reshape(-1, group), scales, block, compiled, values)
            if not direct:
                out[at:end] = values.reshape(end - at, padded_k)[:, :k]

    run_slices(height, codes.size * 1e-9, some_rows, step)


def _group_values(codes: Array, scales: list[Array], block: Block, compiled: ModuleType | None, out: Array) -> None:
    """Values of groups ``codes`` [n, group] under scales [n] into ``out`` [n, group]."""
    if compiled is not None:
        compiled.values(codes, *scales, hif4.scale_table(), out)
        return
    values = decode_table(block.element).take(codes, mode="clip")
    if block.scales == "hif4":
        factors = hif4.element_scales(*scales)
        np.multiply(values, np.repeat(factors, 4, axis=1), out=out)
    else:
        with np.errstate(all="ignore"):
            np.multiply(values, mx.scale_factors()[scales[0]][:, None], out=out)
    canonical_nan(out)


def _dequantize_columns(codes: Array, planes: list[Array], block: Block, out: Array) -> None:
    """Values of codes [K, C] with scale planes [groups, C] into ``out`` [K, C], a group of rows at a time."""
    k, cols = codes.shape
    group = block.group
    table = decode_table(block.element)
    width = max(1, CHUNK // group)

    def some_columns(start: int, stop: int) -> None:
        for at in range(start, stop, width):
            part = slice(at, min(at + width, stop))
            for number in range(planes[0].shape[0]):
                rows = slice(number * group, min(number * group + group, k))
                values = table.take(codes[rows, part], mode="clip")
                if block.scales == "hif4":
                    factors = hif4.element_scales(*(plane[number, part] for plane in planes))
                    each = np.repeat(np.ascontiguousarray(factors.T), 4, axis=0)[: values.shape[0]]
                else:
                    each = mx.scale_factors()[planes[0][number, part]]
                with np.errstate(all="ignore"):
                    values *= each
                out[rows, part] = canonical_nan(values)

    run_slices(cols, codes.size * 2e-9, some_columns, width)


def _element_values(codes: Array, dtype: str) -> F32:
    record, _ = block_record(dtype)
    return decode(as_codes(codes, record.format), record.element)


def _check_planes(planes: tuple[Array, ...], wanted: tuple[int, ...], block: Block, dtype: str) -> None:
    types = _plane_types(block)
    if len(planes) != len(types):
        raise NumericsError(f"scales of {dtype}: expected {'e8m0' if len(types) == 1 else 'ea, eb and ec'}")
    for plane, wanted_type in zip(planes, types, strict=True):
        if plane.shape != wanted or plane.dtype != wanted_type:
            raise NumericsError(
                f"scales of {dtype}: expected {np.dtype(wanted_type)} {wanted}, not {plane.dtype} {plane.shape}"
            )


def _grouped(shape: tuple[int, ...], axis: int, group: int) -> tuple[int, ...]:
    return (*shape[:axis], ceil_div(shape[axis], group), *shape[axis + 1 :])


def _product(extents: tuple[int, ...]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total


def _axis(axis: int, array: Array) -> int:
    if array.ndim == 0:
        raise NumericsError("values: expected at least one axis, not a scalar")
    if not -array.ndim <= whole("axis", axis) < array.ndim:
        raise NumericsError(f"axis: {axis} does not exist in shape {array.shape}")
    return axis % array.ndim
