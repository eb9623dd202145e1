"""The transpose variant of opcode 8: exact bits, what it refuses, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from neuron_programs import TRN1, TRN2, TRN3, chain, codes, fp32, left, matmult, normal, psum, refused, sbuf

from hwmodel.program.neuron_dtypes import NEURON_DTYPES
from hwmodel.units.storage import Array


def transposing(rows: int, cols: int, stored: Array, dtype: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    eye = np.eye(cols)
    tensors = {
        "x": sbuf(dtype, rows, cols, init=codes(stored)),
        "w": sbuf(dtype, cols, cols, init=eye),
        "acc": psum(cols, rows, dtype=dtype),
    }
    return tensors, [matmult(transpose=True)]


def test_the_transpose_variant_needs_a_new_core_and_the_question_n012() -> None:
    """Asked on a newer core: N013; not asked: the plain product; asked on an older core: refused (our convention)."""
    tensors = {
        "x": sbuf("float32", 4, 4, init=normal(1)),
        "w": sbuf("float32", 4, 4, init=normal(2)),
        "acc": psum(4, 4),
    }
    plain = left(tensors, [matmult()])
    assert np.array_equal(fp32(plain["acc"]), chain(fp32(plain["w"]), fp32(plain["x"])))
    asked = left(tensors, [matmult(transpose=True)], TRN2)
    assert np.array_equal(fp32(asked["acc"]), chain(fp32(asked["w"]).T, fp32(asked["x"]).T))
    assert f"{TRN1} has no transpose variant" in refused(tensors, [matmult(transpose=True)], TRN1)


@pytest.mark.parametrize(("rows", "cols"), [(3, 5), (100, 128), (128, 40)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float16"])
def test_the_transpose_variant_moves_bits_n013(rows: int, cols: int, dtype: str) -> None:
    """With identity weights: exact bits, NaN payloads and infinities included, destination dtype as the source."""
    bits = 8 * NEURON_DTYPES[dtype].bytes
    stored = np.random.RandomState(rows).randint(0, 1 << bits, (rows, cols), dtype=np.uint64)
    stored[0, :3] = [(1 << bits) - 1, 0x7F800000 >> (32 - bits), 1 << (bits - 1)]
    found = left(*transposing(rows, cols, stored, dtype))
    assert np.array_equal(found["acc"], found["x"].T)
    tensors, instructions = transposing(rows, cols, stored, dtype)
    tensors["acc"] = psum(cols, rows, dtype="uint16" if dtype == "float32" else "float32")
    assert f"dst: expected {dtype}" in refused(tensors, instructions)


def test_several_tiles_are_transposed_one_by_one_n013() -> None:
    stored = np.random.RandomState(1).randint(0, 1 << 16, (128, 256))
    tensors = {
        "x": sbuf("bfloat16", 128, 256, init=codes(stored)),
        "w": sbuf("bfloat16", 128, 128, init={"kind": "identity"}),
        "t0": psum(128, 128, dtype="bfloat16"),
        "t1": psum(128, 128, dtype="bfloat16"),
    }
    tiles = [
        matmult(ifmap={"tensor": "x", "cols": [128 * tile, 128]}, dst=f"t{tile}", transpose=True) for tile in (0, 1)
    ]
    found = left(tensors, tiles)
    assert np.array_equal(np.concatenate([found["t0"], found["t1"]]), found["x"].T)


@pytest.mark.parametrize(
    ("dtype", "change", "words"),
    [
        ("float8e5", {"perf_mode": 1}, "perf_mode: expected none in transpose mode"),
        ("uint8", {"weights_zero": {"value": 3, "valid": True}}, "weights_zero: expected none in transpose mode"),
        ("uint8", {"ifmap_zero": {"value": 0, "valid": True}}, "ifmap_zero: expected none in transpose mode"),
    ],
)
def test_what_belongs_to_products_does_not_go_with_a_transpose(dtype: str, change: dict[str, Any], words: str) -> None:
    """Refused by the machine; without legality it changes nothing, as in the requirement's transpose."""
    stored = np.random.RandomState(1).randint(0, 100, (32, 16))
    tensors, (instruction,) = transposing(32, 16, stored, dtype)
    assert words in refused(tensors, [{**instruction, **change}], TRN2)
    found = left(tensors, [{**instruction, **change}], TRN2, legality="off")
    assert np.array_equal(found["acc"], found["x"].T)


def test_containers_of_four_are_not_transposed() -> None:
    tensors = {"x": sbuf("float8_e4m3fn_x4", 32, 4, init=normal(1)), "acc": psum(16, 32, dtype="float8_e4m3fn_x4")}
    tensors["w"] = sbuf("float8_e4m3fn_x4", 16, 4, init={"kind": "identity"})
    for how in ("arch", "off"):
        assert "ifmap: expected single elements" in refused(tensors, [matmult(transpose=True)], TRN3, legality=how)


def test_a_transpose_adds_to_nothing_and_has_128_columns_at_most() -> None:
    tensors, (instruction,) = transposing(32, 16, np.zeros((32, 16), np.int64), "bfloat16")
    again = {**instruction, "start": False, "accumulate": True}
    for how in ("arch", "off"):
        text = refused(tensors, [instruction, again], TRN2, legality=how)
        assert "instruction 1 (matmult): adds to acc [16, 32] bfloat16 in psum, where somebody wrote" in text
    wide, instructions = transposing(32, 129, np.zeros((32, 129), np.int64), "bfloat16")
    wide["w"] = sbuf("bfloat16", 100, 129, init=normal(1))
    wide["acc"] = psum(100, 32, dtype="bfloat16")
    assert "weights: expected at most 128 columns, not 129" in refused(wide, instructions, TRN2)
    left(wide, instructions, TRN2, legality="off")


@pytest.mark.parametrize("dtype", ["float32r", "float32"])
def test_a_transpose_shortens_nothing(dtype: str) -> None:
    """Weights of two ones a row add two elements whole, 1 + 2^-20; a product of float32r would lose it."""
    tensors = {
        "x": sbuf(dtype, 1, 2, init=[[1.0, 2.0**-20]]),
        "w": sbuf(dtype, 1, 2, init=[[1.0, 1.0]]),
        "acc": psum(1, 1, dtype=dtype),
    }
    found = left(tensors, [matmult(transpose=True)], TRN2)
    assert fp32(found["acc"])[0, 0] == 1 + 2.0**-20


@pytest.mark.parametrize(
    ("dtype", "bits"), [("float8e4", 0x77), ("float8_e4m3fn", 0x7E), ("float8e5", 0x7B), ("float8e3", 0x6F)]
)
def test_a_sum_of_a_transpose_saturates_in_8_bit(dtype: str, bits: int) -> None:
    """Two ones a row of the weights add the largest number to itself: it stays; 16 bit go to infinity."""
    tensors = {
        "x": sbuf(dtype, 1, 2, init=codes([[bits, bits]])),
        "w": sbuf(dtype, 1, 2, init=[[1.0, 1.0]]),
        "acc": psum(1, 1, dtype=dtype),
    }
    assert left(tensors, [matmult(transpose=True)], TRN2)["acc"].tolist() == [[bits]]
    half = {"x": sbuf("float16", 1, 2, init=codes([[0x7BFF] * 2])), "w": sbuf("float16", 1, 2, init=[[1.0, 1.0]])}
    half["acc"] = psum(1, 1, dtype="float16")
    assert left(half, [matmult(transpose=True)], TRN2)["acc"].tolist() == [[0x7C00]]
