"""Packing and fractals: against the formula element by element, and there and back for any extent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodel import numerics as nm
from hwmodel.errors import NumericsError

DTYPES = ("hif4", "mxfp8_e4m3", "bf16", "fp32", "int4", "int8", "fp16", "int32")
extents = st.integers(1, 70)


def random_codes(rows: int, cols: int, dtype: str) -> np.ndarray:
    record = nm.DTYPES[dtype]
    top = 1 << record.storage_bits
    return np.random.default_rng(rows * 97 + cols).integers(0, top, (rows, cols)).astype(record.numpy_dtype)


def place(layout: str, row: int, col: int, rows: int, cols: int, bits: int) -> int:
    """Position in elements of (row, col), spelled out for each layout."""
    e32 = 256 // bits
    if layout == "ACC":
        e32, layout = 16, "NZ"
    if layout in ("NZ", "ZZ"):
        high, wide = -(-rows // 16), -(-cols // e32)
        fractal = (col // e32) * high + row // 16 if layout == "NZ" else (row // 16) * wide + col // e32
        return fractal * 16 * e32 + (row % 16) * e32 + col % e32
    high, wide = -(-rows // e32), -(-cols // 16)
    fractal = (row // e32) * wide + col // 16 if layout == "ZN" else (col // 16) * high + row // e32
    return fractal * 16 * e32 + (col % 16) * e32 + row % e32


def element(raw: np.ndarray, index: int, bits: int) -> int:
    if bits == 4:
        return int(raw[index // 2]) >> (4 * (index % 2)) & 0xF
    size = bits // 8
    return int.from_bytes(raw[index * size : (index + 1) * size].tobytes(), "little")


@pytest.mark.parametrize("layout", ["NZ", "ZZ", "ZN", "NN"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_fractals_follow_the_formula(dtype: str, layout: str) -> None:
    bits = nm.DTYPES[dtype].storage_bits
    for rows, cols in ((16, 64), (33, 70), (5, 3), (70, 17)):
        codes = random_codes(rows, cols, dtype)
        raw = nm.to_layout(codes, layout, dtype)
        assert raw.dtype == np.uint8
        assert raw.size == nm.layout_bytes(rows, cols, layout, dtype)
        assert raw.size % 512 == 0
        seen = set()
        for row in range(rows):
            for col in range(cols):
                at = place(layout, row, col, rows, cols, bits)
                seen.add(at)
                assert element(raw, at, bits) == codes[row, col]
        padding = set(range(raw.size * 8 // bits)) - seen
        assert all(element(raw, at, bits) == 0 for at in padding)


def test_accumulator_fractals_are_1024_bytes() -> None:
    sums = np.arange(20 * 40, dtype=np.uint32).reshape(20, 40)
    raw = nm.to_layout(sums, "ACC", "fp32")
    assert raw.size == 2 * 3 * 1024
    for row, col in ((0, 0), (0, 15), (0, 16), (17, 39), (19, 3)):
        assert element(raw, place("ACC", row, col, 20, 40, 32), 32) == sums[row, col]
    assert (nm.from_layout(raw, 20, 40, "ACC", "fp32") == sums).all()


def test_four_bit_b_packs_along_n_in_nz_and_along_k_in_zn() -> None:
    codes = np.zeros((64, 64), np.uint8)
    codes[0, 1], codes[1, 0] = 3, 5
    assert nm.to_layout(codes, "NZ", "hif4")[0] == 0x30
    assert nm.to_layout(codes, "ZN", "hif4")[0] == 0x50


def test_pack_rows_nibbles_and_odd_rows() -> None:
    codes = np.array([[1, 2, 3], [4, 5, 6]], np.uint8)
    assert nm.pack_rows(codes, "hif4").tolist() == [0x21, 0x03, 0x54, 0x06]
    dirty = np.array([0x21, 0xF3, 0x54, 0xA6], np.uint8)
    assert nm.unpack_rows(dirty, 2, 3, "hif4").tolist() == codes.tolist()


def test_pack_rows_is_little_endian() -> None:
    assert nm.pack_rows(np.array([[0x1234]], np.uint16), "bf16").tolist() == [0x34, 0x12]
    assert nm.pack_rows(np.array([[0x12345678]], np.uint32), "fp32").tolist() == [0x78, 0x56, 0x34, 0x12]


@given(extents, extents, st.sampled_from(DTYPES))
def test_packing_is_a_bijection(rows: int, cols: int, dtype: str) -> None:
    codes = random_codes(rows, cols, dtype)
    raw = nm.pack_rows(codes, dtype)
    assert (nm.unpack_rows(raw, rows, cols, dtype) == codes).all()
    assert raw.size == rows * -(-cols * nm.DTYPES[dtype].storage_bits // 8)
    if cols % 2 == 0:
        assert (nm.pack_rows(nm.unpack_rows(raw, rows, cols, dtype), dtype) == raw).all()


@given(extents, extents, st.sampled_from(DTYPES), st.sampled_from(sorted(nm.LAYOUTS)))
def test_layouts_are_bijections(rows: int, cols: int, dtype: str, layout: str) -> None:
    codes = random_codes(rows, cols, dtype)
    raw = nm.to_layout(codes, layout, dtype)
    assert (nm.from_layout(raw, rows, cols, layout, dtype) == codes).all()


@given(st.integers(1, 3), st.integers(1, 3), st.sampled_from(DTYPES), st.sampled_from(["NZ", "ZZ", "ZN", "NN"]))
def test_layouts_of_whole_fractals_permute_bytes(high: int, wide: int, dtype: str, layout: str) -> None:
    """Reading any bytes and writing them again gives the same bytes, so nothing is lost or made up."""
    rows, cols = 64 * high, 64 * wide
    size = nm.layout_bytes(rows, cols, layout, dtype)
    raw = np.random.default_rng(high).integers(0, 256, size).astype(np.uint8)
    assert (nm.to_layout(nm.from_layout(raw, rows, cols, layout, dtype), layout, dtype) == raw).all()


def test_padding_is_ignored_when_read() -> None:
    codes = random_codes(5, 7, "mxfp8_e4m3")
    raw = nm.to_layout(codes, "NZ", "mxfp8_e4m3")
    full = nm.from_layout(raw, 16, 32, "NZ", "mxfp8_e4m3")
    full[5:], full[:, 7:] = 0xAA, 0x55
    assert (nm.from_layout(nm.to_layout(full, "NZ", "mxfp8_e4m3"), 5, 7, "NZ", "mxfp8_e4m3") == codes).all()


def test_strided_codes_pack_like_copies() -> None:
    codes = random_codes(32, 64, "bf16")
    assert (nm.pack_rows(codes.T, "bf16") == nm.pack_rows(codes.T.copy(), "bf16")).all()
    assert (nm.to_layout(codes[:, ::2], "ZZ", "bf16") == nm.to_layout(codes[:, ::2].copy(), "ZZ", "bf16")).all()


def test_packed_bytes_are_a_copy() -> None:
    codes = random_codes(4, 4, "fp32")
    before = codes.copy()
    nm.pack_rows(codes, "fp32")[:] = 0
    assert (codes == before).all()


def test_wrong_sizes_and_shapes() -> None:
    with pytest.raises(NumericsError, match="expected 8 bytes, not 7"):
        nm.unpack_rows(np.zeros(7, np.uint8), 4, 4, "hif4")
    with pytest.raises(NumericsError, match="matrix"):
        nm.pack_rows(np.zeros(4, np.uint8), "hif4")
    with pytest.raises(NumericsError, match="unknown layout 'NZZ', did you mean"):
        nm.to_layout(np.zeros((4, 4), np.uint8), "NZZ", "hif4")
    with pytest.raises(NumericsError, match="uint8"):
        nm.from_layout(np.zeros(512, np.int8), 16, 64, "NZ", "hif4")
    with pytest.raises(NumericsError, match="0 to 15, not 16"):
        nm.pack_rows(np.full((2, 2), 16, np.uint8), "hif4")
