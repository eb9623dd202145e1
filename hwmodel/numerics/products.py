"""Matrix products in a stated order: `matmul` on fp32 values or block tensors, `matmul_int` on integers."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwmodel.errors import NumericsError
from hwmodel.numerics import orders
from hwmodel.numerics.block_sums import block_scaled, unscaled
from hwmodel.numerics.blocks import dequantize
from hwmodel.numerics.checks import check_choice, whole
from hwmodel.numerics.codec import as_source, to_fp32
from hwmodel.numerics.dtypes import block_record
from hwmodel.numerics.rounding import F32, canonical_nan, round_bf16
from hwmodel.numerics.scales import BlockTensor

Order = Literal["seq", "group", "f64", "blas"]
ORDERS = ("seq", "group", "f64", "blas")
_EXACT_K = 256
"""Products of 8-bit integers whose sum stays below 2^24: exact in fp32 in any order."""


def matmul(
    a: ArrayLike | BlockTensor,
    b: ArrayLike | BlockTensor,
    order: Order = "seq",
    *,
    acc: NDArray[np.float32] | None = None,
    out: NDArray[np.float32] | None = None,
    group: int | None = None,
    k_tile: int | None = None,
    scale_on: Literal["operand", "block"] = "operand",
    a_zero: int | None = None,
    b_zero: int | None = None,
    accumulate: Literal["fp32", "bf16"] = "fp32",
) -> F32:
    """``a`` [M, K] x ``b`` [K, N] (+ ``acc`` [M, N]) -> fp32 [M, N], the same bits on every machine.

    ``a`` and ``b`` hold fp32 values (fp16, bf16 and exactly representable float64 are widened), or are block tensors
    with blocks along K. ``order``:

    * ``seq``: k ascending from ``acc`` (or +0), each product and each sum rounded to fp32. Continuing from the result
      of a shorter product gives the bits of one long product.
    * ``group``: exact within each run of ``group`` of k, rounded once, runs added in fp32, ascending, from ``acc``.
      ``group`` defaults to the run over which both operands' scales are constant; without scales it must be given.
      The other orders have no runs and take no notice of it.
    * ``f64``: k ascending in float64 from ``acc``, one rounding.
    * ``blas``: what this numpy's BLAS does, then + ``acc``; the only order whose bits may differ between machines.

    ``k_tile`` cuts K into instructions: each starts at +0, and its finished product is added to the total with one fp32
    addition an element. ``accumulate="bf16"`` rounds that total to bf16 (half-even) after each addition; values stay
    in fp32. ``a_zero`` and ``b_zero`` are uint8 zero points, subtracted in fp32 before the product.

    ``scale_on="block"`` multiplies block scales onto the sum of each run instead of onto the operands: the run's
    element products are summed in ``order``, the sum times both scales is rounded once, runs are added in fp32.

    ``out`` takes the result (it may be ``acc``, or overlap any input). Every NaN is 0x7FC00000. Inputs are not changed.

    Raises NumericsError for shapes that do not fit, unknown names, and ``group`` without a run.
    """
    check_choice("order", order, ORDERS)
    check_choice("scale_on", scale_on, ("operand", "block"))
    check_choice("accumulate", accumulate, ("fp32", "bf16"))
    if group is None and order == "group":
        group = _common_group(a, b)
    group = None if group is None else whole("group", group, 1)
    k_tile = None if k_tile is None else whole("k_tile", k_tile, 1)
    left, right = _operand(a, "a", 1, a_zero), _operand(b, "b", 0, b_zero)
    if left.shape[1] != right.shape[0]:
        raise NumericsError(f"matmul: invalid matrix product, a is {left.shape} and b is {right.shape}")
    shape = (left.shape[0], right.shape[1])
    _check_sums("acc", acc, shape)
    _check_sums("out", out, shape)
    direct = out is not None and out.flags.carray and not _read_after_writing(out, left, right, acc)
    result = out if out is not None and direct else np.empty(shape, np.float32)
    if scale_on == "block":
        if k_tile is not None or accumulate != "fp32" or a_zero is not None or b_zero is not None:
            raise NumericsError("scale_on='block' goes with none of k_tile, accumulate='bf16' and zero points")

        def product(x: F32, y: F32, sums: F32) -> None:
            _run(x, y, order, None, sums, x.shape[1])

        left_plain, right_plain = _plain(a, left), _plain(b, right)
        del left, right  # the values of block tensors served to check them; their memory is worth the elements'
        block_scaled(unscaled(left_plain, 1), unscaled(right_plain, 0), acc, result, product)
    elif k_tile is None and accumulate == "fp32":
        _run(left, right, order, acc, result, group)
    else:
        _tiled(left, right, order, acc, result, group, k_tile, accumulate)
    if out is not None and result is not out:
        out[...] = result
        return out
    return result


def _plain(operand: ArrayLike | BlockTensor, values: F32) -> BlockTensor | F32:
    return operand if isinstance(operand, BlockTensor) else values


def _tiled(
    a: F32,
    b: F32,
    order: str,
    acc: F32 | None,
    out: F32,
    group: int | None,
    k_tile: int | None,
    accumulate: str,
) -> None:
    k = a.shape[1]
    tile = max(1, k) if k_tile is None else k_tile
    product = np.empty(out.shape, np.float32)
    if acc is not out:
        np.copyto(out, np.float32(0) if acc is None else acc)
    with np.errstate(all="ignore"):
        for start in range(0, max(1, k), tile):
            _run(a[:, start : start + tile], b[start : start + tile], order, None, product, group)
            np.add(out, product, out=out)
            if accumulate == "bf16":
                np.copyto(out, round_bf16(out))
    canonical_nan(out)


def _run(a: F32, b: F32, order: str, acc: F32 | None, out: F32, group: int | None) -> None:
    """One product in one order into ``out`` (which may be ``acc``)."""
    if order == "seq":
        orders.sequential(a, b, acc, out)
    elif order == "group":
        assert group is not None
        orders.grouped(a, b, acc, out, group)
    elif order == "f64":
        orders.in_float64(a, b, acc, out)
    else:
        orders.by_blas(a, b, acc, out)


def matmul_int(a: ArrayLike, b: ArrayLike, acc: ArrayLike | None = None) -> NDArray[np.int32]:
    """Exact int32 product of integers: ``a`` [M, K] x ``b`` [K, N] (+ ``acc``), wrapped around modulo 2^32.

    ``a`` and ``b`` hold integer values of at most 8 bits (`decode_int`); ``acc`` is int32 [M, N].
    """
    left, right = _integers(a, "a"), _integers(b, "b")
    if left.shape[1] != right.shape[0]:
        raise NumericsError(f"matmul: invalid matrix product, a is {left.shape} and b is {right.shape}")
    total = np.zeros((left.shape[0], right.shape[1]), np.int32)
    if acc is not None:
        start = np.asarray(acc)
        if start.dtype != np.int32 or start.shape != total.shape:
            raise NumericsError(f"acc: expected int32 of shape {total.shape}, not {start.dtype} {start.shape}")
        total += start
    for k in range(0, left.shape[1], _EXACT_K):
        part = slice(k, k + _EXACT_K)
        total += (left[:, part].astype(np.float32) @ right[part].astype(np.float32)).astype(np.int32)
    return total


def _integers(values: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise NumericsError(f"{name}: expected a matrix of integers, not {array.dtype} of shape {array.shape}")
    if array.dtype.itemsize > 1 and array.size and (array.min() < -128 or array.max() > 255):
        raise NumericsError(f"{name}: expected integers of at most 8 bits")
    return array


def _operand(operand: ArrayLike | BlockTensor, name: str, k_axis: int, zero: int | None) -> F32:
    if isinstance(operand, BlockTensor):
        if operand.codes.ndim != 2 or (operand.axis != k_axis and operand.block != (8, 4)):
            raise NumericsError(
                f"{name}: expected blocks along axis {k_axis} of a matrix, not axis {operand.axis} of {operand.shape}"
            )
        values = dequantize(operand)
    else:
        array, kind = as_source(operand)
        if array.ndim != 2:
            raise NumericsError(f"{name}: expected a matrix, not shape {array.shape}")
        if array.dtype.kind in "iub" and array.dtype.itemsize <= 2:
            values = array.astype(np.float32)
        elif kind == "float64":
            with np.errstate(all="ignore"):
                values = array.astype(np.float32)
            if not np.array_equal(values, array, equal_nan=True):
                raise NumericsError(f"{name}: expected fp32 values; this float64 array would be rounded, do so first")
        else:
            values = to_fp32(array, kind)
    if zero is not None:
        with np.errstate(all="ignore"):
            values = values - np.float32(whole(f"{name}_zero", zero, 0, 255))
    return values


def _common_group(a: ArrayLike | BlockTensor, b: ArrayLike | BlockTensor) -> int:
    groups = [block_record(each.dtype)[1].group for each in (a, b) if isinstance(each, BlockTensor)]
    if not groups:
        raise NumericsError("order 'group' needs operands with block scales, or group=")
    return min(groups)


def _check_sums(name: str, array: Any, shape: tuple[int, int]) -> None:
    if array is None:
        return
    if not isinstance(array, np.ndarray) or array.dtype != np.float32 or array.shape != shape:
        raise NumericsError(f"{name}: expected fp32 of shape {shape}, not {getattr(array, 'dtype', type(array))}")
    if name == "out" and not array.flags.writeable:
        raise NumericsError("out: expected an array that can be written, not a read-only one")


def _read_after_writing(out: F32, left: F32, right: F32, acc: F32 | None) -> bool:
    """Whether a sum written to ``out`` may destroy what a later sum needs; ``acc`` lying exactly there may not."""
    in_place = acc is not None and acc.ctypes.data == out.ctypes.data and acc.strides == out.strides
    inputs = (left, right) if acc is None or in_place else (left, right, acc)
    return any(np.may_share_memory(out, each) for each in inputs)
