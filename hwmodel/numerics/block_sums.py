"""Products whose scales go onto the sum of a block instead of onto its operands (OCP's formula)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwmodel.errors import NumericsError
from hwmodel.numerics import hif4
from hwmodel.numerics.codec import as_codes, decode
from hwmodel.numerics.dtypes import block_record
from hwmodel.numerics.rounding import F32, canonical_nan
from hwmodel.numerics.scales import BlockTensor, Hif4Scales, MxScales
from hwmodel.numerics.tables import decode_table
from hwmodel.quantities import ceil_div

_ELEMENTS = 1 << 15
"""Elements of temporaries held at a time."""


@dataclass(frozen=True, slots=True)
class Unscaled:
    """An operand before its block scale: elements [rows, K] and scales [rows, groups] (float64); K last for B too.

    HiF4's level 2 and 3 bits belong to the elements, its level 1 is the scale. A plain operand has one group.
    """

    elements: F32
    scales: NDArray[np.float64]
    group: int


def unscaled(operand: BlockTensor | F32, k_axis: int) -> Unscaled:
    """Split an operand; ``k_axis`` is 1 for A and 0 for B."""
    if not isinstance(operand, BlockTensor):
        rows = operand if k_axis == 1 else operand.T
        return Unscaled(rows, np.ones((rows.shape[0], 1)), max(1, rows.shape[1]))
    record, block = block_record(operand.dtype)
    if operand.block == (8, 4):
        raise NumericsError("scale_on='block': blocks of 8 x 4 cross rows of K; only blocks along K have such a sum")
    codes = as_codes(operand.codes, record.format)
    elements = decode(codes if k_axis == 1 else codes.T, record.element)
    if isinstance(operand.scales, MxScales):
        level1 = decode_table("e8m0")[operand.scales.e8m0]
    else:
        assert isinstance(operand.scales, Hif4Scales)
        level1 = decode_table("e6m2")[operand.scales.ea]
        flip = (lambda plane: plane) if k_axis == 1 else np.transpose
        one = np.full_like(operand.scales.ea, 0xC0)  # 1.0: levels 2 and 3 alone
        factors = hif4.element_scales(flip(one), flip(operand.scales.eb), flip(operand.scales.ec))
        factors = factors.reshape(elements.shape[0], -1)
        step = max(1, _ELEMENTS // max(1, elements.shape[1]))
        for row in range(0, elements.shape[0], step):
            some = slice(row, row + step)
            elements[some] *= np.repeat(factors[some], 4, axis=1)[:, : elements.shape[1]]
    return Unscaled(elements, (level1 if k_axis == 1 else level1.T).astype(np.float64), block.group)


def block_scaled(a: Unscaled, b: Unscaled, acc: F32 | None, out: F32, product: Callable[[F32, F32, F32], None]) -> None:
    """out = acc + sum over runs of fp32(sum(a b) x s_a x s_b), runs ascending, each addition rounded to fp32.

    A run is the length of K over which both scales are constant; ``product(a, b, out)`` sums its element products.
    ``out`` overlaps no operand; it may be ``acc``.
    """
    k = a.elements.shape[1]
    run = min(a.group, b.group)
    if acc is not out:
        np.copyto(out, np.float32(0) if acc is None else acc)
    part = np.empty(out.shape, np.float32)
    step = max(1, _ELEMENTS // max(1, out.shape[1]))
    for number in range(ceil_div(k, run)):
        start = number * run
        product(a.elements[:, start : start + run], b.elements[:, start : start + run].T, part)
        left, right = a.scales[:, start // a.group], b.scales[:, start // b.group]
        with np.errstate(all="ignore"):
            for row in range(0, out.shape[0], step):
                rows = slice(row, row + step)
                out[rows] += (part[rows] * (left[rows, None] * right)).astype(np.float32)
    canonical_nan(out)
