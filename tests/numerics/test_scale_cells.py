"""Scale cells of the Cube: built by hand, byte by byte, and there and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodel import numerics as nm
from hwmodel.errors import NumericsError

extents = st.integers(1, 40)


def random_scales(rows: int, groups: int) -> nm.Hif4Scales:
    rng = np.random.default_rng(rows * 41 + groups)
    shape = (rows, groups)
    return nm.Hif4Scales(
        rng.integers(0, 256, shape).astype(np.uint8),
        rng.integers(0, 256, shape).astype(np.uint8),
        rng.integers(0, 65536, shape).astype(np.uint16),
    )


def test_a_hif4_cell_by_hand_a11_a12() -> None:
    ea = np.arange(16, dtype=np.uint8)[:, None]
    eb = ea + 0x40
    ec = ((ea.astype(np.uint16) + 0x80) << 8) | (ea + 0xC0)
    cell = nm.hif4_cells(ea, eb, ec)
    first = [byte for row in range(16) for byte in (row, row + 0x40)]
    second = [byte for row in range(16) for byte in (row + 0xC0, row + 0x80)]
    assert cell.tolist() == first + second


def test_cells_go_row_fractals_first_then_k_a10() -> None:
    scales = random_scales(40, 3)
    cells = nm.hif4_cells(scales.ea, scales.eb, scales.ec).reshape(3, 3, 64)
    for row in range(40):
        for group in range(3):
            cell, at = cells[row // 16, group], 2 * (row % 16)
            assert cell[at] == scales.ea[row, group]
            assert cell[at + 1] == scales.eb[row, group]
            assert int(cell[32 + at]) + 256 * int(cell[33 + at]) == scales.ec[row, group]
    assert (cells[2, :, 16:32] == 0).all()
    assert (cells[2, :, 48:] == 0).all()


def test_one_byte_of_a_cell_changes_one_row_and_one_group_a10(backend: str) -> None:
    x = np.random.default_rng(2).standard_normal((32, 128)).astype(np.float32)
    tensor = nm.quantize(x, "hif4")
    cells = nm.scale_cells(tensor.scales, "hif4")
    whole = nm.decode_operand(tensor.codes, nm.read_scale_cells(cells, 32, 128, "hif4"), "hif4")
    for byte in (0, 1, 2 * 5, 32, 33, 64 + 3, 128 + 7):
        changed = cells.copy()
        changed[byte] ^= 0x04
        found = nm.decode_operand(tensor.codes, nm.read_scale_cells(changed, 32, 128, "hif4"), "hif4")
        rows, columns = np.nonzero(found != whole)
        cell, inside = byte // 64, byte % 64
        assert set(rows) <= {16 * (cell // 2) + inside % 32 // 2}
        assert set(columns // 64) <= {cell % 2}
        assert len(rows) > 0


def test_an_e8m0_cell_by_hand() -> None:
    scales = np.arange(18 * 3, dtype=np.uint8).reshape(18, 3)
    cells = nm.e8m0_cells(scales).reshape(2, 2, 16, 2)
    for row in range(18):
        for group in range(3):
            assert cells[row // 16, group // 2, row % 16, group % 2] == scales[row, group]
    assert (cells[0, 1, :, 1] == 0).all()
    assert (cells[1, :, 2:] == 0).all()


@given(extents, extents)
def test_hif4_cells_are_a_bijection(rows: int, groups: int) -> None:
    scales = random_scales(rows, groups)
    cells = nm.hif4_cells(scales.ea, scales.eb, scales.ec)
    assert cells.size == nm.scale_cell_bytes(rows, 64 * groups, "hif4")
    back = nm.read_hif4_cells(cells, rows, groups)
    for name in ("ea", "eb", "ec"):
        assert (getattr(back, name) == getattr(scales, name)).all()
        assert getattr(back, name).dtype == getattr(scales, name).dtype
    if rows % 16 == 0:
        assert (nm.hif4_cells(back.ea, back.eb, back.ec) == cells).all()


@given(extents, extents)
def test_e8m0_cells_are_a_bijection(rows: int, groups: int) -> None:
    scales = random_scales(rows, groups).ea
    cells = nm.e8m0_cells(scales)
    assert cells.size == nm.scale_cell_bytes(rows, 32 * groups, "mxfp8_e4m3")
    assert (nm.read_e8m0_cells(cells, rows, groups) == scales).all()


@given(extents, st.integers(1, 200), st.sampled_from(["hif4", "mxfp4_e2m1"]), st.sampled_from([-1, 0]))
def test_the_generic_entry_serves_a_and_b(rows: int, k: int, dtype: str, axis: int) -> None:
    shape = (rows, k) if axis == -1 else (k, rows)
    x = np.random.default_rng(k).standard_normal(shape).astype(np.float32)
    tensor = nm.quantize(x, dtype, axis=axis)
    cells = nm.scale_cells(tensor.scales, dtype, axis)
    same_axis = nm.read_scale_cells(cells, rows, k, dtype, axis)
    k_last = nm.read_scale_cells(cells, rows, k, dtype)
    for name in ("ea", "eb", "ec") if dtype == "hif4" else ("e8m0",):
        assert (getattr(same_axis, name) == getattr(tensor.scales, name)).all()
    values = nm.decode_operand(tensor.codes, k_last, dtype, axis)
    assert (values.view(np.uint32) == nm.dequantize(tensor).view(np.uint32)).all()


def test_padding_bytes_do_not_count() -> None:
    x = np.ones((5, 70), np.float32)
    tensor = nm.quantize(x, "mxfp8_e4m3")
    cells = nm.scale_cells(tensor.scales, "mxfp8_e4m3")
    grid = cells.reshape(1, 2, 16, 2)
    grid[0, :, 5:], grid[0, 1, :, 1] = 0xEE, 0xDD
    back = nm.read_scale_cells(grid.reshape(-1), 5, 70, "mxfp8_e4m3")
    assert isinstance(back, nm.MxScales)
    assert isinstance(tensor.scales, nm.MxScales)
    assert (back.e8m0 == tensor.scales.e8m0).all()


def test_wrong_use() -> None:
    scales = random_scales(4, 2)
    with pytest.raises(NumericsError, match="expected 128 bytes"):
        nm.read_hif4_cells(np.zeros(64, np.uint8), 4, 2)
    with pytest.raises(NumericsError, match="expected e8m0"):
        nm.scale_cells(scales, "mxfp8_e4m3")
    with pytest.raises(NumericsError, match="ea, eb and ec"):
        nm.scale_cells(nm.MxScales(scales.ea), "hif4")
    with pytest.raises(NumericsError, match="no block scales"):
        nm.scale_cells(scales, "bf16")
    with pytest.raises(NumericsError, match="one shape"):
        nm.hif4_cells(scales.ea, scales.eb[:2], scales.ec)
    with pytest.raises(NumericsError, match="0 to 255"):
        nm.e8m0_cells(np.full((2, 2), 256))
    with pytest.raises(NumericsError, match="axis"):
        nm.scale_cells(scales, "hif4", axis=2)
    with pytest.raises(NumericsError, match="matrix"):
        nm.e8m0_cells(np.zeros(3, np.uint8))
