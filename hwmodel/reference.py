"""The independent answer that every run is compared with: whole matrices, no tiles, no machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwmodel import numerics as nm
from hwmodel.inputs import Operand
from hwmodel.numerics.hif4 import PROFILES
from hwmodel.numerics.mx import RULES as MX_RULES
from hwmodel.numerics.reference import blocks as scalar
from hwmodel.numerics.reference import codec, neuron
from hwmodel.numerics.rounding import canonical_nan
from hwmodel.problem import Accumulate, MatmulProblem, constant_scale_run

Array = np.ndarray[Any, Any]

CHECKED_BLOCKS = 256
"""Blocks of a quantisation that are compared with the scalar reference, spread over the whole array."""


def split_of(accumulate: Accumulate, k_tile: int, k_slice: int) -> int:
    """Where the reference must cut K to add as the machine does; 0 where one chain over all of K gives the same bits.

    Chains start anew at ``k_tile``. Orders that round once for each instruction do so at ``k_slice``; the others go on
    from fp32 sums as if nothing had been between.
    """
    once = accumulate.order in ("f64", "blas") and accumulate.scale_on == "operand"
    return k_tile or (k_slice if once else 0)


def matmul_reference(
    problem: MatmulProblem,
    accumulate: Accumulate,
    operands: dict[str, Operand],
    k_tile: int = 0,
    k_slice: int = 0,
    k_block: int = 0,
) -> Array:
    """Output codes [M, N] of the whole matmul in the stated order, cast as the epilogue says.

    ``k_tile``, ``k_slice`` and ``k_block`` are those of the plan.
    """
    a, b = operands["a"], operands["b"]
    if nm.DTYPES[problem.a].is_integer:
        sums: Array = nm.matmul_int(nm.decode_int(a.codes, a.dtype), nm.decode_int(b.codes, b.dtype))
    elif k_block:
        wide = (a.decoded(), b.decoded())
        sums = _block_sums(accumulate, wide, constant_scale_run(problem.a, problem.b), k_tile, k_block)
    else:
        sums = _float_sums(problem, accumulate, (a, b), k_tile, split_of(accumulate, k_tile, k_slice))
    cast = problem.cast()
    return nm.cast_out(
        sums,
        cast.dtype,
        relu=cast.relu,
        saturate=cast.saturate,
        scale=cast.scale,
        offset=cast.offset or None,
    )


def _block_sums(accumulate: Accumulate, operands: tuple[Array, Array], run: int, k_tile: int, k_block: int) -> Array:
    """Each K block as if it were all of K, then one fp32 addition an element for each further block."""
    a, b = operands
    group = run if accumulate.order == "group" else None
    total: Array | None = None
    for start in range(0, a.shape[1], k_block):
        left, right = a[:, start : start + k_block], b[start : start + k_block]
        part = nm.matmul(left, right, accumulate.order, group=group, k_tile=k_tile or None)
        with np.errstate(all="ignore"):
            total = part if total is None else canonical_nan(total + part)
    assert total is not None
    return total


def _float_sums(
    problem: MatmulProblem, accumulate: Accumulate, operands: tuple[Operand, Operand], k_tile: int, split: int
) -> Array:
    a, b = operands
    order = accumulate.order
    group = constant_scale_run(problem.a, problem.b) if order == "group" else None
    if accumulate.scale_on == "block":
        return nm.matmul(a.tensor(), b.tensor(), order, group=group, scale_on="block")
    left, right = a.decoded(), b.decoded()
    if k_tile or not split:
        return nm.matmul(left, right, order, group=group, k_tile=k_tile or None)
    sums = None
    for start in range(0, problem.k, split):
        sums = nm.matmul(left[:, start : start + split], right[start : start + split], order, acc=sums)
    assert sums is not None
    return sums


def check_quantize(
    values: Array, dtype: str, rule: str, codes: Array, scales: nm.BlockScales | None
) -> tuple[int, int, str]:
    """Compare blocks of ``values`` [R, C] with the scalar reference: (elements, differences, the first one).

    Every block where there are at most ``CHECKED_BLOCKS``; else as many, evenly spread.
    """
    if rule.startswith("neuron"):
        assert isinstance(scales, nm.MxScales)
        return _check_eight_by_four(values, dtype, rule, codes, scales.e8m0)
    record = nm.DTYPES[dtype]
    group = record.block.group if record.block else values.shape[1]
    per_row = -(-values.shape[1] // group)
    chosen = np.unique(np.linspace(0, values.shape[0] * per_row - 1, CHECKED_BLOCKS).astype(int))
    elements = mismatches = 0
    first = ""
    for index in chosen:
        row, block = divmod(int(index), per_row)
        part = slice(block * group, min(values.shape[1], (block + 1) * group))
        expected = _scalar_block(values[row, part], dtype, rule, group)
        found = _found_block(codes[row, part], scales, row, block)
        elements += part.stop - part.start
        if found == expected[: len(found)]:
            continue
        mismatches += sum(left != right for left, right in zip(found, expected, strict=False))
        first = first or f"block at [{row}, {part.start}] is {found}, expected {expected}"
    return elements, mismatches, first


def _check_eight_by_four(values: Array, dtype: str, rule: str, codes: Array, scales: Array) -> tuple[int, int, str]:
    element = nm.DTYPES[dtype].element
    emax, floor = nm.neuron_emax(dtype), 0 if rule == "neuron_hw" else 1
    per_row = scales.shape[1]
    chosen = np.unique(np.linspace(0, scales.size - 1, CHECKED_BLOCKS).astype(int))
    elements = mismatches = 0
    first = ""
    for index in chosen:
        row, col = divmod(int(index), per_row)
        rows, cols = slice(8 * row, 8 * row + 8), slice(4 * col, 4 * col + 4)
        block = [codec.from_float(float(value)) for value in values[rows, cols].reshape(-1)]
        scale = neuron.scale_byte(block, emax, rule != "neuron", floor)
        expected = [scale, *(neuron.narrow(neuron.multiply_back(each, scale), element, False) for each in block)]
        found = [int(scales[row, col]), *(int(code) for code in codes[rows, cols].reshape(-1))]
        elements += len(block)
        if found != expected:
            mismatches += sum(left != right for left, right in zip(found, expected, strict=True))
            first = first or f"block at [{8 * row}, {4 * col}] is {found}, expected {expected}"
    return elements, mismatches, first


def _scalar_block(values: Array, dtype: str, rule: str, group: int) -> list[int]:
    record = nm.DTYPES[dtype]
    exact = [codec.from_float(float(value)) for value in values]
    if record.block is None:
        return [codec.encode(value, dtype) for value in exact]
    exact += [codec.finite(0)] * (group - len(exact))
    if record.block.scales == "hif4":
        block = scalar.hif4_quantize([_bf16(value) for value in exact], PROFILES[rule])
    else:
        block = scalar.mx_quantize(exact, record.block.element, MX_RULES[rule])
    return [*block.scales, *block.codes]


def _bf16(value: codec.Value) -> codec.Value:
    return codec.decode(codec.encode(value, "bf16", overflow="ieee"), "bf16")


def _found_block(codes: Array, scales: nm.BlockScales | None, row: int, block: int) -> list[int]:
    found = [int(code) for code in codes]
    if scales is None:
        return found
    if isinstance(scales, nm.Hif4Scales):
        parts = (scales.ea, scales.eb, scales.ec)
        return [*(int(part[row, block]) for part in parts), *found]
    return [int(scales.e8m0[row, block]), *found]
