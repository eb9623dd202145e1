"""The cast on the way out of the accumulator."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numerics_support import bits, fp32

from hwmodel import numerics as nm
from hwmodel.errors import NumericsError
from hwmodel.numerics.reference import codec

SPECIALS = np.array([np.inf, -np.inf, np.nan, -np.nan, 1e38, -1e38, 0.0, -0.0], np.float32)


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


def test_bf16_half_even_without_saturation_a09() -> None:
    ties = f32(1 + 2.0**-8, 1 + 3 * 2.0**-8, -(1 + 2.0**-8), fp32(0x7F7F8000), fp32(0x7F7F7FFF))
    assert nm.cast_out(ties, "bf16").tolist() == [0x3F80, 0x3F82, 0xBF80, 0x7F80, 0x7F7F]
    assert nm.cast_out(SPECIALS, "bf16").tolist()[:4] == [0x7F80, 0xFF80, 0x7FC0, 0x7FC0]
    assert nm.cast_out(f32(fp32(0x7F7F8000)), "bf16", saturate=True).tolist() == [0x7F7F]


@pytest.mark.parametrize(
    ("saturate", "codes"),
    [
        (None, [0x7C00, 0xFC00, 0x7E00, 0x7E00, 0x7C00, 0xFC00, 0x0000, 0x8000]),
        (False, [0x7C00, 0xFC00, 0x7E00, 0x7E00, 0x7C00, 0xFC00, 0x0000, 0x8000]),
        (True, [0x7C00, 0xFC00, 0x7E00, 0x7E00, 0x7BFF, 0xFBFF, 0x0000, 0x8000]),
        ("inf", [0x7BFF, 0xFBFF, 0x0000, 0x0000, 0x7BFF, 0xFBFF, 0x0000, 0x8000]),
    ],
)
def test_fp16_with_and_without_saturation(saturate: Any, codes: list[int]) -> None:
    assert nm.cast_out(SPECIALS, "fp16", saturate=saturate).tolist() == codes


@pytest.mark.parametrize(
    ("dtype", "plain", "ieee", "all_in"),
    [
        ("fp8_e4m3", [0x7E, 0xFE, 0x7F, 0x7F], [0x7F, 0x7F, 0x7F, 0x7F], [0x7E, 0xFE, 0, 0]),
        ("fp8_e5m2", [0x7B, 0xFB, 0x7E, 0x7E], [0x7C, 0xFC, 0x7E, 0x7E], [0x7B, 0xFB, 0, 0]),
        ("fp8_e3m4", [0x6F, 0xEF, 0x78, 0x78], [0x70, 0xF0, 0x78, 0x78], [0x6F, 0xEF, 0, 0]),
        ("hif8", [0x6E, 0xEE, 0x80, 0x80], [0x6F, 0xEF, 0x80, 0x80], [0x6E, 0xEE, 0, 0]),
        ("fp4_e2m1", [0x7, 0xF, 0x0, 0x0], [0x7, 0xF, 0x0, 0x0], [0x7, 0xF, 0, 0]),
    ],
)
def test_narrow_floats(dtype: str, plain: list[int], ieee: list[int], all_in: list[int]) -> None:
    for saturate, want in ((None, plain), (True, plain), (False, ieee), ("inf", all_in)):
        assert nm.cast_out(SPECIALS, dtype, saturate=saturate)[:4].tolist() == want  # type: ignore[arg-type]


def test_hif8_rounds_half_away() -> None:
    assert nm.cast_out(f32(1.0625, -1.0625, 40959, 40960), "hif8").tolist() == [0x09, 0x89, 0x6E, 0x6E]
    assert nm.cast_out(f32(40960), "hif8", saturate=False).tolist() == [0x6F]


def test_fp32_and_int32_pass_with_canonical_nan() -> None:
    assert nm.cast_out(SPECIALS, "fp32").tolist() == [
        0x7F800000, 0xFF800000, 0x7FC00000, 0x7FC00000, *bits(SPECIALS)[4:].tolist()
    ]  # fmt: skip
    sums = np.array([5, -7, 2**31 - 1, -(2**31)], np.int32)
    assert (nm.cast_out(sums, "int32").view(np.int32) == sums).all()
    assert nm.cast_out(sums, "int32", relu=True).view(np.int32).tolist() == [5, 0, 2**31 - 1, 0]


def test_relu_comes_before_the_quantisation() -> None:
    x = f32(-3.0, -0.0, 2.0, np.nan, -np.inf)
    assert nm.cast_out(x, "bf16", relu=True).tolist() == [0, 0, 0x4000, 0x7FC0, 0]
    assert nm.cast_out(x[:3], "int8", relu=True, scale=-1.0).tolist() == [0, 0, 254]
    assert nm.cast_out(x[:3], "int8", relu=True, offset=10).tolist() == [10, 10, 12]


def test_int8_with_scalar_scale_and_offset() -> None:
    x = f32(0.5, 1.5, -0.5, 2.5, 300, -300)
    assert nm.decode_int(nm.cast_out(x, "int8"), "int8").tolist() == [0, 2, 0, 2, 127, -128]
    assert nm.decode_int(nm.cast_out(x, "uint8"), "uint8").tolist() == [0, 2, 0, 2, 255, 0]
    assert nm.decode_int(nm.cast_out(x, "int8", scale=0.25, offset=3), "int8").tolist() == [3, 3, 3, 4, 78, -72]
    assert nm.decode_int(nm.cast_out(x, "uint8", offset=511), "uint8").tolist() == [255, 255, 255, 255, 255, 211]


def test_a_scalar_scale_keeps_all_bits_and_a_channel_scale_ten() -> None:
    """23 explicit mantissa bits against 10; the rest of a channel's scale is cut off."""
    fine = 1 + 2.0**-11
    x = f32(1.0, 1.0)
    assert nm.cast_out(x, "fp32", scale=fine).view(np.float32).tolist() == [fine, fine]
    assert nm.cast_out(x, "fp32", scale=[fine, 1 + 2.0**-10]).view(np.float32).tolist() == [1.0, 1 + 2.0**-10]
    channels = np.array([[1.0, 2.0, 3.0]], np.float32) * np.ones((4, 1), np.float32)
    got = nm.decode_int(nm.cast_out(channels, "int8", scale=[1.0, 0.5, -4.0]), "int8")
    assert got.tolist() == [[1, 1, -12]] * 4


def test_int32_sums_become_fp32_before_scaling() -> None:
    sums = np.array([16777217, -300, 77], np.int32)
    assert nm.decode_int(nm.cast_out(sums, "int8", scale=2.0**-18), "int8").tolist() == [64, 0, 0]
    assert nm.cast_out(sums, "fp32").view(np.float32).tolist() == [16777216.0, -300.0, 77.0]
    assert nm.cast_out(sums, "bf16").tolist() == nm.encode(sums.astype(np.float32), "bf16").tolist()
    assert nm.cast_out(sums, "fp16", scale=0.5).tolist() == [0x7C00, 0xD8B0, 0x50D0]


@given(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.floats(width=32, min_value=-4, max_value=4),
    st.integers(0, 511),
)
def test_int8_equals_one_rounding_a_step(value: float, scale: float, offset: int) -> None:
    """fp32 product, fp32 sum, half-even, clip: each on exact fractions."""

    def once(number: Fraction) -> Fraction | None:
        found = codec.decode(codec.encode(codec.finite(number), "fp32", "ieee"), "fp32")
        return None if found.magnitude is None else found.exact

    product = once(Fraction(value) * Fraction(scale))
    if product is None:
        return
    total = once(product + offset)
    assert total is not None
    want = min(max(round(total), -128), 127)
    got = nm.decode_int(nm.cast_out(f32(value), "int8", scale=np.float32(scale), offset=offset), "int8")
    assert got.tolist() == [want]


def test_shape_is_kept_and_layout_does_not_matter() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert nm.cast_out(x, "bf16").shape == (2, 3, 4)
    assert (nm.cast_out(x.T, "int8") == nm.cast_out(x, "int8").T).all()


def test_wrong_use() -> None:
    x = f32(1.0, 2.0)
    for call, message in (
        (lambda: nm.cast_out(x, "bf16", offset=3), "only integer outputs"),
        (lambda: nm.cast_out(x, "int8", offset=512), "0 to 511"),
        (lambda: nm.cast_out(x, "int8", offset=-1), "0 to 511"),
        (lambda: nm.cast_out(x, "int8", scale=[1.0, 2.0, 3.0]), "scale: expected a number or one a channel"),
        (lambda: nm.cast_out(x, "int8", saturate="all"), "saturate: expected"),  # type: ignore[arg-type]
        (lambda: nm.cast_out(x, "bf61"), "did you mean 'bf16'"),
    ):
        with pytest.raises(NumericsError, match=message):
            call()
