"""Indices of gathers and sparse matmuls that point beside what they choose from: known before a run, or found in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from neuron_programs import (
    dense,
    left,
    matmult,
    normal,
    psum,
    ready,
    refused,
    result,
    sbuf,
    tensor,
)

from hwmodel.errors import InputError


def gathering(dtype: str, row: int) -> dict[str, Any]:
    index = sbuf(dtype, 4, 1, init=[[0], [1], [row], [2]])
    return {**dense(4, 2, 3), "w": sbuf("bfloat16", 5, 2, init=normal(1)), "index": index}


NO_ROW = r"instruction 1 \(matmult\): weights_index: expected rows 0 to 4 of the weights, not "


@pytest.mark.parametrize(("dtype", "row"), [("int16", 5), ("int32", -1), ("uint32", 1 << 31)])
def test_a_gathered_row_that_is_not_there_is_named(dtype: str, row: int) -> None:
    """Before a run where the index is known, also through moves of its bits."""
    first = {"op": "copy", "src": "index", "dst": "index"}
    with pytest.raises(InputError, match=rf"^program:1: program.instructions\[1\]: {NO_ROW}{row}$"):
        ready(gathering(dtype, row), [first, matmult(weights_index="index")])


def test_a_gathered_row_that_only_a_run_knows_is_named_there_with_the_users_instruction() -> None:
    """The index is computed: 2 + 3 = 5, of the rows 0 to 4."""
    tensors = gathering("int32", 3)
    tensors["two"] = sbuf("float32", 1, 1, init=[[2.0]])
    instructions = [
        {"op": "add", "a": {"tensor": "index", "rows": [2, 1]}, "b": "two", "dst": {"tensor": "index", "rows": [2, 1]}},
        matmult(weights_index="index"),
    ]
    ready(tensors, instructions, legality="off")
    with pytest.raises(InputError, match=rf"program.instructions\[1\]: {NO_ROW}5$"):
        result(tensors, instructions, legality="off")


@pytest.mark.parametrize(("rows", "bad"), [((0, 4), False), ((1, 4), True)])
def test_an_index_is_known_through_loads_and_copies_of_a_part(rows: tuple[int, int], bad: bool) -> None:
    """Rows 7, 0, 1, 2, 3, 99 in DRAM, loaded at partition 0, of which 1 to 4 or 2 to 5 are copied and used."""
    tensors = {
        **dense(4, 2, 3),
        "w": sbuf("bfloat16", 5, 2, init=normal(1)),
        "h": tensor("dram", "int16", 6, 3, init=np.array([7, 0, 1, 2, 3, 99])[:, None] * [1, 1, 1]),
        "all": sbuf("int16", 6, 3),
        "index": sbuf("int16", 4, 1, partition=32),
    }
    part = {"tensor": "all", "rows": [1 + rows[0], 4], "cols": [2, 1]}
    instructions = [
        {"op": "load", "src": "h", "dst": "all"},
        {"op": "copy", "src": part, "dst": "index"},
        matmult(weights_index="index"),
    ]
    if bad:
        text = refused(tensors, instructions, legality="off")
        assert "instruction 2 (matmult): weights_index: expected rows 0 to 4 of the weights, not 99" in text
    else:
        left(tensors, instructions, legality="off")


def test_an_index_that_is_overwritten_before_its_use_is_the_later_one() -> None:
    tensors = gathering("int16", 5)
    tensors["other"] = sbuf("int16", 4, 1, init=[[3], [2], [1], [0]])
    good = [{"op": "copy", "src": "other", "dst": "index"}, matmult(weights_index="index")]
    left(tensors, good)
    assert "instruction 0 (matmult)" in refused(tensors, [good[1], good[0]])


@pytest.mark.parametrize(("ratio", "tag"), [(1, 4), (2, 8), (3, 12), (2, 15)])
def test_a_tag_beside_its_group_is_named(ratio: int, tag: int) -> None:
    """A group has 4 x ratio rows: what lies behind them belongs to the next group, behind the last to nobody."""
    words = np.zeros((32, 3), np.int64)
    words[7, 1] = tag << 8
    tensors = {
        "x": sbuf("bfloat16", 128, ratio * 4, init=normal(1)),
        "w": sbuf("bfloat16", 128, 3, init=normal(2)),
        "index": sbuf("int16", 32, 3, init=words),
        "acc": psum(3, 4),
    }
    text = refused(tensors, [matmult(op="matmult_sparse", index="index", ratio=ratio)])
    positions = f"index: expected positions 0 to {4 * ratio - 1} in groups of 4 x {ratio} rows, not {tag}"
    assert text.endswith(f"instruction 0 (matmult_sparse): {positions}")
