"""Which instructions and dtypes there are, by number and name; open points and the conventions taken for them."""

from __future__ import annotations

import numpy as np
import pytest
from neuron_programs import TRN1, dense, fp32, left, matmult, normal, psum, refused, result, sbuf

from hwmodel.errors import InputError
from hwmodel.listing.neuron.isa import BY_OPCODE, OPERATIONS, command, operation
from hwmodel.program.neuron_dtypes import BY_NUMBER, NEURON_DTYPES, neuron_dtype

NAMES = {
    5: "read_activation_accumulator",
    8: "matmult",
    9: "matmult_sparse",
    95: "matmult_mx",
    96: "quantize_mx",
}


def test_opcodes_and_names_mean_the_same_n001() -> None:
    assert {number: record.name for number, record in BY_OPCODE.items()} == NAMES
    for number, name in NAMES.items():
        assert operation(number) is operation(name)
    by_name = left(dense(8, 4, 6), [matmult()])
    by_number = left(dense(8, 4, 6), [matmult(op=8)])
    assert np.array_equal(by_name["acc"], by_number["acc"])
    assert result(dense(8, 4, 6), [matmult()]).cycles == result(dense(8, 4, 6), [matmult(op=8)]).cycles


@pytest.mark.parametrize("given", [0, 1, 42, 94, 97, 110, "conv", "matmul"])
def test_any_other_opcode_is_refused_with_the_supported_ones_n001(given: int | str) -> None:
    text = refused(dense(8, 4, 6), [matmult(), matmult(op=given)])
    assert "instruction 1" in text
    assert str(given) in text
    for name in OPERATIONS:
        assert name in text


def test_opcode_7_is_named_as_not_modelled_n001() -> None:
    text = refused(dense(8, 4, 6), [matmult(op=7)])
    assert "opcode 7" in text
    assert "not modelled" in text


def test_bytes_of_the_first_ten_dtypes_n004() -> None:
    assert [BY_NUMBER[number].bytes for number in range(10)] == [1, 1, 2, 1, 1, 1, 1, 1, 4, 4]


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "uint8"),
        (2, "float4_e2m1fn_x4"),
        (8, "float8_e4m3fn_x4"),
        (9, "float8_e5m2_x4"),
        (16, "float32"),
        (17, "float32r"),
    ],
)
def test_dtype_numbers_and_names_are_interchangeable_n005(number: int, name: str) -> None:
    assert neuron_dtype(number) is neuron_dtype(name)
    one, other = (left({"a": sbuf(each, 8, 8, init=normal(3))}, []) for each in (number, name))
    assert np.array_equal(one["a"], other["a"])


def test_every_number_from_0_to_19_has_a_name_n005() -> None:
    assert sorted(BY_NUMBER) == list(range(20))
    assert list(NEURON_DTYPES) == [BY_NUMBER[number].name for number in range(20)]


def test_an_unknown_dtype_is_refused_with_the_nearest() -> None:
    assert "did you mean 'bfloat16'" in refused({"a": sbuf("bfloat61", 8, 8)}, [])
    assert "unknown dtype number 20" in refused({"a": sbuf(20, 8, 8)}, [])


# -- open points -------------------------------------------------------------------------------------------------------


def test_g1_neither_flag_is_the_middle_of_a_group_n108() -> None:
    """G1: (start, accumulate) = (0, 0) adds where the group wrote; on a fresh region it is refused, or copies."""
    found = left(dense(8, 4, 6), [matmult(), matmult(start=False)])
    once = left(dense(8, 4, 6), [matmult()])
    assert np.array_equal(fp32(found["acc"]), 2 * fp32(once["acc"]))
    assert "no start wrote" in refused(dense(8, 4, 6), [matmult(start=False)])


def test_g2_fp8_saturates_at_the_canonical_codes_n108() -> None:
    """G2: 448 = 0x7E and 57344 = 0x7B."""
    tensors = {
        "src": sbuf("float32", 1, 4, init=[[1e6, -1e6, 449.0, 440.0]]),
        "a": sbuf("float8_e4m3fn", 1, 4),
        "b": sbuf("float8e5", 1, 4),
    }
    found = left(tensors, [{"op": "copy", "src": "src", "dst": "a"}, {"op": "copy", "src": "src", "dst": "b"}])
    assert found["a"].tolist() == [[0x7E, 0xFE, 0x7E, 0x7E]]
    assert found["b"][0, :2].tolist() == [0x7B, 0xFB]


def test_g3_lanes_are_little_endian_by_default_n108() -> None:
    """G3: FP4 lane k in bits 4k of a 16-bit word, FP8 lane k in byte k; a remap is undone by the reader."""
    tensors = {"a": sbuf("float4_e2m1fn_x4", 1, 1, init=[[0.5, 1.0, 1.5, 2.0]])}
    assert left(tensors, [])["a"].tolist() == [[0x4321]]
    tensors = {"a": sbuf("float8_e4m3fn_x4", 1, 1, init=[[1.0, 2.0, 0.0, -1.0]])}
    assert left(tensors, [])["a"].tolist() == [[0xB8004038]]


def test_g4_transpose_formula_n108() -> None:
    """G4: out[p, q] = sum over n of weights[p, n] x ifmap[q, n]."""
    tensors = {
        "x": sbuf("float32", 4, 3, init=np.arange(12).reshape(4, 3)),
        "w": sbuf("float32", 2, 3, init=[[1, 2, 0], [0, 0, 3]]),
        "acc": psum(2, 4),
    }
    found = fp32(left(tensors, [matmult(transpose=True)])["acc"])
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert np.array_equal(found, np.array([[1, 2, 0], [0, 0, 3]], np.float32) @ x.T)


def test_g5_the_function_attribute_forces_the_choice_n108() -> None:
    """G5: has_psum_accumulate_flag present wins over the flags."""
    twice = [matmult(), matmult()]
    added = left(dense(8, 4, 6), twice, attributes={"has_psum_accumulate_flag": True})
    cleared = left(dense(8, 4, 6), twice, attributes={"has_psum_accumulate_flag": False})
    assert np.array_equal(fp32(added["acc"]), 2 * fp32(cleared["acc"]))


def test_g6_zero_blocks_get_byte_1_and_0_in_the_preset_of_the_hardware_n108() -> None:
    """G6: the requirement's rule by default, EMAX - 1 and byte 0 with ``preset: hw``."""
    src = np.zeros((32, 8), np.float32)
    src[0, 4] = 1.0
    tensors = {
        "src": sbuf("bfloat16", 32, 8, init=src),
        "data": sbuf("float8_e4m3fn_x4", 32, 2),
        "scales": sbuf("uint8", 32, 2),
    }
    quantise = [{"op": "quantize_mx", "src": "src", "data": "data", "scales": "scales"}]
    assert left(tensors, quantise)["scales"][0].tolist() == [1, 119]
    assert left(tensors, quantise, preset="hw")["scales"][0].tolist() == [0, 120]


def test_accumulator_commands_by_number_and_by_both_names_n104_n105() -> None:
    assert command(1).name == command("zero").name == command("idle").name == command("reset").name == "zero"
    assert command(3).name == command(5).name == command("load_reduce").name == "load_accumulate"
    assert command("reduce").name == "accumulate"
    with pytest.raises(InputError, match="accumulator command 9"):
        command(9)


def test_a_dtype_that_the_machine_has_no_rate_for_still_runs_without_legality() -> None:
    tensors = {
        "x": sbuf("float8_e4m3fn_x4", 8, 2, init=normal(1)),
        "w": sbuf("float8_e4m3fn_x4", 8, 1, init=normal(2)),
        "acc": psum(4, 8),
    }
    assert "x4 operands go with matmult_mx" in refused(tensors, [matmult()], TRN1)
    left(tensors, [matmult()], TRN1, legality="off")
