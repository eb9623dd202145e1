"""Dense matmul, opcode 8: gates, widening, orientation, modes, zero points, gather, order of the sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from neuron_programs import (
    TRN2,
    chain,
    codes,
    dense,
    fp32,
    integers,
    left,
    matmult,
    normal,
    psum,
    ready,
    refused,
    result,
    sbuf,
)

from hwmodel.listing.neuron.formats import widen
from hwmodel.program.neuron_dtypes import NEURON_DTYPES
from hwmodel.units.storage import Array

NARROW = ["bfloat16", "float16", "float8e3", "float8e4", "float8_e4m3fn", "float8e5", "uint8"]
MOVED_ONLY = ["int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def numbers(stored: Array, dtype: str) -> Array:
    return widen(stored, NEURON_DTYPES[dtype])


@pytest.mark.parametrize("dtype", [*NARROW, "float32"])
def test_a_product_of_two_codes_is_the_product_of_their_values_n003(dtype: str) -> None:
    """K = 1: one weight and one element meet, so each sum is one fp32 product."""
    bits = 8 * NEURON_DTYPES[dtype].bytes
    some = np.random.RandomState(bits).randint(0, 1 << min(bits, 31), (1, 64))
    tensors = {
        "x": sbuf(dtype, 1, 64, init=codes(some)),
        "w": sbuf(dtype, 1, 1, init=codes(some[:, 9:10])),
        "acc": psum(1, 64),
    }
    found = left(tensors, [matmult()])
    with np.errstate(all="ignore"):
        expected = numbers(found["x"], dtype)[0] * numbers(found["w"], dtype)[0, 0] + np.float32(0)
    expected = np.where(np.isnan(expected), np.float32(np.nan), expected)
    assert np.array_equal(fp32(found["acc"])[0], expected, equal_nan=True)


@pytest.mark.parametrize("dtype", ["float4_e2m1fn_x4", "float8_e4m3fn_x4", "float8_e5m2_x4"])
def test_x4_containers_are_widened_lane_by_lane_n003(dtype: str) -> None:
    tensors = {
        "x": sbuf(dtype, 1, 4, init=normal(1)),
        "w": sbuf(dtype, 1, 1, init=normal(2)),
        "acc": psum(4, 16),
    }
    found = left(tensors, [matmult()], legality="off")
    expected = np.outer(numbers(found["w"], dtype)[0], numbers(found["x"], dtype)[0])
    assert np.array_equal(fp32(found["acc"]), expected.astype(np.float32))


def test_weights_stay_and_ifmap_streams_n006() -> None:
    """K = 5, P = 3, N = 7: weight columns become rows, ifmap columns columns; the transposed reading does not fit."""
    found = left(dense(5, 3, 7), [matmult()])
    w, x = numbers(found["w"], "bfloat16"), numbers(found["x"], "bfloat16")
    assert fp32(found["acc"]).shape == (3, 7)
    assert np.array_equal(fp32(found["acc"]), chain(w, x))
    assert "dst: expected [3, 7]" in refused({**dense(5, 3, 7), "acc": psum(7, 3)}, [matmult()])


@pytest.mark.parametrize("op", ["matmult", "matmult_mx"])
def test_contraction_extents_must_agree_n007(op: str) -> None:
    if op == "matmult":
        text = refused(
            {
                "x": sbuf("bfloat16", 8, 6, init=normal(1)),
                "w": sbuf("bfloat16", 9, 4, init=normal(2)),
                "acc": psum(4, 6),
            },
            [matmult()],
        )
        extents = ("8", "9")
    else:
        tensors = {
            "x": sbuf("float8_e4m3fn_x4", 32, 6, init=normal(1)),
            "w": sbuf("float8_e4m3fn_x4", 64, 4, init=normal(2)),
            "xs": sbuf("uint8", 32, 6, init=integers(1, 0, 255)),
            "ws": sbuf("uint8", 64, 4, init=integers(1, 0, 255)),
            "acc": psum(4, 6),
        }
        text = refused(tensors, [matmult(op=op, ifmap_scales="xs", weights_scales="ws")])
        extents = ("128", "256")
    assert "invalid matrix product" in text
    assert "instruction 0" in text
    assert all(extent in text for extent in extents)


@pytest.mark.parametrize("dtype", MOVED_ONLY)
@pytest.mark.parametrize(("name", "phrase"), [("x", "Invalid ifmap data type"), ("w", "Invalid weights data type")])
def test_only_floats_and_uint8_enter_the_array_n008_n009(name: str, phrase: str, dtype: str) -> None:
    tensors = dense(4, 2, 3)
    tensors[name] = sbuf(dtype, *tensors[name]["shape"], init=integers(1, 0, 3))
    text = refused(tensors, [matmult()])
    assert phrase in text
    assert dtype in text
    assert refused(tensors, [matmult()], legality="off") == text


@pytest.mark.parametrize(("ifmap", "weights"), [("uint8", "bfloat16"), ("bfloat16", "uint8")])
def test_the_gates_are_independent_n010(ifmap: str, weights: str) -> None:
    tensors = {
        "x": sbuf(ifmap, 6, 5, init=integers(1, 0, 200)),
        "w": sbuf(weights, 6, 4, init=integers(2, 0, 200)),
        "acc": psum(4, 5),
    }
    found = left(tensors, [matmult()])
    assert np.array_equal(fp32(found["acc"]), chain(numbers(found["w"], weights), numbers(found["x"], ifmap)))


def test_weights_may_come_through_an_index_n011() -> None:
    """A permuted index with one repeated row equals the product with rows copied by hand."""
    index = [3, 0, 2, 2, 1, 5]
    tensors = dense(6, 4, 5)
    tensors["index"] = sbuf("int32", 6, 1, init=[[row] for row in index])
    found = left(tensors, [matmult(weights_index="index")])
    w, x = numbers(found["w"], "bfloat16"), numbers(found["x"], "bfloat16")
    assert np.array_equal(fp32(found["acc"]), chain(w[index], x))


def test_mx_weights_may_come_through_an_index_n011() -> None:
    index = [*range(8, 32), *range(8)]
    tensors: dict[str, Any] = {
        "x": sbuf("float8_e4m3fn_x4", 32, 3, init=normal(1)),
        "w": sbuf("float8_e4m3fn_x4", 32, 2, init=normal(2)),
        "xs": sbuf("uint8", 32, 3, init=integers(3, 125, 130)),
        "ws": sbuf("uint8", 32, 2, init=integers(4, 127, 128)),
        "acc": psum(2, 3),
        "index": sbuf("int16", 32, 1, init=[[row] for row in index]),
    }
    mx = matmult(op="matmult_mx", ifmap_scales="xs", weights_scales="ws")
    gathered = left(tensors, [{**mx, "weights_index": "index"}])
    tensors["w"] = sbuf("float8_e4m3fn_x4", 32, 2, init=codes(gathered["w"][index]))
    assert np.array_equal(left(tensors, [mx])["acc"], gathered["acc"])


def test_fp32r_needs_fp32r_n014() -> None:
    tensors = {**dense(4, 2, 3, dtype="float32r"), "w": sbuf("float32", 4, 2, init=normal(1))}
    for how in ("arch", "off"):
        text = refused(tensors, [matmult()], legality=how)
        assert "float32r" in text
        assert "float32;" in f"{text};" or "not float32" in text


def test_fp32r_operands_are_shortened_before_the_product_n015() -> None:
    """Nearest even at 11 explicit bits (10 as an option); float32 with the same bits is not shortened."""
    ulp = 2.0**-11
    some = [[1 + ulp / 2 - 2**-23, 1 + ulp / 2, 1 + ulp / 2 + 2**-23, 1 + 1.5 * ulp, 1 + 2.5 * ulp]]

    def products(dtype: str, **how: Any) -> list[float]:
        tensors = {"x": sbuf(dtype, 1, 5, init=some), "w": sbuf(dtype, 1, 1, init=[[1.0]]), "acc": psum(1, 5)}
        return [float(value) for value in fp32(left(tensors, [matmult(**how)])["acc"])[0]]

    assert products("float32r") == [1, 1, 1 + ulp, 1 + 2 * ulp, 1 + 2 * ulp]
    assert products("float32r", fp32r_bits=10) == [1, 1, 1, 1 + 2 * ulp, 1 + 2 * ulp]
    assert products("float32") == [float(np.float32(value)) for value in some[0]]


def doubled_by_hand(stored: Array, *, split: bool) -> Array:
    """[2P, F] of [P, 2F], one element at a time."""
    rows, cols = stored.shape
    out = np.empty((2 * rows, cols // 2), stored.dtype)
    for p in range(rows):
        for c in range(cols):
            half, place = (c % 2, c // 2) if split else (c // (cols // 2), c % (cols // 2))
            out[2 * p + half, place] = stored[p, c]
    return out


def doubling() -> dict[str, Any]:
    rng = np.random.RandomState(5)
    return {
        "x": sbuf("float8_e4m3fn", 6, 10, init=codes(rng.permutation(120)[:60].reshape(6, 10))),
        "w": sbuf("float8_e4m3fn", 6, 8, init=codes(rng.permutation(120)[:48].reshape(6, 8))),
        "acc": psum(4, 5),
    }


@pytest.mark.parametrize(("mode", "split"), [(1, False), (4, True)])
def test_modes_1_and_4_double_k_n016_n017_n018(mode: int, split: bool) -> None:
    """Mode 1 moves nothing; mode 4 first de-interleaves the weights by 2 and leaves the ifmap as it lies."""
    found = left(doubling(), [matmult(perf_mode=mode)])
    w = doubled_by_hand(numbers(found["w"], "float8_e4m3fn"), split=split)
    x = doubled_by_hand(numbers(found["x"], "float8_e4m3fn"), split=False)
    assert np.array_equal(fp32(found["acc"]), chain(w, x))
    other = left(doubling(), [matmult(perf_mode=5 - mode)])
    assert not np.array_equal(other["acc"], found["acc"])


def test_other_modes_change_no_extent_n019() -> None:
    found = left({**doubling(), "acc": psum(8, 10)}, [matmult(perf_mode="none")])
    expected = chain(numbers(found["w"], "float8_e4m3fn"), numbers(found["x"], "float8_e4m3fn"))
    assert np.array_equal(fp32(found["acc"]), expected)
    for mode in (2, 3, "double_column"):
        text = refused({**doubling(), "acc": psum(8, 10)}, [matmult(perf_mode=mode)])
        assert "perf_mode" in text
        assert "3 double pixel" in text


def test_modes_by_name_are_the_numbers_of_the_requirement_n016_n017() -> None:
    for number, name in ((1, "double_pixel"), (4, "double_row")):
        one = left(doubling(), [matmult(perf_mode=number)])
        assert np.array_equal(left(doubling(), [matmult(perf_mode=name)])["acc"], one["acc"])


def zeros(value: int, *, valid: bool = True) -> dict[str, Any]:
    return {"value": value, "valid": valid}


def test_zero_points_are_unsigned_bytes_after_widening_n020() -> None:
    tensors = {"x": sbuf("uint8", 3, 2, init=[[1, 2]] * 3), "w": sbuf("uint8", 3, 1, init=[[0]] * 3), "acc": psum(1, 2)}
    found = left(tensors, [matmult(weights_zero=zeros(255))])
    assert fp32(found["acc"]).tolist() == [[-765.0, -1530.0]]


@pytest.mark.parametrize(("of_weights", "of_ifmap"), [(7, None), (None, 9), (7, 9), (200, 3)])
def test_zero_points_of_both_operands_are_separate_n021(of_weights: int | None, of_ifmap: int | None) -> None:
    tensors = {
        "x": sbuf("uint8", 5, 4, init=integers(1, 0, 256)),
        "w": sbuf("uint8", 5, 3, init=integers(2, 0, 256)),
        "acc": psum(3, 4),
    }
    how = {
        name: zeros(value)
        for name, value in (("weights_zero", of_weights), ("ifmap_zero", of_ifmap))
        if value is not None
    }
    found = left(tensors, [matmult(**how)])
    w = numbers(found["w"], "uint8") - np.float32(of_weights or 0)
    x = numbers(found["x"], "uint8") - np.float32(of_ifmap or 0)
    assert np.array_equal(fp32(found["acc"]), chain(w, x))


def test_a_zero_point_counts_only_when_marked_valid_n022() -> None:
    tensors = {**dense(4, 2, 3), "x": sbuf("uint8", 4, 3, init=integers(1, 0, 256))}
    plain = left(tensors, [matmult()])["acc"]
    assert np.array_equal(left(tensors, [matmult(ifmap_zero=zeros(9, valid=False))])["acc"], plain)
    assert np.array_equal(left(tensors, [matmult(ifmap_zero={"value": 9})])["acc"], plain)
    assert not np.array_equal(left(tensors, [matmult(ifmap_zero=zeros(9))])["acc"], plain)


def test_order_of_the_steps_n023() -> None:
    """Widen, mode, zero points, product."""
    found = left(doubling(), [matmult(perf_mode=4, weights_zero=zeros(3), ifmap_zero=zeros(5))])
    w = doubled_by_hand(numbers(found["w"], "float8_e4m3fn"), split=True) - np.float32(3)
    x = doubled_by_hand(numbers(found["x"], "float8_e4m3fn"), split=False) - np.float32(5)
    assert np.array_equal(fp32(found["acc"]), chain(w, x))


def test_fp32r_comes_before_the_zero_points_n023() -> None:
    value = 4 + 2.0**-9 + 2.0**-10  # shortened to 4 + 2^-8 or 4 + 2^-9 before 4 is taken away
    tensors = {
        "x": sbuf("float32r", 1, 1, init=[[value]]),
        "w": sbuf("float32r", 1, 1, init=[[1.0]]),
        "acc": psum(1, 1),
    }
    found = left(tensors, [matmult(ifmap_zero=zeros(4))])
    assert float(fp32(found["acc"])[0, 0]) == 2.0**-8


@pytest.mark.parametrize(("k", "p", "n"), [(1, 1, 1), (1, 4, 3), (17, 1, 5), (9, 3, 1), (128, 2, 3)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float8e5"])
def test_the_sum_is_a_scalar_loop_n024(k: int, p: int, n: int, dtype: str) -> None:
    found = left(dense(k, p, n, dtype=dtype), [matmult()])
    assert np.array_equal(fp32(found["acc"]), chain(numbers(found["w"], dtype), numbers(found["x"], dtype)))


@pytest.mark.parametrize("rows", [32, 64, 128])
@pytest.mark.parametrize("cols", [32, 64, 128])
def test_row_and_column_groups_split_only_the_work_n025(rows: int, cols: int) -> None:
    """The sum stays ascending in k whatever the groups (convention)."""
    found = left(dense(100, 70, 9), [matmult(row_group=rows, col_group=cols)])
    assert np.array_equal(found["acc"], left(dense(100, 70, 9), [matmult()])["acc"])


def test_other_group_sizes_are_refused_n025() -> None:
    assert "row_group: expected one of 32, 64, 128, not 48" in refused(dense(4, 2, 3), [matmult(row_group=48)])


def test_bf16_sums_are_rounded_after_each_addition_where_psum_keeps_them() -> None:
    tensors = {**dense(16, 4, 5), "acc": psum(4, 5, dtype="bfloat16")}
    found = left(tensors, [matmult(), matmult(start=False, accumulate=True)])
    once = fp32(left(dense(16, 4, 5), [matmult()])["acc"])

    def rounded(x: Array) -> Array:
        bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)

    assert np.array_equal(numbers(found["acc"], "bfloat16"), rounded(rounded(once) + once))
    assert "bfloat16 sums in PSUM" in refused(tensors, [matmult()], TRN2)


def test_an_operand_may_be_a_rectangle_of_a_tensor() -> None:
    tensors = dense(8, 4, 6)
    part = matmult(
        ifmap={"tensor": "x", "rows": [0, 4], "cols": [2, 3]},
        weights={"tensor": "w", "rows": [0, 4], "cols": [1, 2]},
        dst={"tensor": "acc", "rows": [0, 2], "cols": [3, 3]},
    )
    found = left(tensors, [part])
    w, x = numbers(found["w"], "bfloat16"), numbers(found["x"], "bfloat16")
    assert np.array_equal(fp32(found["acc"])[:2, 3:], chain(w[:4, 1:3], x[:4, 2:5]))
    assert "dst.rows: expected at most 4" in refused(tensors, [matmult(dst={"tensor": "acc", "rows": [3, 2]})])


def test_the_work_is_counted_once_for_each_product() -> None:
    outcome = result(dense(8, 4, 6), [matmult(), matmult(start=False, accumulate=True)])
    assert outcome.stats is not None
    assert outcome.stats.macs == 2 * 8 * 4 * 6
    assert ready(dense(8, 4, 6), [matmult()]).hazards() == ()
