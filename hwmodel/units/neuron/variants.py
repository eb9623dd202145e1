"""The two other matmuls: structured sparse weights, and the transpose that moves data through the array."""

from __future__ import annotations

import numpy as np

from hwmodel import numerics as nm
from hwmodel.errors import InputError
from hwmodel.program.neuron_dtypes import NEURON_DTYPES
from hwmodel.units.neuron.operands import Operand, widened
from hwmodel.units.storage import Array

GROUP_ROWS = 4
"""Active rows of one group of a structured sparse matmul."""
TAG_BITS = 4


def check_tags(index: Array, ratio: int) -> None:
    """InputError where a tag of ``index`` names a position that the group's 4 x ratio rows do not have."""
    words, most = index.view(np.uint16), GROUP_ROWS * ratio
    for tag in range(GROUP_ROWS):
        found = int((words >> np.uint16(TAG_BITS * tag) & np.uint16(15)).max(initial=0))
        if found >= most:
            raise InputError(f"index: expected positions 0 to {most - 1} in groups of 4 x {ratio} rows, not {found}")


def sparse_rows(index: Array, ratio: int, columns: int) -> Array:
    """Dense row [active rows, columns] that each weight meets.

    ``index`` is int16 [groups, columns]: the word of a group and column holds four tags of 4 bits, low nibble first;
    tag j is the position, inside the group's 4 x ratio rows of the ifmap, of active row 4 x group + j.
    """
    words = index.view(np.uint16)[:, :columns]
    shifts = np.arange(GROUP_ROWS, dtype=np.uint16) * TAG_BITS
    tags = (words[:, None, :] >> shifts[None, :, None] & np.uint16(15)).astype(np.int64)
    first = np.arange(words.shape[0], dtype=np.int64) * GROUP_ROWS * ratio
    rows: Array = (first[:, None, None] + tags).reshape(-1, columns)
    return rows


def sparse_product(weights: Array, ifmap: Array, index: Array, ratio: int, bank: Array) -> Array:
    """fp32 [P, N]: ``bank`` plus the sum over active rows k ascending of weights[k, p] x ifmap[row(k, p), n].

    ``ifmap`` [128, ratio x N] holds the dense rows: row ratio x p + s is piece s of partition p.
    """
    dense = np.ascontiguousarray(ifmap).reshape(ifmap.shape[0] * ratio, -1)
    rows = sparse_rows(index, ratio, weights.shape[1])
    out = np.empty_like(bank)
    for column in range(weights.shape[1]):
        one = np.ascontiguousarray(weights[:, column])[None, :]
        acc = np.ascontiguousarray(bank[column : column + 1])
        out[column : column + 1] = nm.matmul(one, dense[rows[:, column]], acc=acc, k_tile=one.shape[1])
    return out


def transposed(weights: Operand, ifmap: Operand, dtype: str) -> Array:
    """Stored elements [P, Q] of out[p, q] = sum over n of weights[p, n] x ifmap[q, n], in the dtype of the ifmap.

    A row of weights that is a single one among zeros moves data: exact bits, NaN and infinity included. Others are
    products in fp32, rounded to the dtype.
    """
    wide = widened(weights)
    moves = ((wide != 0).sum(axis=1) == 1) & (wide.max(axis=1, initial=-np.inf) == 1)
    out = np.ascontiguousarray(ifmap.codes.T[np.argmax(wide, axis=1)])
    if not moves.all():
        element = NEURON_DTYPES[dtype].element
        assert element is not None
        sums = nm.matmul(wide[~moves], np.ascontiguousarray(widened(ifmap).T))
        out[~moves] = nm.cast_out(sums, element).view(out.dtype)
    return out
