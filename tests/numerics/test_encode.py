"""Encode against the scalar reference: every bf16 and fp16 input, every rounding midpoint and its neighbours."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from numerics_support import FLOATS, NARROW

from hwmodel import numerics as nm
from hwmodel.numerics.reference import codec

MODES = ("saturate", "ieee")


@cache
def source_values(source: str) -> tuple[codec.Value, ...]:
    return tuple(codec.decode(code, source) for code in range(65536))


@pytest.mark.parametrize("source", ["bf16", "fp16"])
@pytest.mark.parametrize("dtype", NARROW)
def test_all_16_bit_inputs_to_every_narrow_format_check_4(dtype: str, source: str) -> None:
    """Every bf16 and fp16 input, both overflow modes, as codes, as fp32 and as float64."""
    codes = np.arange(65536, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        fp32 = nm.decode(codes, source)
        wide = fp32.astype(np.float64)
    record = nm.FORMATS[dtype]
    top = {record.max_code, record.max_code | record.sign_bit}
    want = np.array([codec.encode(value, dtype, "saturate") for value in source_values(source)])
    for overflow in MODES if not record.saturates_always else MODES[:1]:
        if overflow == "ieee":  # differs only where the other mode gave the largest code
            for code in np.flatnonzero(np.isin(want, list(top))):
                want[code] = codec.encode(source_values(source)[code], dtype, "ieee")
        for got in (
            nm.convert(codes, source, dtype, overflow),
            nm.encode(fp32, dtype, overflow),
            nm.encode(wide, dtype, overflow),
        ):
            assert np.flatnonzero(got != want).tolist() == []


@pytest.mark.parametrize("overflow", MODES)
@pytest.mark.parametrize(("source", "dtype"), [("fp16", "bf16"), ("bf16", "fp16")])
def test_all_16_bit_inputs_between_the_16_bit_formats(source: str, dtype: str, overflow: str) -> None:
    want = [codec.encode(value, dtype, overflow) for value in source_values(source)]
    assert nm.convert(np.arange(65536, dtype=np.uint16), source, dtype, overflow).tolist() == want


def midpoints(dtype: str) -> list[Fraction]:
    """Midpoints between neighbouring magnitudes, the one past the maximum included."""
    if nm.FORMATS[dtype].is_integer:
        return [Fraction(2 * n + 1, 2) for n in range(nm.FORMATS[dtype].max_code + 2)]
    grid, _, beyond = codec._positive_grid(dtype)
    ends = [*grid, beyond]
    return [(low + high) / 2 for low, high in itertools.pairwise(ends)]


@pytest.mark.parametrize("dtype", NARROW)
def test_midpoints_and_their_neighbours_check_5_n084_n086(dtype: str) -> None:
    """fp32 and float64: the midpoint itself and one step to either side, both signs, both modes."""
    middle = np.array([float(each) for each in midpoints(dtype)])
    assert all(Fraction(float(each)) == exact for each, exact in zip(middle, midpoints(dtype), strict=True))
    for kind in (np.float32, np.float64):
        with np.errstate(over="ignore"):
            centre = middle.astype(kind)
        near = np.concatenate([centre, np.nextafter(centre, kind(0)), np.nextafter(centre, kind(np.inf))])
        inputs = np.concatenate([near, -near])
        for overflow in MODES:
            want = [codec.encode(codec.from_float(float(x)), dtype, overflow) for x in inputs]
            assert nm.encode(inputs, dtype, overflow).tolist() == want


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_midpoints_of_the_16_bit_formats(dtype: str) -> None:
    """All midpoints of positive neighbours and both fp32 neighbours; the reference on every seventh."""
    codes = np.arange(nm.FORMATS[dtype].max_code, dtype=np.uint16)
    low, high = (nm.decode(codes + np.uint16(step), dtype).astype(np.float64) for step in (0, 1))
    middle = ((low + high) / 2).astype(np.float32)
    even = codes + (codes & 1)
    assert (nm.encode(middle, dtype) == even).all()
    assert (nm.encode(np.nextafter(middle, np.float32(0)), dtype) == codes).all()
    assert (nm.encode(np.nextafter(middle, np.float32(np.inf)), dtype) == codes + 1).all()
    assert (nm.encode(-middle, dtype) == even | 0x8000).all()
    for x, got in zip(middle[::7], nm.encode(middle, dtype)[::7], strict=True):
        assert codec.encode(codec.from_float(float(x)), dtype) == got


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", *FLOATS])
def test_float64_is_rounded_once(dtype: str) -> None:
    """A hair beside a midpoint, far below what fp32 can see."""
    rng = np.random.default_rng(3)
    base = nm.decode(rng.integers(0, nm.FORMATS[dtype].max_code, 300), dtype).astype(np.float64)
    up = np.array([float(abs(x)) for x in base])
    code = nm.encode(up.astype(np.float32), dtype).astype(np.int64)
    above = nm.decode(np.minimum(code + 1, nm.FORMATS[dtype].max_code), dtype).astype(np.float64)
    middle = (up + above) / 2
    inputs = np.concatenate([middle * (1 + sign * 2.0**-52) for sign in (-1, 0, 1)] + [[1e300, -1e300, 1e-300]])
    want = [codec.encode(codec.from_float(float(x)), dtype, "ieee") for x in inputs]
    assert nm.encode(inputs, dtype, "ieee").tolist() == want


@pytest.mark.parametrize("nan", ["keep", "max"])
@pytest.mark.parametrize("dtype", [*NARROW, "fp16", "bf16", "fp32"])
def test_specials_by_each_formats_rule(dtype: str, nan: str) -> None:
    specials = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38]
    for overflow in MODES:
        want = [codec.encode(codec.from_float(x), dtype, overflow, nan) for x in specials]
        assert nm.encode(np.float32(specials), dtype, overflow, nan).tolist() == want
        assert nm.encode(np.float64(specials), dtype, overflow, nan).tolist() == [
            codec.encode(codec.from_float(x), dtype, overflow, nan) for x in specials
        ]


def test_fp4_overflow_n082_n083() -> None:
    assert nm.encode([8, 1e30, np.inf, 6.5, 7, 7.999], "fp4_e2m1").tolist() == [7] * 6
    assert nm.encode([-8, -1e30, -np.inf, -6.5, -7, -7.999], "fp4_e2m1").tolist() == [15] * 6


def test_fp4_ties_n084_n085() -> None:
    ties = np.float32([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5])
    assert nm.decode(nm.encode(ties, "fp4_e2m1"), "fp4_e2m1").tolist() == [0, 1, 1, 2, 2, 4, 4]
    below, above = np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(9))
    assert nm.decode(nm.encode(below, "fp4_e2m1"), "fp4_e2m1").tolist() == [0, 0.5, 1, 1.5, 2, 3, 4]
    assert nm.decode(nm.encode(above, "fp4_e2m1"), "fp4_e2m1").tolist() == [0.5, 1, 1.5, 2, 3, 4, 6]


def test_fp8_saturates_n078_n086() -> None:
    assert nm.encode([448, 449, 1e4, np.inf], "fp8_e4m3").tolist() == [0x7E] * 4
    assert nm.encode([-449, -1e4, -np.inf], "fp8_e4m3").tolist() == [0xFE] * 3
    assert nm.encode([57344, 57345, 1e6, np.inf], "fp8_e5m2").tolist() == [0x7B] * 4
    assert nm.encode([-57345, -1e6, -np.inf], "fp8_e5m2").tolist() == [0xFB] * 3


def test_hif8_edges_check_8() -> None:
    tiny = 2.0**-23
    assert nm.encode([tiny, tiny * 0.999, -tiny, 40959, 40960], "hif8", "ieee").tolist() == [0x01, 0, 0x81, 0x6E, 0x6F]
    assert nm.encode([40960, np.inf, -np.inf], "hif8", "saturate").tolist() == [0x6E, 0x6E, 0xEE]
    codes = np.arange(256)
    values = nm.decode(codes, "hif8")
    assert (nm.encode(values, "hif8", "ieee") == codes).all()
    assert nm.encode(np.float32([-0.0, -1e-30]), "hif8").tolist() == [0, 0]


def test_e8m0_ties_go_up_because_no_neighbour_is_even() -> None:
    assert nm.encode([1.5, 3.0, 0.75, 1.9], "e8m0").tolist() == [128, 129, 127, 128]
    assert nm.encode([0.0, -0.0, 2.0**-140, -1.0], "e8m0").tolist() == [0, 0, 0, 0xFF]
    assert nm.encode([1e300], "e8m0").tolist() == [0xFE]
    assert nm.encode([1e300], "e8m0", "ieee").tolist() == [0xFF]


def test_sources_are_taken_exactly() -> None:
    x = np.float32([0.1, -3.7, 1e6, 0.0078125])
    for kind in (np.float16, ml_dtypes.bfloat16):
        with np.errstate(over="ignore"):
            narrow = x.astype(kind)
        for dtype in ("fp8_e4m3", "bf16", "fp16", "int8", "fp32"):
            assert (nm.encode(narrow, dtype) == nm.encode(narrow.astype(np.float32), dtype)).all()
    fp8 = np.float32([0.1, 3]).astype(ml_dtypes.float8_e4m3fn)
    assert (nm.encode(fp8, "fp8_e4m3") == fp8.view(np.uint8)).all()
    assert nm.encode([1, 2, 300], "int8").tolist() == [1, 2, 127]
    assert nm.encode(x.astype(">f4"), "bf16").tolist() == nm.encode(x, "bf16").tolist()


def test_shapes_and_strides_are_kept() -> None:
    x = np.arange(-30, 30, dtype=np.float32).reshape(3, 4, 5)
    for view in (x, x.T, x[::2, ::-1], x[0, 0, 0]):
        codes = nm.encode(view, "fp8_e5m2")
        assert codes.shape == view.shape
        assert (nm.decode(codes, "fp8_e5m2") == view).sum() == (np.abs(view) < 1000).sum() - _inexact(view)


def _inexact(view: np.ndarray) -> int:
    return int((nm.decode(nm.encode(view, "fp8_e5m2"), "fp8_e5m2") != view).sum())


def test_convert_between_narrow_formats_and_integers() -> None:
    codes = np.arange(256, dtype=np.uint8)
    assert (
        nm.convert(codes, "fp8_e4m3", "bf16", "ieee") == nm.encode(nm.decode(codes, "fp8_e4m3"), "bf16", "ieee")
    ).all()
    sums = np.array([16777217, -5, 300], np.int32)
    assert nm.convert(sums, "int32", "int8").tolist() == [127, 251, 127]
    assert nm.convert(sums, "int32", "fp32").view(np.float32).tolist() == [16777216.0, -5.0, 300.0]


@pytest.mark.parametrize("target", ["fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1"])
@pytest.mark.parametrize("source", ["fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e4m3_ieee", "fp8_e5m2", "fp8_e3m4"])
def test_convert_keeps_the_sign_of_a_nan_taken_as_the_maximum(source: str, target: str) -> None:
    record, goal = nm.FORMATS[source], nm.FORMATS[target]
    assert record.nan_code is not None
    got = nm.convert([record.nan_code, record.nan_code | record.sign_bit], source, target, nan="max")
    assert got.tolist() == [goal.max_code, goal.max_code | goal.sign_bit]


def test_fp64_is_rounded_once_to_fp32r_and_bf16() -> None:
    """Just above a midpoint of the goal, by less than fp32 sees: through fp32 it would be a tie."""
    for mantissa_bits in range(24):
        above = 1 + 2.0 ** -(mantissa_bits + 1) + 2.0**-40
        x = np.array([above, -above, 2.0**-120 * above, 2 - 2.0**-40])
        ulp = 2.0**-mantissa_bits
        wanted = [1 + ulp, -1 - ulp, 2.0**-120 * (1 + ulp), 2.0]
        assert nm.round_fp32r(x, mantissa_bits).tolist() == wanted
    assert nm.round_bf16([1 + 2.0**-8 + 2.0**-40]).tolist() == [1 + 2.0**-7]
    smallest = 2.0**-137 * (1 + 2.0**-30)  # just above half of fp32r's smallest subnormal, 2^-126-11
    assert nm.round_fp32r([smallest / 2, 2.0**-138, np.inf, 1e300]).tolist() == [2.0**-137, 0.0, np.inf, np.inf]
    assert np.isnan(nm.round_fp32r([np.nan])).all()
