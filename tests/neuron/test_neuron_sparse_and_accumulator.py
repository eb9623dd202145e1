"""Structured sparse matmul (9), and the accumulator: engine_accumulate and its read-out (5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from neuron_programs import (
    TRN1,
    TRN3,
    chain,
    codes,
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

from hwmodel.listing.neuron.formats import widen
from hwmodel.program.neuron_dtypes import NEURON_DTYPES
from hwmodel.units.storage import Array

SPARSE = {"op": "matmult_sparse", "ifmap": "x", "weights": "w", "index": "index", "dst": "acc", "start": True}
P, N = 3, 4


def wide(found: dict[str, Array], name: str, dtype: str = "bfloat16") -> Array:
    return widen(found[name], NEURON_DTYPES[dtype])


def sparse(ratio: int = 4, tags: Any = None, **rest: Any) -> dict[str, Any]:
    """Tensors of a sparse matmul; ``tags`` [128, P] are positions inside the groups of 4 x ratio dense rows."""
    if tags is None:
        tags = np.random.RandomState(ratio).randint(0, 4 * ratio, (128, P))
    words = np.zeros((32, P), np.uint16)
    for k in range(128):
        words[k // 4] |= np.asarray(tags)[k].astype(np.uint16) << np.uint16(4 * (k % 4))
    return {
        "x": sbuf("bfloat16", 128, ratio * N, init=normal(1)),
        "w": sbuf("bfloat16", 128, P, init=normal(2)),
        "index": sbuf("int16", 32, P, init=codes(words)),
        "acc": psum(P, N),
        **rest,
    }


def selected(found: dict[str, Array], ratio: int, tags: Array) -> tuple[Array, Array]:
    """(weights [128, P], dense rows that they meet [128, P, N])."""
    rows = wide(found, "x").reshape(128 * ratio, N)
    places = np.array([[k // 4 * 4 * ratio + tags[k, p] for p in range(P)] for k in range(128)])
    return wide(found, "w"), rows[places]


@pytest.mark.parametrize("ratio", [1, 2, 3, 4])
def test_the_sparse_sum_is_a_scalar_loop_n094_n100(ratio: int) -> None:
    tags = np.random.RandomState(ratio).randint(0, 4 * ratio, (128, P))
    found = left(sparse(ratio, tags), [{**SPARSE, "ratio": ratio}])
    weights, rows = selected(found, ratio, tags)
    expected = np.concatenate([chain(weights[:, p : p + 1], rows[:, p]) for p in range(P)])
    assert np.array_equal(fp32(found["acc"]), expected)


@pytest.mark.parametrize("name", ["ifmap", "weights", "index"])
def test_sparse_takes_three_operands_n094(name: str) -> None:
    text = refused(sparse(), [{field: value for field, value in SPARSE.items() if field != name}])
    assert f"{name}: expected a tensor, but it is missing" in text


@pytest.mark.parametrize("dtype", ["uint16", "int32", "int8", "bfloat16"])
def test_the_index_is_int16_n094(dtype: str) -> None:
    text = refused(sparse(index=sbuf(dtype, 32, P, init=integers(1, 0, 3))), [SPARSE])
    assert f"index: expected int16, not {dtype}" in text


def test_active_rows_are_a_multiple_of_4_n095() -> None:
    """Checked before the 128 of N096."""
    text = refused(sparse(), [{**SPARSE, "num_active_rows": 126}])
    assert "num_active_rows should be divisible by 4" in text


def test_only_128_active_rows_n096() -> None:
    text = refused(sparse(), [{**SPARSE, "num_active_rows": 64}])
    assert "Only the 128-active-rows case is supported" in text
    assert "instruction 0" in text


@pytest.mark.parametrize("tile", range(0, 32, 5))
def test_each_of_32_sub_tiles_has_its_share_n097(tile: int) -> None:
    """One-hot weights: only the four active rows of one sub-tile meet anything."""
    weights = np.zeros((128, P))
    weights[4 * tile : 4 * tile + 4, 1] = [1, 10, 100, 1000]
    tags = np.zeros((128, P), int)
    tags[4 * tile : 4 * tile + 4, 1] = [3, 7, 11, 15]
    x = np.zeros((128, 4 * N))
    x[4 * tile : 4 * tile + 4, 3 * N :] = np.arange(1, 5)[:, None]  # the last piece of each partition
    tensors = sparse(4, tags, w=sbuf("float32", 128, P, init=weights), x=sbuf("float32", 128, 4 * N, init=x))
    found = fp32(left(tensors, [SPARSE])["acc"])
    assert found.tolist() == [[0] * N, [4321.0] * N, [0] * N]


def test_the_dense_equivalent_gives_the_same_bits_n098() -> None:
    """Dense rows = 32 sub-tiles x 16: zeros in the unselected rows, ascending tags. All 512 rows in four matmuls."""
    tags = np.sort(np.array([np.random.RandomState(g).permutation(16)[:4] for g in range(32)]), axis=1).reshape(128)
    tags = np.repeat(tags[:, None], P, axis=1)
    found = left(sparse(4, tags), [SPARSE])
    full = np.zeros((512, P), np.float32)
    for k in range(128):
        full[k // 4 * 16 + tags[k, 0]] = wide(found, "w")[k]
    rows = wide(found, "x").reshape(512, N)
    total = np.zeros((P, N), np.float32)
    for row in range(512):
        total = total + full[row][:, None] * rows[row][None, :]
    assert np.array_equal(fp32(found["acc"]), total)


def test_unselected_rows_do_not_show_n099() -> None:
    """NaN and infinity wherever no tag points."""
    tags = np.full((128, P), 5)
    x = np.full((128, 4 * N), np.nan)
    x[:, :N] = np.inf
    for k in range(0, 128, 4):
        x[k + 1, N : 2 * N] = k  # dense row 16 g + 5 is piece 1 of partition 4 g + 1
    found = left(
        sparse(4, tags, x=sbuf("float32", 128, 4 * N, init=x), w=sbuf("float32", 128, P, init=normal(3))), [SPARSE]
    )
    assert np.isfinite(fp32(found["acc"])).all()


def test_sparse_needs_a_core_that_has_it() -> None:
    assert f"{TRN1} has no structured sparse matmul" in refused(sparse(), [SPARSE], TRN1)


# -- accumulator -------------------------------------------------------------------------------------------------------

ROWS, COLS = 5, 7
READ = {"op": "read_activation_accumulator", "dst": "out"}


def tensors(init: Any = None, **rest: Any) -> dict[str, Any]:
    return {
        "src": sbuf("float32", ROWS, COLS, init=normal(1) if init is None else init),
        "more": sbuf("float32", ROWS, COLS, init=normal(2)),
        "out": sbuf("float32", ROWS, 1),
        "again": sbuf("float32", ROWS, 1),
        **rest,
    }


def reduce(command: str | int = "accumulate", **rest: Any) -> dict[str, Any]:
    return {"op": "engine_accumulate", "command": command, "src": "src", **rest}


def by_hand(rows: Array, op: str, begin: Any = None) -> list[float]:
    out = []
    for row in rows.astype(np.float32):
        total = None if begin is None else np.float32(begin)
        for value in row:
            if total is None:
                total = value
            elif op == "add":
                total = np.float32(total + value)
            elif op == "mult":
                total = np.float32(total * value)
            else:
                total = max(total, value) if op == "max" else min(total, value)
        out.append(float(total))
    return out


@pytest.mark.parametrize("op", ["add", "max", "min", "mult"])
def test_the_reducing_function_follows_the_alu_operation_n107(op: str) -> None:
    found = left(tensors(), [reduce(alu_op=op), READ])
    assert fp32(found["out"])[:, 0].tolist() == by_hand(fp32(found["src"]), op)


def test_an_unknown_alu_operation_is_refused_with_the_list_n107() -> None:
    text = refused(tensors(), [reduce(alu_op="xor")])
    assert "alu_op: expected one of add, max, min, mult, not 'xor'" in text


def test_the_read_out_has_the_shape_of_the_destination_n101() -> None:
    found = left(tensors(), [reduce(), READ])
    assert found["out"].shape == (ROWS, 1)
    assert "one element a partition" in refused(tensors(out=sbuf("float32", ROWS, 2)), [reduce(), READ])


def test_nan_payloads_survive_the_read_out_n101() -> None:
    bits = [[0x7FC12345], [0xFFC00001], [0x7F800000], [0x80000000], [0x3F800000]]
    source = tensors(src=sbuf("float32", ROWS, 1, init=codes(bits)))
    assert left(source, [reduce(), READ])["out"].tolist() == bits


@pytest.mark.parametrize("space", ["sbuf", "psum"])
def test_the_read_out_overwrites_n102_n061(space: str) -> None:
    target = {"space": space, "dtype": "float32", "shape": [ROWS, 1], "init": {"kind": "constant", "value": 9.0}}
    found = left(tensors(out=target), [reduce(), READ])
    assert fp32(found["out"])[:, 0].tolist() == by_hand(fp32(found["src"]), "add")


def test_the_read_out_marks_the_accumulator_as_used_n103() -> None:
    """The next reduction starts fresh; without the read-out it goes on. A second read-out shows the same again."""
    fresh = left(tensors(), [reduce(), READ, reduce(src="more"), {**READ, "dst": "again"}])
    assert fp32(fresh["again"])[:, 0].tolist() == by_hand(fp32(fresh["more"]), "add")
    on = left(tensors(), [reduce(), reduce(src="more"), READ])
    both = np.concatenate([fp32(on["src"]), fp32(on["more"])], axis=1)
    assert fp32(on["out"])[:, 0].tolist() == by_hand(both, "add")
    twice = left(tensors(), [reduce(), READ, {**READ, "dst": "again"}])
    assert np.array_equal(twice["out"], twice["again"])


@pytest.mark.parametrize("command", [1, "zero", "reset", "idle"])
def test_command_1_zeroes_n104(command: int | str) -> None:
    zero = {"op": "engine_accumulate", "command": command, "partitions": [0, ROWS]}
    found = left(tensors(), [reduce(), zero, READ])
    assert not found["out"].any()
    then = left(tensors(), [zero, reduce(alu_op="max"), READ])
    assert fp32(then["out"])[:, 0].tolist() == by_hand(fp32(then["src"]), "max", 0.0)


@pytest.mark.parametrize("command", [3, 5, "load_accumulate", "load_reduce"])
def test_commands_3_and_5_load_a_given_value_n105(command: int | str) -> None:
    found = left(tensors(), [reduce(command, immediate=2.5), READ])
    assert fp32(found["out"])[:, 0].tolist() == by_hand(fp32(found["src"]), "add", 2.5)
    text = refused(tensors(), [reduce(command)])
    assert "must provide an immediate" in text
    assert "instruction 0" in text


@pytest.mark.parametrize("dtype", ["bfloat16", "float32r", "int32"])
def test_the_output_of_the_accumulator_is_fp32_n106(dtype: str) -> None:
    text = refused(tensors(out=sbuf(dtype, ROWS, 1)), [reduce(), READ])
    assert "Dtype::float32" in text
    assert dtype in text
    assert "Dtype::float32" in refused(tensors(out=sbuf(dtype, ROWS, 1)), [reduce(dst="out")])


def test_reading_an_accumulator_that_nobody_wrote_is_refused_n062() -> None:
    assert "canInstReadFromUninitMem" in refused(tensors(), [READ])


def test_numbers_of_every_dtype_are_reduced_in_fp32() -> None:
    source = tensors(src=sbuf("bfloat16", ROWS, COLS, init=normal(4)))
    found = left(source, [reduce(), READ])
    assert fp32(found["out"])[:, 0].tolist() == by_hand(wide(found, "src"), "add")


def test_a_reduction_reads_psum_after_its_matmul() -> None:
    source = {**dense(8, ROWS, COLS), "out": sbuf("float32", ROWS, 1)}
    found = left(source, [matmult(stop=True), reduce(src="acc"), READ], TRN3)
    assert fp32(found["out"])[:, 0].tolist() == by_hand(fp32(found["acc"]), "add")


@pytest.mark.filterwarnings("error")
def test_a_given_value_is_an_fp32_number() -> None:
    """Beyond the largest fp32 it is infinite; what not even a double holds is refused."""
    tensors = {"a": sbuf("float32", 1, 1, init=[[1.0]]), "out": sbuf("float32", 1, 1)}
    load = {"op": "engine_accumulate", "command": "load_accumulate", "src": "a", "immediate": 1e39}
    found = left(tensors, [load, {"op": 5, "dst": "out"}])
    assert fp32(found["out"]).tolist() == [[float("inf")]]
    assert "immediate: expected a number that a double holds" in refused(tensors, [{**load, "immediate": 10**400}])
