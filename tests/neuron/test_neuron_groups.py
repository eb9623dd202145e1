"""Accumulation groups that are legal: side by side, over at the end, over what engines left, and as large as PSUM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from neuron_programs import (
    TRN2,
    TRN3,
    dense,
    fp32,
    integers,
    left,
    matmult,
    normal,
    psum,
    refused,
    sbuf,
)

COPY = {"op": "copy", "src": "acc", "dst": "y"}


def with_copy(**rest: Any) -> dict[str, Any]:
    return {**dense(16, 8, 6), "y": sbuf("float32", 8, 6), **rest}


def test_groups_of_other_partitions_of_a_bank_are_groups_of_their_own() -> None:
    tensors = with_copy(acc=psum(8, 6, bank=0), other=psum(8, 6, bank=0, partition=32), z=sbuf("float32", 8, 6))
    both = [matmult(stop=False), matmult(dst="other", stop=True), {"op": "copy", "src": "other", "dst": "z"}]
    found = left(tensors, [*both, matmult(start=False, accumulate=True, stop=True), COPY], TRN2)
    assert np.array_equal(fp32(found["y"]), 2 * fp32(found["z"]))


def test_a_group_that_nobody_says_the_end_of_may_be_read() -> None:
    left(with_copy(), [matmult(), COPY], TRN2)
    left(with_copy(), [matmult(stop=False), matmult(start=False, accumulate=True, stop=True), COPY], TRN2)


def test_a_group_that_started_again_or_has_its_stop_is_over_at_the_end() -> None:
    left(with_copy(), [matmult(stop=False), matmult(start=False, stop=True)], TRN2)
    left(with_copy(), [matmult(), matmult(start=False, accumulate=True)], TRN2)  # nobody said anything


def test_an_engine_may_write_beside_an_open_group_and_over_a_finished_one() -> None:
    tensors = with_copy(
        acc=psum(8, 6, bank=0), beside=psum(8, 6, bank=0, offset=24), y=sbuf("float32", 8, 6, init=normal(4))
    )
    last = matmult(start=False, accumulate=True, stop=True)
    found = left(tensors, [matmult(stop=False), {"op": "copy", "src": "y", "dst": "beside"}, last], TRN2)
    assert np.array_equal(found["beside"], found["y"])
    over = [matmult(stop=True), {"op": "copy", "src": "y", "dst": "acc"}]
    assert np.array_equal(left(tensors, over, TRN2)["acc"], found["y"])


def test_a_start_clears_what_an_engine_left_and_trn3_adds_to_it() -> None:
    """Undefined on v2 and v3 only (hardware facts 3); contents from the start of the program are nobody's."""
    tensors = with_copy(y=sbuf("float32", 8, 6, init=integers(4)), x=sbuf("bfloat16", 16, 6, init=integers(5)))
    tensors["w"] = sbuf("bfloat16", 16, 8, init=integers(6))
    copy = {"op": "copy", "src": "y", "dst": "acc"}
    plain = fp32(left(tensors, [matmult()], TRN2)["acc"])
    assert np.array_equal(fp32(left(tensors, [copy, matmult()], TRN2)["acc"]), plain)
    added = left(tensors, [copy, matmult(start=False, accumulate=True)], TRN3)
    assert np.array_equal(fp32(added["acc"]), plain + fp32(added["y"]))
    tensors["acc"]["init"] = {"kind": "constant", "value": 2.0}
    assert np.array_equal(fp32(left(tensors, [matmult(start=False)], TRN2)["acc"]), plain + 2)


@pytest.mark.parametrize(("dtype", "most"), [("float32", 4096), ("bfloat16", 8192)])
def test_trn3_fills_all_banks_with_the_sums_of_one_matmul(dtype: str, most: int) -> None:
    """4,096 in fp32, 8,192 in bf16 (hardware facts 4); an engine reads at most 4,096 of them at once."""
    tensors = {**dense(4, 2, most), "acc": psum(2, most, dtype=dtype), "y": sbuf(dtype, 2, most)}
    instructions = [matmult(clear_banks_log2=3)]
    for first in range(0, most, 4096):
        part = {"cols": [first, 4096]}
        instructions.append({"op": "copy", "src": {"tensor": "acc", **part}, "dst": {"tensor": "y", **part}})
    found = left(tensors, instructions, TRN3)
    assert np.array_equal(found["acc"], found["y"])
    if most > 4096:
        assert "at most 4096 elements a partition in psum" in refused(tensors, [instructions[0], COPY], TRN3)
