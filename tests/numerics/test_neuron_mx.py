"""Neuron's 8 x 4 blocks, x4 containers and scale slots, against plain loops on exact fractions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numerics_support import awkward_blocks, bits, fp32, same, values_of

from hwmodel import numerics as nm
from hwmodel.errors import NumericsError
from hwmodel.numerics.neuron import EMAX
from hwmodel.numerics.reference import neuron as reference

NUMBERED = {
    2: "fp4_e2m1",
    3: "fp8_e3m4",
    4: "fp8_e4m3_ieee",
    5: "fp8_e4m3",
    6: "e8m0",
    7: "fp8_e5m2",
    8: "mxfp8_e4m3",
    9: "mxfp8_e5m2",
}
RULES = ("neuron", "neuron_alt_emax", "neuron_hw")
TARGETS = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp4_e2m1", "fp8_e3m4", "fp8_e4m3_ieee")


def scales_of(tensor: nm.BlockTensor) -> Any:
    assert isinstance(tensor.scales, nm.MxScales)
    return tensor.scales.e8m0


def matrix(seed: int = 3, rows: int = 48, cols: int = 32) -> Any:
    return awkward_blocks(rows * cols // 32, 32, seed).reshape(rows, cols)


def scalar(x: Any, dtype: str, rule: str, nan_suppress: bool) -> tuple[Any, Any]:
    rows, cols = x.shape
    emax, element = nm.neuron_emax(dtype), nm.DTYPES[dtype].element
    codes, scales = np.empty((rows, cols), np.uint8), np.empty((rows // 8, cols // 4), np.uint8)
    for i in range(rows // 8):
        for j in range(cols // 4):
            block = values_of(x[8 * i : 8 * i + 8, 4 * j : 4 * j + 4].reshape(-1))
            scale = reference.scale_byte(block, emax, rule != "neuron", 0 if rule == "neuron_hw" else 1)
            scales[i, j] = scale
            narrow = [reference.narrow(reference.multiply_back(v, scale), element, nan_suppress) for v in block]
            codes[8 * i : 8 * i + 8, 4 * j : 4 * j + 4] = np.array(narrow).reshape(8, 4)
    return codes, scales


@pytest.mark.parametrize("nan_suppress", [False, True])
@pytest.mark.parametrize(
    ("dtype", "rule"),
    [(d, r) for d in TARGETS for r in RULES if (d, r) != ("mxfp4_e2m1", "neuron_hw")],  # the hardware makes FP8 only
)
def test_quantise_equals_the_scalar_reference(dtype: str, rule: str, nan_suppress: bool) -> None:
    x = matrix()
    tensor = nm.quantize_neuron_mx(x, dtype, rule, nan_suppress=nan_suppress)
    codes, scales = scalar(x, dtype, rule, nan_suppress)
    assert (scales_of(tensor) == scales).all()
    assert (tensor.codes == codes).all()


@given(st.lists(st.floats(width=32), min_size=64, max_size=64), st.sampled_from(TARGETS), st.sampled_from(RULES[:2]))
def test_any_blocks_equal_the_scalar_reference(numbers: list[float], dtype: str, rule: str) -> None:
    x = np.array(numbers, np.float32).reshape(8, 8)
    tensor = nm.quantize_neuron_mx(x, dtype, rule)
    codes, scales = scalar(x, dtype, rule, False)
    assert (scales_of(tensor) == scales).all()
    assert (tensor.codes == codes).all()


def test_dequantise_equals_the_scalar_reference_n036_n041() -> None:
    x = matrix(9)
    scales = np.random.default_rng(1).integers(0, 256, (6, 8)).astype(np.uint8)
    scales[0, :4] = [0, 1, 254, 255]
    got = nm.dequantize_neuron_mx(x, scales)
    for r in range(48):
        for c in range(32):
            want = reference.scaled_value(values_of([x[r, c]])[0], int(scales[r // 8, c // 4]))
            if want.is_nan:
                assert bits(got[r, c]) == 0x7FC00000
            elif want.is_inf:
                assert got[r, c] == (-np.inf if want.negative else np.inf)
            else:
                assert float(got[r, c]) == want.exact
                assert np.signbit(got[r, c]) == want.negative


@pytest.mark.parametrize("rows", [8, 32, 128])
def test_partitions_count_in_eights_n029(rows: int) -> None:
    x = np.ones((rows, 4), np.float32)
    assert scales_of(nm.quantize_neuron_mx(x, "mxfp8_e4m3")).shape == (rows // 8, 1)


def test_scale_index_of_an_element_n036() -> None:
    scales = np.array([[127, 128], [129, 130]], np.uint8)
    got = nm.dequantize_neuron_mx(np.ones((16, 8), np.float32), scales)
    for r in range(16):
        for c in range(8):
            flat = scales.reshape(-1)[(8 // 4) * (r // 8) + c // 4]
            assert got[r, c] == 2.0 ** (int(flat) - 127)


def test_one_scale_byte_changes_its_32_elements_n037() -> None:
    x = np.ones((24, 12), np.float32)
    scales = np.full((3, 3), 127, np.uint8)
    before = nm.dequantize_neuron_mx(x, scales)
    scales[1, 2] += 1
    changed = nm.dequantize_neuron_mx(x, scales) != before
    want = np.zeros((24, 12), bool)
    want[8:16, 8:12] = True
    assert (changed == want).all()
    assert changed.sum() == 32


def test_factors_of_scale_bytes_n038_n039_n040() -> None:
    one = np.ones((8, 4), np.float32)

    def scaled(value: np.float32, byte: int) -> Any:
        return nm.dequantize_neuron_mx(one * value, np.full((1, 1), byte, np.uint8))[0, 0]

    assert [float(scaled(np.float32(1), byte)) for byte in (1, 126, 127, 128, 254)] == [
        2.0**-126, 0.5, 1.0, 2.0, 2.0**127,
    ]  # fmt: skip
    assert bits(scaled(np.float32(1), 0)) == 0x00400000
    assert scaled(np.float32(0.5), 255) == 2.0**127
    assert scaled(np.float32(1), 255) == np.inf
    assert bits(scaled(np.float32(0), 255)) == 0
    assert bits(scaled(np.float32(-0.0), 255)) == 0x80000000
    assert scaled(np.float32(0.5) * np.float32(2.0**-20), 255) == 2.0**107


def test_scaling_keeps_signed_zero_inf_and_nan_n041() -> None:
    codes = np.zeros((8, 4), np.uint8)
    codes[0] = [0x80, 0x7C, 0xFC, 0x7E]
    values = nm.dequantize_neuron_mx(nm.decode(codes, "fp8_e5m2"), np.full((1, 1), 3, np.uint8))
    assert bits(values[0, 0]) == 0x80000000
    assert values[0, 1:3].tolist() == [np.inf, -np.inf]
    assert np.isnan(values[0, 3])


@pytest.mark.parametrize("count", range(17))
def test_scale_slots_there_and_back_n042_n043(count: int) -> None:
    assert nm.scale_slots(8).tolist() == [0, 1, 2, 3, 32, 33, 34, 35]
    scales = np.random.default_rng(count).integers(0, 256, (count, 5)).astype(np.uint8)
    before = np.full((128, 5), 0xA5, np.uint8)
    slots = nm.scales_to_slots(scales, into=before)
    assert (nm.scales_from_slots(slots, count) == scales).all()
    unused = np.setdiff1d(np.arange(128), nm.scale_slots(count))
    assert (slots[unused] == 0xA5).all()
    assert (before == 0xA5).all()
    for row in range(count):
        assert (slots[(row & 3) + 32 * (row >> 2)] == scales[row]).all()


def test_scaling_decoded_values_is_scaling_codes_n044() -> None:
    tensor = nm.quantize_neuron_mx(matrix(4), "mxfp8_e5m2")
    decoded = nm.decode(tensor.codes, "fp8_e5m2")
    assert same(nm.dequantize(tensor), nm.dequantize_neuron_mx(decoded, scales_of(tensor)))


@pytest.mark.parametrize("shape", [(7, 4), (8, 5), (12, 4), (8, 2)])
def test_extents_without_a_block_are_refused_n045(shape: tuple[int, int]) -> None:
    for call in (
        lambda: nm.quantize_neuron_mx(np.ones(shape, np.float32), "mxfp8_e4m3"),
        lambda: nm.dequantize_neuron_mx(np.ones(shape, np.float32), np.ones((1, 1), np.uint8)),
    ):
        with pytest.raises(NumericsError, match="8 rows x 4 columns"):
            call()


@pytest.mark.parametrize("source", ["bf16", "fp16"])
def test_all_16_bit_sources_are_widened_exactly_n065(source: str) -> None:
    codes = np.arange(65536, dtype=np.uint16).reshape(512, 128)
    widened = nm.decode(codes, source)
    if source == "fp16":
        narrow: Any = codes.view(np.float16)
    else:
        narrow = codes.view(ml_dtypes.bfloat16)
    left, right = nm.quantize_neuron_mx(narrow, "mxfp8_e4m3"), nm.quantize_neuron_mx(widened, "mxfp8_e4m3")
    assert (left.codes == right.codes).all()
    assert (scales_of(left) == scales_of(right)).all()
    with pytest.raises(NumericsError, match="fp32, fp16 or bf16"):
        nm.quantize_neuron_mx(np.ones((8, 4)), "mxfp8_e4m3")
    with pytest.raises(NumericsError, match="fp32, fp16 or bf16"):
        nm.quantize_neuron_mx(np.ones((8, 4), np.int32), "mxfp8_e4m3")


def test_emax_table_n067() -> None:
    assert [nm.neuron_emax(NUMBERED[number]) for number in range(2, 10)] == [2, 0, 0, 8, 0, 15, 8, 15]
    assert nm.neuron_emax("fp32") == nm.neuron_emax("bf16") == nm.neuron_emax("uint8") == 0
    ones = np.ones((8, 4), np.float32)
    assert [int(nm.neuron_scales(ones, nm.neuron_emax(NUMBERED[number]))[0, 0]) for number in range(2, 10)] == [
        125, 127, 127, 119, 127, 112, 119, 112,
    ]  # fmt: skip


def test_alternative_emax_raises_scale_bytes_by_one_n068() -> None:
    x = np.ones((8, 4), np.float32)
    for dtype in ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp4_e2m1"):
        default = scales_of(nm.quantize_neuron_mx(x, dtype))
        assert scales_of(nm.quantize_neuron_mx(x, dtype, "neuron_alt_emax")) == default + 1
        tiny = scales_of(nm.quantize_neuron_mx(x * np.float32(2.0**-126), dtype, "neuron_alt_emax"))
        assert tiny == 1


def test_alternative_of_emax_zero_wraps_to_255_n069() -> None:
    x = matrix(6)
    assert (nm.neuron_scales(x, 0, alternative=True) == 1).all()
    assert (nm.neuron_scales(x, 255) == 1).all()
    assert (scales_of(nm.quantize_neuron_mx(x, "fp8_e3m4", "neuron_alt_emax")) == 1).all()


def test_exponent_is_read_from_the_pattern_n070() -> None:
    def byte(pattern: int) -> int:
        x = np.zeros((8, 4), np.float32)
        x[3, 1] = fp32(pattern)
        return int(nm.neuron_scales(x, 0, floor=0)[0, 0])

    assert [byte(p) for p in (0x3F800000, 0xBF800000, 0x3F7FFFFF, 0x40000000, 0x00800000)] == [127, 127, 126, 128, 1]
    assert [byte(p) for p in (0x007FFFFF, 0x00000001, 0x7F800000, 0xFF800000, 0x7FC00000)] == [0, 0, 255, 255, 255]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_maximum_over_each_of_the_32_places_n071(sign: float) -> None:
    for place in range(32):
        x = np.ones((16, 8), np.float32)
        x[8 + place // 4, 4 + place % 4] = sign * 64
        scales = nm.neuron_scales(x, 0)
        assert scales.tolist() == [[127, 127], [127, 133]]


@pytest.mark.parametrize("emax", [2, 8, 15])
def test_two_clamps_in_order_n072(emax: int) -> None:
    def byte(exponent: int, floor: int) -> int:
        x = np.zeros((8, 4), np.float32)
        x[0, 0] = fp32(exponent << 23)
        return int(nm.neuron_scales(x, emax, floor=floor)[0, 0])

    exponents = (emax - 1, emax, emax + 1, emax + 2)
    assert [byte(e, 1) for e in exponents] == [1, 1, 1, 2]
    assert [byte(e, 0) for e in exponents] == [0, 0, 1, 2]


@given(st.lists(st.floats(width=32), min_size=32, max_size=32), st.integers(0, 255))
def test_a_scale_byte_is_never_zero_n073(numbers: list[float], emax: int) -> None:
    assert nm.neuron_scales(np.array(numbers, np.float32).reshape(8, 4), emax).min() >= 1
    assert nm.neuron_scales(np.zeros((8, 4), np.float32), emax)[0, 0] == 1


def test_hardware_preset_leaves_a_zero_block_at_zero() -> None:
    zero = np.zeros((8, 4), np.float32)
    assert scales_of(nm.quantize_neuron_mx(zero, "mxfp8_e4m3", "neuron_hw")) == 0
    assert scales_of(nm.quantize_neuron_mx(zero, "mxfp8_e4m3", "neuron_alt_emax")) == 1
    with pytest.raises(NumericsError, match="FP8 only"):
        nm.quantize_neuron_mx(zero, "mxfp4_e2m1", "neuron_hw")


def test_multiplier_patterns_n074() -> None:
    """(254 - byte) << 23: byte 254 is +0 and byte 255 minus infinity; Inf or NaN in a block reach them at EMAX 0."""
    from hwmodel.numerics.neuron import _inverse_factors

    table = _inverse_factors()
    assert [float(table[byte]) for byte in (1, 127, 253)] == [2.0**126, 1.0, 2.0**-126]
    assert bits(table[254]) == 0
    assert table[255] == -np.inf
    x = np.ones((8, 4), np.float32)
    x[0, 0] = np.inf
    tensor = nm.quantize_neuron_mx(x, "fp8_e3m4")
    assert scales_of(tensor) == 255
    assert tensor.codes[0, 0] == 0xEF
    assert tensor.codes[1, 1] == 0xEF


def test_quantise_and_dequantise_factors_are_inverse_n075() -> None:
    from hwmodel.numerics.neuron import _inverse_factors

    for byte in range(1, 254):
        back = nm.dequantize_neuron_mx(np.full((8, 4), _inverse_factors()[byte]), np.full((1, 1), byte, np.uint8))
        assert (back == 1).all()


def test_data_and_scales_share_the_block_index_n076() -> None:
    x = np.ones((16, 8), np.float32)
    x[:8, 4:], x[8:, :4], x[8:, 4:] = 2.0**40, 2.0**-40, 2.0**90
    tensor = nm.quantize_neuron_mx(x, "mxfp8_e4m3")
    assert len(set(scales_of(tensor).reshape(-1).tolist())) == 4
    assert same(nm.dequantize(tensor), x)


def test_tiny_elements_are_not_flushed_before_the_narrow_n077() -> None:
    """With byte 253 an element of 2^-2 becomes the subnormal 2^-128, and comes back; e5m2 would not hold it."""
    assert reference.multiply_back(values_of([np.float32(0.25)])[0], 253).magnitude == 2.0**-128
    x = np.zeros((8, 4), np.float32)
    x[0, 0], x[0, 1] = fp32(0x00000001), fp32(0x00400000)
    tensor = nm.quantize_neuron_mx(x, "mxfp8_e5m2")
    assert scales_of(tensor) == 1
    assert nm.decode(tensor.codes, "fp8_e5m2")[0, 1] == 0.5
    assert nm.dequantize(tensor)[0, 1] == fp32(0x00400000)


def test_fp8_narrow_saturates_always_n078() -> None:
    x = np.zeros((8, 4), np.float32)
    x[0] = [1.9375 * 256, -1.9375 * 256, 256, 1]
    tensor = nm.quantize_neuron_mx(x, "mxfp8_e4m3")
    assert scales_of(tensor) == 127
    assert tensor.codes[0].tolist() == [0x7E, 0xFE, 0x78, 0x38]
    x[1, 1], x[2, 2] = np.inf, -np.inf
    codes = nm.quantize_neuron_mx(x, "mxfp8_e5m2").codes
    assert [codes[1, 1], codes[2, 2]] == [0x7B, 0xFB]


def test_nan_in_fp8_is_kept_or_suppressed_n079() -> None:
    """Convention: kept as the canonical NaN; with ``nan_suppress`` the signed maximum."""
    x = np.ones((8, 4), np.float32)
    x[0, 0], x[0, 1] = np.nan, -np.nan
    for dtype, nan, top in (("mxfp8_e4m3", 0x7F, 0x7E), ("mxfp8_e5m2", 0x7E, 0x7B)):
        assert nm.quantize_neuron_mx(x, dtype).codes[0, :2].tolist() == [nan, nan]
        assert nm.quantize_neuron_mx(x, dtype, nan_suppress=True).codes[0, :2].tolist() == [top, top | 0x80]


def test_nan_in_fp4_is_a_zero_of_its_sign_n081() -> None:
    x = np.ones((8, 4), np.float32)
    x[0, 0], x[0, 1] = np.nan, -np.nan
    assert nm.quantize_neuron_mx(x, "mxfp4_e2m1").codes[0, :2].tolist() == [0x0, 0x8]


def test_scaled_maximum_fits_only_under_the_alternative_n087() -> None:
    """The document says it always fits; with EMAX it does not above mantissa 1.75 (FP8) or 1.5 (FP4)."""
    x = np.ones((8, 4 * 256), np.float32)
    x[0, ::4] = 1 + np.arange(256) / 256
    for dtype, share in (("mxfp8_e4m3", 63 / 256), ("mxfp8_e5m2", 63 / 256), ("mxfp4_e2m1", 127 / 256)):
        largest = float(nm.decode([nm.DTYPES[dtype].format.max_code], nm.DTYPES[dtype].element)[0])
        for rule, want in (("neuron", share), ("neuron_alt_emax", 0.0)):
            tensor = nm.quantize_neuron_mx(x, dtype, rule)
            factor = np.ldexp(np.float32(1), 127 - scales_of(tensor)[0].astype(int))
            assert ((x[0, ::4] * factor) > largest).mean() == want


@pytest.mark.parametrize("shape", [(8, 4), (16, 64), (128, 512)])
def test_scales_form_rows_by_columns_n088(shape: tuple[int, int]) -> None:
    tensor = nm.quantize_neuron_mx(np.ones(shape, np.float32), "mxfp8_e4m3")
    assert scales_of(tensor).shape == (shape[0] // 8, shape[1] // 4)
    assert tensor.block == (8, 4)


def test_extents_of_data_and_scales_of_x4_dtypes_n066() -> None:
    """n containers a partition are 4 n elements and n scale bytes a row of blocks, for dtypes 2, 8 and 9."""
    x = np.ones((32, 4 * 6), np.float32)
    for dtype in ("mxfp4_e2m1", "mxfp8_e4m3", "mxfp8_e5m2"):
        tensor = nm.quantize_neuron_mx(x, dtype)
        assert nm.pack_x4(tensor.codes, dtype).shape == (32, 6)
        assert scales_of(tensor).shape == (4, 6)


def test_fp4_containers_count_in_fours_n089() -> None:
    codes = np.arange(8, dtype=np.uint8)
    assert nm.pack_x4(codes, "mxfp4_e2m1").tolist() == [0x3210, 0x7654]
    with pytest.raises(NumericsError, match="multiple of 4"):
        nm.pack_x4(codes[:6], "mxfp4_e2m1")


@pytest.mark.parametrize("parity", [0, 1])
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 8])
def test_lane_order_is_a_bijection_with_an_inverse_n090(stride: int, parity: int) -> None:
    """Convention: windows of 2 x stride, reversed, neighbours exchanged by an odd parity."""
    order = nm.lane_remap(stride, parity)
    assert sorted(order.tolist()) == list(range(order.size))
    assert order.size % 4 == 0
    assert order.size % (2 * stride) == 0
    codes = np.random.default_rng(stride).integers(0, 16, (3, 2 * order.size)).astype(np.uint8)
    packed = nm.pack_x4(codes, "fp4_e2m1", lanes=order)
    assert (nm.unpack_x4(packed, "fp4_e2m1", lanes=order) == codes).all()
    plain = nm.unpack_x4(packed, "fp4_e2m1")
    assert (plain[:, : order.size] == codes[:, : order.size][:, order]).all()


def test_stride_one_with_odd_parity_is_the_default_order_n090() -> None:
    assert nm.lane_remap(1, 1).tolist() == [0, 1, 2, 3]
    assert nm.lane_remap(0, 1).tolist() == [0, 1, 2, 3]
    assert nm.lane_remap(1, 0).tolist() == [1, 0, 3, 2]
    assert nm.lane_remap(2, 0).tolist() == [3, 2, 1, 0]
    with pytest.raises(NumericsError, match="parity"):
        nm.lane_remap(1, 2)


def test_fp8_containers_are_contiguous_bytes_n091() -> None:
    codes = np.random.default_rng(7).integers(0, 256, (5, 16)).astype(np.uint8)
    containers = nm.pack_x4(codes, "mxfp8_e4m3")
    assert containers.dtype == np.uint32
    assert containers.shape == (5, 4)
    assert (containers.astype("<u4").view(np.uint8).reshape(5, 16) == codes).all()
    assert (nm.unpack_x4(containers, "mxfp8_e4m3") == codes).all()


def test_quantise_feeds_the_matmul_as_it_is_n092() -> None:
    x, w = matrix(1, 64, 32), matrix(2, 64, 16)
    x[~np.isfinite(x)] = 0
    w[~np.isfinite(w)] = 0
    left, right = nm.quantize_neuron_mx(x, "mxfp8_e4m3"), nm.quantize_neuron_mx(w, "mxfp8_e5m2")
    a = nm.deinterleave(nm.dequantize(left), 4)
    b = nm.deinterleave(nm.dequantize(right), 4)
    assert a.shape == (256, 8)
    out = nm.matmul(b.T, a)
    want = np.zeros((4, 8), np.float32)
    with np.errstate(all="ignore"):
        for k in range(256):
            want = want + b[k][:, None] * a[k][None, :]
    finite = np.isfinite(want)
    assert same(out[finite], want[finite])


@pytest.mark.parametrize("rule", RULES[:2])
@pytest.mark.parametrize("dtype", ["mxfp8_e4m3", "mxfp8_e5m2", "mxfp4_e2m1"])
def test_round_trip_is_within_half_a_step_n093(dtype: str, rule: str) -> None:
    x = np.random.default_rng(5).standard_normal((64, 64)).astype(np.float32)
    tensor = nm.quantize_neuron_mx(x, dtype, rule)
    back = nm.dequantize(tensor)
    factor = np.repeat(np.repeat(np.ldexp(1.0, scales_of(tensor).astype(int) - 127), 8, 0), 4, 1)
    element = nm.DTYPES[dtype].element
    grid = np.sort(np.abs(nm.decode(np.arange(nm.FORMATS[element].max_code + 1), element)))
    scaled = np.abs(x) / factor
    saturated = scaled > grid[-1]
    index = np.clip(np.searchsorted(grid, scaled), 1, len(grid) - 1)
    step = grid[index] - grid[index - 1]
    error = np.abs(back - x) / factor
    assert (error[~saturated] <= step[~saturated] / 2).all()
    assert saturated.sum() == (0 if rule == "neuron_alt_emax" else saturated.sum())
    assert (tensor.codes[saturated] & ~np.uint8(nm.FORMATS[element].sign_bit) == nm.FORMATS[element].max_code).all()


@given(st.integers(1, 6), st.integers(1, 5), st.sampled_from([1, 2, 4]))
def test_deinterleave_follows_its_formula(rows: int, cols: int, factor: int) -> None:
    matrix = np.arange(rows * cols * factor).reshape(rows, cols * factor)
    out = nm.deinterleave(matrix, factor)
    assert out.shape == (rows * factor, cols)
    for p in range(rows):
        for c in range(cols):
            for j in range(factor):
                assert out[factor * p + j, c] == matrix[p, factor * c + j]
    assert (nm.interleave(out, factor) == matrix).all()


def test_wrong_use() -> None:
    x = np.ones((8, 4), np.float32)
    with pytest.raises(NumericsError, match="did you mean 'neuron_hw'"):
        nm.quantize_neuron_mx(x, "mxfp8_e4m3", "neuron_hv")
    with pytest.raises(NumericsError, match="no Neuron MX target"):
        nm.quantize_neuron_mx(x, "hif4")
    with pytest.raises(NumericsError, match="use quantize_neuron_mx"):
        nm.quantize(np.ones(32, np.float32), "mxfp8_e4m3", rule="neuron")
    with pytest.raises(NumericsError, match="expected shape"):
        nm.dequantize_neuron_mx(x, np.ones((2, 1), np.uint8))
    with pytest.raises(NumericsError, match="uint8"):
        nm.dequantize_neuron_mx(x, np.ones((1, 1), np.int32))
    with pytest.raises(NumericsError, match="do not fit"):
        nm.scales_to_slots(np.ones((5, 2), np.uint8), partitions=32)
    with pytest.raises(NumericsError, match="need slot 32"):
        nm.scales_from_slots(np.ones((32, 2), np.uint8), 5)
    with pytest.raises(NumericsError, match="permutation"):
        nm.pack_x4(np.zeros(4, np.uint8), "fp4_e2m1", lanes=[0, 0, 1, 2])
    with pytest.raises(NumericsError, match="4- or 8-bit"):
        nm.pack_x4(np.zeros(4, np.uint16), "bf16")
    with pytest.raises(NumericsError, match="divide"):
        nm.deinterleave(np.ones((2, 3)), 2)
    assert set(EMAX) == {NUMBERED[number] for number in range(2, 8)}
