"""The format records, and every code decoded as exact fractions say."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from numerics_support import NARROW

from hwmodel import numerics as nm
from hwmodel.numerics import hif4, mx, neuron
from hwmodel.numerics.reference import codec

ML_NAMES = {
    "bf16": "bfloat16",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e4m3_ieee": "float8_e4m3",
    "fp8_e5m2": "float8_e5m2",
    "fp8_e3m4": "float8_e3m4",
    "fp4_e2m1": "float4_e2m1fn",
    "e8m0": "float8_e8m0fnu",
}


@pytest.mark.parametrize("dtype", [*NARROW, "fp16", "bf16"])
def test_every_code_decodes_to_its_exact_value(dtype: str) -> None:
    record = nm.FORMATS[dtype]
    decoded = nm.decode(np.arange(record.code_count), dtype)
    for code, got in enumerate(decoded):
        want = codec.decode(code, dtype)
        if want.is_nan:
            assert np.isnan(got), code
        elif want.is_inf:
            assert got == (-np.inf if want.negative else np.inf), code
        else:
            assert float(got) == want.exact, code
            assert np.signbit(got) == want.negative, code


@pytest.mark.parametrize("dtype", ML_NAMES)
def test_decode_agrees_with_ml_dtypes(dtype: str) -> None:
    record = nm.FORMATS[dtype]
    codes = np.arange(record.code_count).astype(record.numpy_dtype)
    theirs = codes.view(getattr(ml_dtypes, ML_NAMES[dtype])).astype(np.float32)
    np.testing.assert_array_equal(nm.decode(codes, dtype), theirs)


@pytest.mark.parametrize("dtype", [*NARROW, "fp16", "bf16", "fp32"])
def test_the_record_names_the_codes_it_says(dtype: str) -> None:
    record = nm.FORMATS[dtype]
    if record.is_integer:
        assert nm.decode([record.max_code], dtype)[0] == record.max_code
        return
    largest = codec.decode(record.max_code, dtype)
    assert largest.magnitude is not None
    if record.inf_code is not None:
        assert codec.decode(record.inf_code, dtype).is_inf
    if record.nan_code is not None:
        assert codec.decode(record.nan_code, dtype).is_nan
    if record.bits <= 16:
        finite = [codec.decode(code, dtype).magnitude for code in range(record.code_count)]
        assert largest.magnitude == max(each for each in finite if each is not None)


def test_canonical_nan_codes_are_those_that_are_promised() -> None:
    promised = {
        "fp32": 0x7FC00000,
        "bf16": 0x7FC0,
        "fp16": 0x7E00,
        "fp8_e4m3": 0x7F,
        "fp8_e5m2": 0x7E,
        "fp8_e3m4": 0x78,
    }
    for dtype, code in promised.items():
        assert nm.FORMATS[dtype].nan_code == code
        for sign in (1.0, -1.0):
            assert nm.encode(np.float32([np.copysign(np.nan, sign)]), dtype)[0] == code
    assert nm.encode(np.float32([np.nan]), "fp4_e2m1")[0] == 0
    assert nm.encode(np.float32([np.nan]), "hif8")[0] == 0x80


@pytest.mark.parametrize(
    ("dtype", "maximum"),
    [("fp8_e4m3", 448), ("fp8_e4m3_ieee", 240), ("fp8_e5m2", 57344), ("fp8_e3m4", 15.5), ("hif8", 32768),
     ("fp4_e2m1", 6), ("fp4_e1m2", 1.75), ("e6m2", 49152), ("fp16", 65504)],
)  # fmt: skip
def test_maxima_of_the_formats(dtype: str, maximum: float) -> None:
    assert nm.decode([nm.FORMATS[dtype].max_code], dtype)[0] == maximum


def test_fp4_grid_n080() -> None:
    grid = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert nm.decode(np.arange(8), "fp4_e2m1").tolist() == grid
    negative = nm.decode(np.arange(8, 16), "fp4_e2m1")
    assert negative.tolist() == [-each for each in grid]
    assert np.signbit(negative).all()
    assert nm.encode(nm.decode(np.arange(16), "fp4_e2m1"), "fp4_e2m1").tolist() == list(range(16))


def test_e6m2_codes_a13() -> None:
    values = nm.decode(np.arange(256), "e6m2")
    assert values[0xC0] == 1.0
    assert values[0x00] == 2.0**-48
    assert values[0xFE] == 49152
    assert np.isnan(values[0xFF])
    for code in range(255):
        assert values[code] == 2.0 ** ((code >> 2) - 48) * (1 + (code & 3) / 4)


def test_hif8_codes_that_others_get_wrong() -> None:
    # With field widths 0 and 1 one public model decodes 44 codes wrongly; 0x0A is 1.25.
    assert nm.decode([0x0A, 0x6E, 0x6F, 0xEF, 0x00, 0x01, 0x07], "hif8").tolist() == [
        1.25, 32768.0, np.inf, -np.inf, 0.0, 2.0**-22, 2.0**-16,
    ]  # fmt: skip
    assert np.isnan(nm.decode([0x80], "hif8")[0])


def test_e8m0_ends_check_6() -> None:
    values = nm.decode([0x00, 0x7F, 0xFE, 0xFF], "e8m0")
    assert values.view(np.uint32).tolist() == [0x00400000, 0x3F800000, 0x7F000000, 0x7FC00000]


def test_dtype_table_has_what_storage_needs() -> None:
    bits = {name: dtype.storage_bits for name, dtype in nm.DTYPES.items()}
    assert {bits[name] for name in ("hif4", "mxfp4_e2m1", "mxfp4_e1m2", "int4", "fp4_e2m1")} == {4}
    assert {bits[name] for name in ("mxfp8_e4m3", "mxfp8_e5m2", "hif8", "int8", "uint8", "e8m0")} == {8}
    assert {bits[name] for name in ("fp16", "bf16")} == {16}
    assert {bits[name] for name in ("fp32", "int32")} == {32}
    hif4, mx = nm.DTYPES["hif4"].block, nm.DTYPES["mxfp8_e4m3"].block
    assert hif4 is not None
    assert mx is not None
    assert (hif4.group, hif4.element, hif4.scale_cell_bytes, hif4.default_rule) == (64, "fp4_e1m2", 64, "a6")
    assert (mx.group, mx.element, mx.scale_cell_bytes, mx.default_rule) == (32, "fp8_e4m3", 32, "floor")
    assert nm.DTYPES["fp8_e4m3"].block is None
    assert nm.DTYPES["int8"].is_integer
    assert not nm.DTYPES["int8"].is_float
    assert nm.DTYPES["bf16"].numpy_dtype == np.uint16


def test_the_rule_table_names_exactly_the_rules_that_exist() -> None:
    assert set(nm.RULES) == {*mx.RULES, *hif4.PROFILES, *neuron.PRESETS}
    for rule in nm.RULES.values():
        family = {(1, 32): mx.RULES, (1, 64): hif4.PROFILES, (8, 4): neuron.PRESETS}[rule.block]
        assert rule.name in family
        for dtype in rule.dtypes:
            x = np.ones((8, 64), np.float32)
            quantise = nm.quantize_neuron_mx if rule.block == (8, 4) else nm.quantize
            assert quantise(x, dtype, rule=rule.name).block == rule.block
    assert nm.DTYPES["hif4"].block.rules == tuple(hif4.PROFILES)  # type: ignore[union-attr]
    assert set(nm.DTYPES["mxfp4_e1m2"].block.rules) == set(mx.RULES)  # type: ignore[union-attr]


def test_every_rule_of_a_block_dtype_is_in_the_rule_table() -> None:
    for name, dtype in nm.DTYPES.items():
        for rule in dtype.block.rules if dtype.block else ():
            assert name in nm.RULES[rule].dtypes
            assert nm.RULES[rule].summary


def test_all_integer_codes_round_trip() -> None:
    for dtype in ("int8", "uint8", "int4"):
        codes = np.arange(nm.FORMATS[dtype].code_count)
        assert nm.encode(nm.decode(codes, dtype), dtype).tolist() == codes.tolist()
        assert nm.decode_int(codes, dtype).tolist() == nm.decode(codes, dtype).tolist()
    edges = np.array([0, 1, 2**31 - 1, -(2**31), -1], np.int64)
    assert nm.decode_int(nm.encode(edges, "int32"), "int32").tolist() == edges.tolist()


@pytest.mark.parametrize("dtype", [*NARROW, "fp16", "bf16"])
def test_every_code_comes_back_from_its_value(dtype: str) -> None:
    record = nm.FORMATS[dtype]
    codes = np.arange(record.code_count)
    values = nm.decode(codes, dtype)
    back = nm.encode(values, dtype, "ieee")
    keeps = ~np.isnan(values)
    assert (back[keeps] == codes[keeps]).all()
    assert (back[~keeps] == record.nan_code).all()
