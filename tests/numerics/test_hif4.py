"""HiF4: the eighteen rows that tell the sources apart, every profile and switch against the scalar reference."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numerics_support import awkward_blocks, fp32, same, values_of

from hwmodel import numerics as nm
from hwmodel.errors import NumericsError
from hwmodel.numerics.hif4 import PROFILES, Hif4Rule, hif4_rule
from hwmodel.numerics.reference import blocks as reference
from hwmodel.numerics.reference import codec

MAX_BF16 = float(fp32(0x7F7F0000))
Row = tuple[dict[int, float], str, int, int, int, dict[int, int], dict[int, float]]


def quantize(entries: dict[int, float], rule: str = "a6", **switches: Any) -> tuple[nm.BlockTensor, np.ndarray]:
    x = np.zeros(64, np.float32)
    for index, value in entries.items():
        x[index] = value
    tensor = nm.quantize(x, "hif4", rule=rule, **switches)
    return tensor, nm.dequantize(tensor)


# (row, input, rule, Ea, Eb, Ec, codes, values); every entry not named has code 0
ROWS = [
    (1, {0: 1.421875}, "a6", 0xB6, None, None, {0: 7}, {0: 1.3125}),
    (1, {0: 1.421875}, "half_up_scale", 0xB7, None, None, {0: 6}, {0: 1.3125}),
    (2, {0: 1.96875}, "a6", 0xB8, None, None, {0: 7}, {0: 1.75}),
    (2, {0: 1.96875}, "half_up_scale", 0xB9, None, None, {0: 6}, {0: 1.875}),
    (3, {0: 5.71875, 8: 3.5}, "a6", 0xBF, 0x03, None, {0: 7, 8: 4}, {0: 6.125, 8: 3.5}),
    (3, {0: 5.71875, 8: 3.5}, "paper", None, 0x01, None, {0: 7, 8: 7}, {0: 6.125, 8: 3.0625}),
    (3, {0: 5.71875, 8: 3.5}, "cann", None, 0x01, None, {0: 7, 8: 7}, {0: 6.125, 8: 3.0625}),
    (4, {0: 5.75, 8: 1.75}, "a6", None, None, 0x0005, {0: 7, 8: 4}, {0: 6.125, 8: 1.75}),
    (4, {0: 5.71875, 8: 1.75}, "a6", None, None, 0x0005, {0: 7, 8: 4}, {0: 6.125, 8: 1.75}),
    (4, {0: 5.75, 8: 1.75}, "paper", None, None, 0x0001, {0: 7, 8: 7}, {8: 1.53125}),
    (4, {0: 5.75, 8: 1.75}, "cann", None, None, 0x0001, {0: 7, 8: 7}, {8: 1.53125}),
    (5, {0: 5.71875, 4: 3.5}, "a6", None, None, 0x0003, {0: 7, 4: 4}, {4: 3.5}),
    (5, {0: 5.71875, 4: 3.5}, "paper", None, None, 0x0001, {0: 7, 4: 7}, {4: 3.0625}),
    (5, {0: 5.71875, 4: 3.5}, "cann", None, None, 0x0001, {0: 7, 4: 7}, {4: 3.0625}),
    (6, {0: 6.5625, 1: 4.5}, "a6", 0xC0, None, None, {0: 7, 1: 4}, {0: 7, 1: 4}),
    (6, {0: 6.5625, 1: 4.5}, "paper", 0xC0, None, None, {0: 7, 1: 5}, {0: 7, 1: 5}),
    (7, {0: 6.5625, 8: 0.125, 9: -0.125}, "a6", None, None, None, {0: 7, 8: 0, 9: 8}, {8: 0.0, 9: -0.0}),
    (7, {0: 6.5625, 8: 0.125, 9: -0.125}, "paper", None, None, None, {0: 7, 8: 1, 9: 9}, {8: 0.25, 9: -0.25}),
    (8, {0: 4.0, 4: 2.03125}, "a6", 0xBD, None, None, {0: 6, 4: 6}, {0: 3.75, 4: 1.875}),
    (8, {0: 4.0, 4: 2.03125}, "paper", 0xBD, None, None, {0: 6, 4: 7}, {4: 2.1875}),
    (8, {0: 4.0, 4: 2.03125}, "paper_even", 0xBD, None, None, {0: 6, 4: 7}, {4: 2.1875}),
    (9, {0: 4.0, 1: 2.8125}, "a6", None, None, None, {0: 6, 1: 4}, {1: 2.5}),
    (9, {0: 4.0, 1: 2.8125}, "paper", None, None, None, {0: 6, 1: 5}, {1: 3.125}),
    (10, {}, "a6", 0x00, 0, 0, {}, {0: 0.0}),
    (10, {}, "cann", 0xFF, 0, 0, {}, {0: np.nan}),
    (10, {}, "paper", 0x00, 0, 0, {}, {0: 0.0}),
    (11, {0: -0.0}, "a6", 0x00, 0, 0, {0: 0}, {0: 0.0}),
    (12, {0: 2.0**-47}, "a6", 0x00, None, None, {0: 4}, {0: 2.0**-47}),
    (12, {0: 2.0**-47}, "cann", 0xFF, 0, 0, {}, {0: np.nan}),
    (12, {0: 2.0**-47}, "paper", 0x00, None, None, {0: 4}, {0: 2.0**-47}),
    (13, {0: 7 * 2.0**-48}, "a6", 0x00, None, None, {0: 7}, {0: 7 * 2.0**-48}),
    (13, {0: 7 * 2.0**-48}, "vendor_golden", 0x00, 0, 0, {}, {0: 0.0}),
    (13, {0: 7 * 2.0**-48}, "paper", 0x00, None, None, {0: 7}, {0: 7 * 2.0**-48}),
    (13, {0: 7 * 2.0**-48}, "cann", 0x00, None, None, {0: 7}, {0: 7 * 2.0**-48}),
    (14, {0: 376832.0}, "a6", 0xFE, None, None, {0: 7}, {0: 344064.0}),
    (14, {0: 376832.0}, "cann", 0xFF, 0, 0, {}, {0: np.nan}),
    *((15, {0: 352256.0}, rule, 0xFE, None, None, {0: 7}, {}) for rule in PROFILES),
    (16, {0: MAX_BF16}, "a6", 0xFE, None, None, {0: 7}, {0: 344064.0}),
    (16, {0: 1.5 * 2.0**121}, "a6", 0xFE, None, None, {0: 7}, {0: 344064.0}),
    (16, {0: MAX_BF16}, "paper", 0xFE, None, None, {0: 7}, {0: 344064.0}),
    (16, {0: MAX_BF16}, "cann", 0xFF, 0, 0, {}, {}),
    (17, {0: np.inf}, "a6", 0xFF, 0, 0, {}, {0: np.nan, 63: np.nan}),
    (17, {0: np.inf}, "paper", 0xFF, 0, 0, {}, {0: np.nan}),
    (17, {0: np.inf}, "cann", 0xFF, 0, 0, {}, {0: np.nan}),
    (18, {0: np.nan}, "a6", 0xFF, 0, 0, {}, {0: np.nan, 63: np.nan}),
    (18, {0: np.nan}, "paper", 0xFF, 0, 0, {}, {0: np.nan}),
    (18, {0: np.nan}, "cann", 0xFF, 0, 0, {}, {0: np.nan}),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[2]}")
def test_the_eighteen_rows_check_1(backend: str, row: Any) -> None:
    _, entries, rule, ea, eb, ec, codes, values = row
    tensor, got = quantize(entries, rule)
    scales = tensor.scales
    assert isinstance(scales, nm.Hif4Scales)
    for want, have in ((ea, scales.ea), (eb, scales.eb), (ec, scales.ec)):
        assert want is None or have[0] == want
    wanted = np.zeros(64, np.uint8)
    for index, code in codes.items():
        wanted[index] = code
    assert tensor.codes.tolist() == wanted.tolist()
    for index, value in values.items():
        assert same(got[index : index + 1], [value])


@pytest.mark.parametrize("entries", [{0: 2.0**-47}, {0: np.inf}, {0: np.nan}, {3: -np.inf}])
def test_vendor_golden_refuses_what_the_vendor_cannot_do_rows_12_17_18(backend: str, entries: dict[int, float]) -> None:
    with pytest.raises(NumericsError, match="refuses"):
        quantize(entries, "vendor_golden")


def test_inf_saturate_takes_infinity_as_the_largest_bf16_row_17(backend: str) -> None:
    tensor, got = quantize({0: np.inf, 5: -np.inf}, "paper", inf="saturate")
    assert got[0] == 344064
    assert got[5] == -344064
    assert tensor.codes[5] == 15
    assert tensor.scales.ea[0] == 0xFE


def test_keep_neg_zero_row_11(backend: str) -> None:
    tensor, got = quantize({0: -0.0, 1: 1.0}, keep_neg_zero=True)
    assert tensor.codes[0] == 8
    assert np.signbit(got[0])
    assert quantize({0: -0.0, 1: 1.0})[0].codes[0] == 0


def scalar(row: Any, rule: Hif4Rule) -> reference.Block | None:
    try:
        return reference.hif4_quantize(values_of(row), rule)
    except reference.RefusedError:
        return None


def array(row: Any, rule: str, source: str, **switches: Any) -> reference.Block | None:
    try:
        tensor = nm.quantize(row, "hif4", rule=rule, source=source, **switches)
    except NumericsError:
        return None
    scales = tensor.scales
    assert isinstance(scales, nm.Hif4Scales)
    return reference.Block(tuple(tensor.codes.tolist()), (int(scales.ea[0]), int(scales.eb[0]), int(scales.ec[0])))


@pytest.mark.parametrize("source", ["bf16", "native"])
@pytest.mark.parametrize("rule", PROFILES)
def test_profiles_equal_the_scalar_reference(backend: str, rule: str, source: str) -> None:
    rows = awkward_blocks(60, 64, seed=11)
    exact = nm.round_bf16(rows) if source == "bf16" else rows
    for row, taken in zip(rows, exact, strict=True):
        assert array(row, rule, source) == scalar(taken, PROFILES[rule])


SWITCHES: list[dict[str, Any]] = [
    {"scale_tie": "up"}, {"thresholds": "exact"}, {"product": "exact"}, {"element_tie": "away"}, {"zero": "nan"},
    {"under": "nan"}, {"under": "error"}, {"over": "nan"}, {"inf": "saturate"}, {"inf": "error"}, {"nan": "error"},
    {"zero_scale": "nothing"}, {"keep_neg_zero": True},
]  # fmt: skip


@pytest.mark.parametrize("switch", SWITCHES, ids=str)
def test_each_switch_alone_equals_the_scalar_reference(backend: str, switch: dict[str, Any]) -> None:
    rows = nm.round_bf16(awkward_blocks(40, 64, seed=12))
    rule = hif4_rule("a6", switch)
    for row in rows:
        assert array(row, "a6", "bf16", **switch) == scalar(row, rule)


@pytest.mark.parametrize(("place", "plane"), [(8, "eb"), (4, "ec")])
def test_one_binade_of_peaks_flips_27_threshold_bits(place: int, plane: str) -> None:
    """All bf16 peaks in [4, 8) against all smaller sub-maxima down to 1: rounding before the test flips 27 of 49,152
    bits, and every profile gives the same on both backends."""
    peaks = nm.decode(np.arange(0x4080, 0x4100), "bf16")
    others = nm.decode(np.arange(0x3F80, 0x4100), "bf16")
    x = np.zeros((peaks.size, others.size, 64), np.float32)
    x[:, :, 0], x[:, :, place] = peaks[:, None], others
    found = {}
    for backend in ("numpy", "numba") if importlib.util.find_spec("numba") else ("numpy",):
        nm.set_backend(backend)
        for rule in PROFILES:
            found[rule] = nm.quantize(x, "hif4", rule=rule)
            first = found.setdefault(rule + " first", found[rule])
            assert (first.codes == found[rule].codes).all()
            for name in ("ea", "eb", "ec"):
                assert (getattr(first.scales, name) == getattr(found[rule].scales, name)).all()
    flips = getattr(found["a6"].scales, plane) ^ getattr(found["paper_even"].scales, plane)
    assert np.count_nonzero(flips & 2) == 27


elements = st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=64, max_size=64)


@given(row=elements, rule=st.sampled_from(sorted(PROFILES)), source=st.sampled_from(["bf16", "native"]))
def test_any_block_equals_the_scalar_reference(row: list[float], rule: str, source: str) -> None:
    x = np.array(row, np.float32)
    taken = nm.round_bf16(x) if source == "bf16" else x
    assert array(x, rule, source) == scalar(taken, PROFILES[rule])


def test_every_decode_is_exact_and_a_bf16_check_2_a14_a15(backend: str) -> None:
    """All Ea x doublings x codes: equal to the fraction, representable in bf16."""
    ea = np.repeat(np.arange(256, dtype=np.uint8), 4)
    eb = np.tile(np.array([0, 0xFF, 0, 0xFF], np.uint8), 256)
    ec = np.tile(np.array([0, 0, 0xFFFF, 0xFFFF], np.uint16), 256)
    codes = np.tile(np.arange(16, dtype=np.uint8), (1024, 4))
    tensor = nm.BlockTensor(codes, nm.Hif4Scales(ea[:, None], eb[:, None], ec[:, None]), "hif4", 1, (1, 64))
    values = nm.dequantize(tensor)
    for row in range(1024):
        for q in range(16):
            want = reference.hif4_value(q, int(ea[row]), int(eb[row]), int(ec[row]), q)
            got = values[row, q]
            if want.is_nan:
                assert np.isnan(got)
            else:
                assert float(got) == want.exact
                assert np.signbit(got) == want.negative
    finite = ~np.isnan(values)
    assert same(nm.round_bf16(values)[finite], values[finite])
    assert np.abs(values[finite]).max() == 344064
    smallest = np.abs(values[finite & (values != 0)]).min()
    assert smallest == 2.0**-50


@pytest.mark.parametrize("bit", range(8))
def test_eb_bits_double_their_eight_elements_a14(backend: str, bit: int) -> None:
    codes = np.full((1, 64), 5, np.uint8)
    scales = nm.Hif4Scales(
        np.full((1, 1), 0xC0, np.uint8), np.full((1, 1), 1 << bit, np.uint8), np.zeros((1, 1), np.uint16)
    )
    values = nm.dequantize(nm.BlockTensor(codes, scales, "hif4", 1, (1, 64)))[0]
    doubled = np.arange(64) // 8 == bit
    assert (values == np.where(doubled, 2.5, 1.25)).all()


@pytest.mark.parametrize("bit", range(16))
def test_ec_bits_double_their_four_elements_a15(backend: str, bit: int) -> None:
    codes = np.full((1, 64), 3, np.uint8)
    scales = nm.Hif4Scales(
        np.full((1, 1), 0xC0, np.uint8), np.zeros((1, 1), np.uint8), np.full((1, 1), 1 << bit, np.uint16)
    )
    values = nm.dequantize(nm.BlockTensor(codes, scales, "hif4", 1, (1, 64)))[0]
    doubled = np.arange(64) // 4 == bit
    assert (values == np.where(doubled, 1.5, 0.75)).all()


def test_no_eb_bit_is_lost_on_the_way_to_the_cell_a16(backend: str) -> None:
    x = np.full((16, 64), 0.25, np.float32)
    x[:, 32:] = 7.0
    tensor = nm.quantize(x, "hif4")
    scales = tensor.scales
    assert isinstance(scales, nm.Hif4Scales)
    assert (scales.eb == 0xF0).all()
    back = nm.read_scale_cells(nm.scale_cells(scales, "hif4"), 16, 64, "hif4")
    assert isinstance(back, nm.Hif4Scales)
    assert (back.eb == 0xF0).all()
    assert same(nm.decode_operand(tensor.codes, back, "hif4"), nm.dequantize(tensor))
    assert (nm.dequantize(tensor)[:, 32:] == 7).all()


def test_code_zero_is_two_to_the_minus_48_and_code_ff_a_nan_block_check_3(backend: str) -> None:
    codes = np.full((2, 64), 4, np.uint8)
    scales = nm.Hif4Scales(
        np.array([[0x00], [0xFF]], np.uint8), np.zeros((2, 1), np.uint8), np.zeros((2, 1), np.uint16)
    )
    values = nm.dequantize(nm.BlockTensor(codes, scales, "hif4", 1, (1, 64)))
    assert (values[0] == 2.0**-48).all()
    assert (values[1].view(np.uint32) == 0x7FC00000).all()


def test_hif4_with_unit_scales_equals_e1m2_with_unit_scale_a33(backend: str) -> None:
    codes = np.tile(np.arange(16, dtype=np.uint8), (3, 8))
    ones = nm.Hif4Scales(np.full((3, 2), 0xC0, np.uint8), np.zeros((3, 2), np.uint8), np.zeros((3, 2), np.uint16))
    plain = nm.MxScales(np.full((3, 4), 127, np.uint8))
    left = nm.decode_operand(codes, ones, "hif4")
    right = nm.decode_operand(codes, plain, "mxfp4_e1m2")
    assert same(left, right)


@given(st.integers(1, 3), st.integers(1, 200), st.integers(1, 3), st.integers(0, 2))
def test_blocks_lie_along_any_axis(outer: int, k: int, inner: int, axis: int) -> None:
    shape = [outer, inner]
    shape.insert(axis, k)
    x = np.random.default_rng(k).standard_normal(shape).astype(np.float32)
    tensor = nm.quantize(x, "hif4", axis=axis)
    moved = nm.quantize(np.moveaxis(x, axis, -1), "hif4")
    assert tensor.codes.shape == x.shape
    assert tensor.scales.ea.shape[axis] == -(-k // 64)
    assert (np.moveaxis(tensor.codes, axis, -1) == moved.codes).all()
    for name in ("ea", "eb", "ec"):
        assert (np.moveaxis(getattr(tensor.scales, name), axis, -1) == getattr(moved.scales, name)).all()
    assert same(np.moveaxis(nm.dequantize(tensor), axis, -1), nm.dequantize(moved))


def test_quantising_values_of_the_grid_again_changes_nothing_much(backend: str) -> None:
    x = awkward_blocks(64, 64, seed=5, specials=False)
    once = nm.dequantize(nm.quantize(x, "hif4"))
    twice = nm.dequantize(nm.quantize(once, "hif4"))
    thrice = nm.dequantize(nm.quantize(twice, "hif4"))
    settled = (thrice == twice).mean()
    assert settled > 0.9


def test_reference_reciprocals_are_the_table_and_the_rounded_truth() -> None:
    from hwmodel.numerics.hif4 import reciprocal_table

    for ea in range(255):
        assert float(reciprocal_table()[ea]) == reference.hif4_reciprocal(ea)
    assert codec.decode(0x3E12, "bf16").exact == reference.SEVENTH
