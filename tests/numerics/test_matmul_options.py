"""What `matmul` offers beside the order: block tensors, scales on the block, instructions along K, zero points."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numerics_support import bits, fp32, same

from hwmodel import numerics as nm
from hwmodel.errors import NumericsError


def normal(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


PAIRS = [
    ("hif4", "hif4"), ("mxfp4_e2m1", "mxfp4_e2m1"), ("mxfp8_e4m3", "mxfp8_e4m3"), ("mxfp8_e4m3", "mxfp4_e2m1"),
    ("mxfp8_e5m2", "mxfp8_e4m3"), ("mxfp4_e1m2", "mxfp4_e2m1"), ("mxfp8_e4m3", "hif4"), ("mxfp4_e2m1", "hif4"),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_block_tensors_are_products_of_their_values(backend: str, left: str, right: str) -> None:
    a, b = nm.quantize(normal((20, 200), 1), left), nm.quantize(normal((200, 12), 2), right, axis=0)
    values = nm.dequantize(a), nm.dequantize(b)
    run = min(nm.DTYPES[left].group or 0, nm.DTYPES[right].group or 0)
    assert same(nm.matmul(a, b), nm.matmul(*values))
    assert same(nm.matmul(a, b, "group"), nm.matmul(*values, "group", group=run))


def test_a_plain_operand_goes_with_a_block_tensor(backend: str) -> None:
    a, b = normal((4, 100), 1), nm.quantize(normal((100, 6), 2), "hif4", axis=0)
    for kind in (np.float16, ml_dtypes.bfloat16):
        narrow = a.astype(kind)
        assert same(nm.matmul(narrow, b), nm.matmul(narrow.astype(np.float32), nm.dequantize(b)))
    assert same(nm.matmul(a, b, "group"), nm.matmul(a, nm.dequantize(b), "group", group=64))


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_scale_on_block_is_a_scaled_sum_of_elements(backend: str, left: str, right: str) -> None:
    a, b = nm.quantize(normal((7, 150), 3), left), nm.quantize(normal((150, 5), 4), right, axis=0)
    run = min(nm.DTYPES[left].group or 0, nm.DTYPES[right].group or 0)
    want = np.zeros((7, 5), np.float32)
    for start in range(0, 150, run):
        part = nm.BlockTensor, slice(start, start + run)
        x, y = nm.dequantize(a)[:, part[1]].astype(np.float64), nm.dequantize(b)[part[1]].astype(np.float64)
        want = want + (x @ y).astype(np.float32)
    # scales are powers of two or a few bits, and these sums are exact: rounding once gives the same either way
    assert same(nm.matmul(a, b, "group", scale_on="block"), want)


def test_for_hif4_it_does_not_matter_where_the_scale_goes(backend: str) -> None:
    a, b = nm.quantize(normal((9, 256), 5), "hif4"), nm.quantize(normal((256, 8), 6), "hif4", axis=0)
    assert same(nm.matmul(a, b, "group"), nm.matmul(a, b, "group", scale_on="block"))
    assert same(nm.matmul(a, b, "group", scale_on="block"), nm.matmul(a, b, "seq", scale_on="block"))


def test_extreme_scales_on_the_operand_or_on_the_block_n032() -> None:
    """6.0 with scale 0xFE times 0.5 with scale 0x00: infinity on the operand, 3.0 on the block."""

    def tensor(code: int, scale: int, axis: int) -> nm.BlockTensor:
        codes = np.zeros((1, 32) if axis else (32, 1), np.uint8)
        codes.reshape(-1)[0] = code
        return nm.BlockTensor(codes, nm.MxScales(np.full((1, 1), scale, np.uint8)), "mxfp4_e2m1", axis, (1, 32))

    a, b = tensor(7, 0xFE, 1), tensor(1, 0x00, 0)
    assert nm.dequantize(a)[0, 0] == np.inf
    assert nm.matmul(a, b)[0, 0] == np.inf
    for order in nm.ORDERS:
        assert nm.matmul(a, b, order, scale_on="block")[0, 0] == 3.0
    nan = tensor(7, 0xFF, 1)
    assert bits(nm.matmul(nan, b, scale_on="block"))[0, 0] == 0x7FC00000


def test_each_operand_has_its_own_scale_first_n032() -> None:
    six, half = np.zeros((8, 4), np.float32), np.zeros((8, 4), np.float32)
    six[0, 0], half[0, 0] = 6.0, 0.5
    a = nm.dequantize_neuron_mx(six, np.full((1, 1), 254, np.uint8))
    b = nm.dequantize_neuron_mx(half, np.full((1, 1), 0, np.uint8))
    assert nm.matmul(a.T, b)[0, 0] == np.inf


@given(st.integers(1, 5), st.integers(1, 300), st.integers(1, 6), st.integers(1, 130))
def test_k_tile_adds_finished_products_n048(rows: int, k: int, cols: int, tile: int) -> None:
    a, b, acc = normal((rows, k), k), normal((k, cols), tile), normal((rows, cols), 7)
    total = acc
    for start in range(0, k, tile):
        total = total + nm.matmul(a[:, start : start + tile], b[start : start + tile])
    assert same(nm.matmul(a, b, k_tile=tile, acc=acc), total)


def test_k_tiles_differ_from_one_chain_n048(backend: str) -> None:
    a, b = normal((8, 512), 1), normal((512, 8), 2)
    assert not same(nm.matmul(a, b, k_tile=128), nm.matmul(a, b))
    assert same(nm.matmul(a, b, k_tile=512), nm.matmul(a, b))


def test_sums_stay_fp32_n063(backend: str) -> None:
    one, tiny = np.ones((1, 1), np.float32), np.full((1, 1), 2.0**-24, np.float32)
    total = nm.matmul(tiny, one, acc=nm.matmul(tiny, one, acc=one))
    assert total[0, 0] == 1.0


def test_bf16_accumulation_rounds_after_each_instruction(backend: str) -> None:
    """fp32 within an instruction, the bank kept as bf16."""
    a, b, acc = normal((6, 300), 3), normal((300, 5), 4), nm.round_bf16(normal((6, 5), 5))
    total = acc
    for start in range(0, 300, 128):
        total = nm.round_bf16(total + nm.matmul(a[:, start : start + 128], b[start : start + 128]))
    got = nm.matmul(a, b, k_tile=128, accumulate="bf16", acc=acc)
    assert same(got, total)
    assert same(got, nm.round_bf16(got))
    assert same(nm.matmul(a, b, accumulate="bf16"), nm.round_bf16(nm.matmul(a, b)))


def test_zero_points_are_subtracted_in_fp32_n020_n021_n022(backend: str) -> None:
    a = np.random.default_rng(1).integers(0, 256, (3, 20)).astype(np.float32)
    b = np.random.default_rng(2).integers(0, 256, (20, 4)).astype(np.float32)
    for za, zb in ((None, None), (255, None), (None, 7), (3, 200), (0, 0)):
        left = a - np.float32(za or 0)
        right = b - np.float32(zb or 0)
        assert same(nm.matmul(a, b, a_zero=za, b_zero=zb), nm.matmul(left, right))
    zero, ones = np.zeros((1, 2), np.float32), np.ones((2, 1), np.float32)
    assert nm.matmul(zero, ones, a_zero=255)[0, 0] == -510
    assert same(a, np.random.default_rng(1).integers(0, 256, (3, 20)).astype(np.float32))
    with pytest.raises(NumericsError, match="a_zero: expected 0 to 255, not 256"):
        nm.matmul(a, b, a_zero=256)


def test_fp32r_rounds_to_eleven_mantissa_bits_n015() -> None:
    """Convention: half-even to 11 explicit mantissa bits; 10 as an option."""
    ulp = 2.0**-11
    x = np.float32([1 + ulp / 2, 1 + ulp, 1 + 1.5 * ulp, 1 + ulp / 2 - 2.0**-23, 1 + ulp / 2 + 2.0**-23])
    assert nm.round_fp32r(x).tolist() == [1.0, 1 + ulp, 1 + 2 * ulp, 1.0, 1 + ulp]
    assert nm.round_fp32r(-x).tolist() == [-1.0, -1 - ulp, -1 - 2 * ulp, -1.0, -1 - ulp]
    assert nm.round_fp32r(np.float32([1 + ulp]), mantissa_bits=10)[0] == 1.0
    specials = np.array([fp32(0x7F7FFFFF), np.inf, -0.0, fp32(0x00000400), fp32(0x00000001)], np.float32)
    assert bits(nm.round_fp32r(specials)).tolist() == [0x7F800000, 0x7F800000, 0x80000000, 0, 0]
    assert bits(nm.round_fp32r(np.float32([-np.nan])))[0] == 0x7FC00000
    with pytest.raises(NumericsError, match="mantissa_bits"):
        nm.round_fp32r(x, mantissa_bits=24)


@given(st.floats(width=32, allow_nan=False), st.integers(1, 23))
def test_fp32r_is_the_nearest_shorter_number(value: float, mantissa_bits: int) -> None:
    x = np.float32(value)
    got = nm.round_fp32r(x, mantissa_bits)
    step = np.uint32(1 << (23 - mantissa_bits))
    pattern = int(bits(x))
    low = pattern & ~(int(step) - 1) & 0xFFFFFFFF
    assert int(bits(got)) in (low, low + int(step))
    if np.isfinite(got) and np.isfinite(x):
        down, up = float(fp32(low)), float(fp32(low + int(step)))
        assert abs(float(got) - float(x)) == min(abs(down - float(x)), abs(up - float(x)))


def test_integers_are_exact_and_wrap() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(-128, 128, (9, 300)), rng.integers(-8, 8, (300, 7))
    want = (a @ b).astype(np.int32)
    assert (nm.matmul_int(a.astype(np.int8), nm.decode_int(b & 15, "int4")) == want).all()
    u, acc = rng.integers(0, 256, (9, 300)).astype(np.uint8), rng.integers(-(2**31), 2**31, (9, 7)).astype(np.int32)
    got = nm.matmul_int(u, b.astype(np.int8), acc=acc)
    assert got.dtype == np.int32
    assert (got == ((u.astype(np.int64) @ b + acc + 2**31) % 2**32 - 2**31)).all()
    top = nm.matmul_int(np.full((1, 40000), -128, np.int8), np.full((40000, 1), -128, np.int8), np.int32([[2**31 - 1]]))
    assert top[0, 0] == (40000 * 16384 + 2**31 - 1 + 2**31) % 2**32 - 2**31
    with pytest.raises(NumericsError, match="matrix of integers"):
        nm.matmul_int(np.ones((2, 2)), b)
    with pytest.raises(NumericsError, match="8 bits"):
        nm.matmul_int(np.full((2, 2), 300), np.ones((2, 2), np.int8))
    with pytest.raises(NumericsError, match="invalid matrix product"):
        nm.matmul_int(a.astype(np.int8), a.astype(np.int8))
    with pytest.raises(NumericsError, match="acc: expected int32"):
        nm.matmul_int(u, b.astype(np.int8), acc=np.zeros((9, 7)))


def test_blocks_must_lie_along_k() -> None:
    wrong = nm.quantize(np.ones((64, 4), np.float32), "hif4", axis=1)
    right = nm.quantize(np.full((64, 4), 7, np.float32), "hif4", axis=0)
    with pytest.raises(NumericsError, match="b: expected blocks along axis 0"):
        nm.matmul(np.ones((2, 64), np.float32), wrong)
    assert nm.matmul(np.ones((2, 64), np.float32), right).tolist() == [[448.0] * 4] * 2
    neuron = nm.quantize_neuron_mx(np.ones((8, 4), np.float32), "mxfp8_e4m3")
    with pytest.raises(NumericsError, match="8 x 4"):
        nm.matmul(neuron, np.ones((4, 1), np.float32), scale_on="block")
    with pytest.raises(NumericsError, match="none of k_tile"):
        nm.matmul(np.ones((2, 64), np.float32), right, scale_on="block", k_tile=32)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("order", nm.ORDERS)
def test_a_signalling_nan_warns_in_no_order(backend: str, order: str) -> None:
    x = np.full((3, 3), 0x7F800001, np.uint32).view(np.float32)
    assert (bits(nm.matmul(x, x, order, group=2)) == 0x7FC00000).all()  # type: ignore[call-overload]
