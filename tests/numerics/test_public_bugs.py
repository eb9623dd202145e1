"""Inputs of public bug reports in other number-format code, with the right values (worked out from exact fractions).

The number in each name is the row of the collection; the project where it was reported is in the docstring.
"""

from __future__ import annotations

import numpy as np
import pytest
from numerics_support import fp32

from hwmodel import numerics as nm
from hwmodel.errors import NumericsError


def one(value: float, dtype: str, overflow: str = "saturate") -> int:
    return int(nm.encode(np.float64(value), dtype, overflow))


def block(peak: float, dtype: str, rule: str, **switches: str) -> tuple[int, float]:
    x = np.zeros(32, np.float32)
    x[0] = peak
    tensor = nm.quantize(x, dtype, rule=rule, **switches)
    assert isinstance(tensor.scales, nm.MxScales)
    return int(tensor.scales.e8m0[0]), float(nm.dequantize(tensor)[0])


def test_11_floor_clips_large_values() -> None:
    """microxcaling#4"""
    assert block(957, "mxfp8_e4m3", "floor") == (0x80, 896)
    assert block(957, "mxfp8_e4m3", "rceil") == (0x81, 960)


def test_12_fp32_to_fp8_not_through_fp16() -> None:
    """triton#10846"""
    assert int(nm.encode(np.float32(1.0625 + 2.0**-20), "fp8_e4m3")) == 0x39
    assert one(1.0625, "fp8_e4m3") == 0x38


def test_13_tiny_becomes_zero() -> None:
    """rocm-systems#10591"""
    assert one(1e-24, "fp8_e5m2") == 0x00


def test_14_overflow_without_saturation() -> None:
    """rocm-systems#8800"""
    assert one(1000, "fp8_e4m3", "ieee") == 0x7F


def test_15_carry_out_of_the_mantissa() -> None:
    """rocm-systems#6870"""
    assert [one(1.75, "fp4_e2m1"), one(3.5, "fp4_e2m1")] == [4, 6]


def test_16_scale_rules_differ() -> None:
    """aiter#3212, vllm#43557"""
    assert [block(7, "mxfp4_e2m1", rule)[0] for rule in ("floor", "even", "rceil", "ceil")] == [127, 128, 128, 128]


def test_17_reciprocal_of_the_largest_scale() -> None:
    """TransformerEngine#2408: E8M0 0xFE needs the multiplier 2^-127, a subnormal."""
    from hwmodel.numerics.mx import inverse_factors

    assert int(inverse_factors()[0xFE].view(np.uint32)) == 0x00400000
    x = np.zeros(32, np.float32)
    x[0] = 2.0**127 * 1.5
    tensor = nm.quantize(x, "mxfp4_e1m2")
    assert isinstance(tensor.scales, nm.MxScales)
    assert tensor.scales.e8m0[0] == 0xFE
    assert nm.dequantize(tensor)[0] == x[0]


def test_18_maximum_is_not_rounded_to_bf16_first() -> None:
    """pytorch/ao#4725"""
    assert block(1.9990234, "mxfp8_e4m3", "floor")[0] - 127 + 8 == 0
    assert block(1.9990234, "mxfp8_e4m3", "floor", source="bf16")[0] - 127 + 8 == 1


def test_19_one_nan_marks_its_block_only() -> None:
    """pytorch/ao#4201"""
    x = np.ones(96, np.float32)
    x[50] = np.nan
    tensor = nm.quantize(x, "mxfp8_e4m3")
    assert isinstance(tensor.scales, nm.MxScales)
    assert tensor.scales.e8m0.tolist() == [119, 255, 119]
    assert np.isnan(nm.dequantize(tensor)).tolist() == [False] * 32 + [True] * 32 + [False] * 32


def test_20_e4m3_does_not_saturate_at_240() -> None:
    """tilelang-metax#140"""
    assert one(256, "fp8_e4m3") == 0x78


def test_21_half_even_and_the_last_code() -> None:
    """sglang#40581"""
    assert [one(1.0625, "fp8_e4m3"), one(464, "fp8_e4m3")] == [0x38, 0x7E]


def test_22_saturating_narrow() -> None:
    """saturn-vectors#101"""
    assert one(672, "fp8_e4m3") == 0x7E


def test_23_infinities() -> None:
    """onnx#6220"""
    assert [one(np.inf, "fp8_e4m3"), one(-np.inf, "fp8_e4m3")] == [0x7E, 0xFE]
    assert [one(np.inf, "fp8_e5m2", "ieee"), one(-np.inf, "fp8_e5m2", "ieee")] == [0x7C, 0xFC]


def test_24_e8m0_below_its_range_clamps() -> None:
    """gfloat#62, #66"""
    assert one(2.0**-128, "e8m0") == 0x00


def test_25_float64_to_fp16_is_one_rounding() -> None:
    """halide#8906, julia#57809, half-rs#151"""
    assert one(1 + 2.0**-11 + 2.0**-30, "fp16") == 0x3C01
    assert int(nm.encode(np.float32(1 + 2.0**-11 + 2.0**-30), "fp16")) == 0x3C00


def test_26_float64_to_bf16_is_one_rounding() -> None:
    """universal#1134"""
    assert float(nm.decode(one(0.2691408770292272, "bf16"), "bf16")) == 0.26953125


def test_27_a_tie_among_fp16_subnormals() -> None:
    """numpy#22704: looks wrong, is right: 2.5 quanta, to even."""
    assert int(nm.encode(fp32(0x34200000), "fp16")) == 0x0002


def test_28_hif4_elements_are_not_e2m1() -> None:
    """SuperNPUBench#122"""
    assert float(nm.decode(7, nm.DTYPES["hif4"].element)) == 1.75


def test_29_blocks_do_not_run_across_row_ends() -> None:
    """mase#321: rows of 48, blocks of 32."""
    x = np.ones((2, 48), np.float32)
    x[1] = 1024
    tensor = nm.quantize(x, "mxfp4_e2m1")
    assert isinstance(tensor.scales, nm.MxScales)
    assert tensor.scales.e8m0.tolist() == [[125, 125], [135, 135]]
    assert (nm.dequantize(tensor) == x).all()


def test_30_signed_zero_and_the_tie_below_the_smallest() -> None:
    """rocm-libraries#7439, #7517"""
    assert [one(-0.0, "fp8_e4m3"), one(-(2.0**-11), "fp8_e4m3")] == [0x80, 0x80]
    assert [one(-(2.0**-10), "fp8_e4m3"), one(np.nextafter(-(2.0**-10), -1), "fp8_e4m3")] == [0x80, 0x81]


def test_31_the_464_boundary() -> None:
    """libxsmm#814"""
    assert one(464, "fp8_e4m3", "ieee") == 0x7E
    assert int(nm.encode(np.float32(464.00003), "fp8_e4m3", "ieee")) == 0x7F


def test_32_float_to_int8_clips() -> None:
    """ComputeLibrary#881"""
    assert nm.decode_int(nm.encode([300, -300], "int8"), "int8").tolist() == [127, -128]
    assert nm.decode_int(nm.cast_out(np.float32([300, -300]), "int8"), "int8").tolist() == [127, -128]


def test_33_e4m3_subnormals() -> None:
    """1bit-MONSTER#300"""
    assert nm.decode(np.arange(1, 8), "fp8_e4m3").tolist() == [m * 2.0**-9 for m in range(1, 8)]


def test_34_a_block_tensor_says_dtype_and_axis() -> None:
    """Quark#30: packed data without its metadata cannot be read."""
    tensor = nm.quantize(np.ones((64, 4), np.float32), "hif4", axis=0)
    assert (tensor.dtype, tensor.axis, tensor.block) == ("hif4", 0, (1, 64))
    assert nm.pack_rows(np.array([[1, 2, 3]]), "hif4").tolist() == [0x21, 0x03]


def test_35_mantissa_carry_reaches_the_exponent() -> None:
    """auto-round#2302"""
    assert int(nm.encode(np.float32(1.9999999), "fp8_e4m3")) == 0x40


def test_36_ties_in_e2m1() -> None:
    """tt-metal#57410"""
    assert [one(0.75, "fp4_e2m1"), one(-0.75, "fp4_e2m1")] == [2, 10]


def test_faults_of_the_vendors_quantiser_are_not_reproduced() -> None:
    """Peaks in (0, 7 x 2^-48) and past 2^44 or 2^70: the vendor's generator stops or gives code 0."""
    for peak in (2.0**-50, 2.0**44 * 1.5, 2.0**71, 2.0**126):
        x = np.zeros(64, np.float32)
        x[0] = peak
        tensor = nm.quantize(x, "hif4")
        assert isinstance(tensor.scales, nm.Hif4Scales)
        assert tensor.scales.ea[0] == (0x00 if peak < 1 else 0xFE)
        assert tensor.codes[0] == (1 if peak < 1 else 7)


def test_no_scale_byte_wraps_below_zero() -> None:
    """The vendor's matmul generator writes -24 for 1e-45."""
    assert block(1e-45, "mxfp4_e2m1", "golden")[0] == 0


def test_the_cube_image_is_right_from_group_128_on() -> None:
    """128 x 128 values, 256 groups: the vendor's image repeats Ea of groups 64..191."""
    x = np.random.default_rng(1).standard_normal((128, 128)).astype(np.float32)
    x *= 2.0 ** (np.arange(128)[:, None] % 7)
    tensor = nm.quantize(x, "hif4")
    scales = tensor.scales
    assert isinstance(scales, nm.Hif4Scales)
    cells = nm.scale_cells(scales, "hif4").reshape(8, 2, 64)
    for row in range(128):
        for group in range(2):
            cell, place = cells[row // 16, group], 2 * (row % 16)
            assert cell[place] == scales.ea[row, group]
            assert cell[place + 1] == scales.eb[row, group]
            assert int(cell[32 + place]) | int(cell[33 + place]) << 8 == scales.ec[row, group]


def test_rules_that_refuse_say_so() -> None:
    with pytest.raises(NumericsError, match="refuses"):
        block(np.inf, "mxfp4_e2m1", "golden")
