"""What every dtype promises: its codes survive, its bytes have their size, its blocks and cells undo themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hwmodel import numerics as nm
from hwmodel.config.arch import load_arch
from hwmodel.config.resources import shipped_archs
from hwmodel.errors import NumericsError
from hwmodel.numerics.reference import codec

PLAIN = [name for name, dtype in nm.DTYPES.items() if dtype.block is None]
BLOCKS = [name for name, dtype in nm.DTYPES.items() if dtype.block is not None]
FLOATS = [name for name in PLAIN if nm.DTYPES[name].is_float and nm.DTYPES[name].storage_bits <= 16]
Array = np.ndarray[Any, Any]


def every_code(name: str) -> Array:
    record = nm.DTYPES[name]
    return np.arange(1 << record.storage_bits).astype(record.numpy_dtype)


def values(rows: int, cols: int) -> Array:
    return np.random.RandomState(rows).uniform(-3, 3, (rows, cols)).astype(np.float32)


def test_the_table_is_complete() -> None:
    for name, dtype in nm.DTYPES.items():
        assert dtype.name == name
        assert dtype.summary
        assert dtype.storage_bits in (4, 8, 16, 32)
        assert dtype.numpy_dtype.kind in "ui"
        assert dtype.is_float != dtype.is_integer
        assert (dtype.group is None) == (dtype.block is None)


@pytest.mark.parametrize("name", FLOATS)
def test_every_code_decodes_as_the_scalar_reference_says_and_encodes_back(name: str) -> None:
    codes = every_code(name)
    decoded = nm.decode(codes, name)
    again = nm.encode(decoded, name, overflow="ieee")
    for code, value, back in zip(codes.tolist(), decoded.tolist(), again.tolist(), strict=True):
        exact = codec.decode(code, name)
        if exact.magnitude is None and not exact.is_inf:
            assert np.isnan(value), code
        else:
            assert codec.from_float(value) == exact, code
            assert nm.decode(np.array([back], codes.dtype), name)[0] == value, code


@pytest.mark.parametrize("name", FLOATS)
def test_encoding_is_monotone(name: str) -> None:
    grid = np.sort(nm.decode(every_code(name), name))
    grid = grid[np.isfinite(grid)]
    between = ((grid[:-1].astype(np.float64) + grid[1:]) / 2).astype(np.float32)
    line = np.sort(np.concatenate([grid, between]))
    assert (np.diff(nm.decode(nm.encode(line, name), name)) >= 0).all()


@pytest.mark.parametrize("name", list(nm.DTYPES))
def test_packed_rows_have_their_size_and_come_back(name: str) -> None:
    record = nm.DTYPES[name]
    top = 1 << min(record.storage_bits, 16)
    for rows, cols in ((1, 1), (3, 5), (16, 64), (17, 33)):
        codes = np.random.RandomState(cols).randint(0, top, (rows, cols)).astype(record.numpy_dtype)
        data = nm.pack_rows(codes, name)
        assert data.size == rows * -(-cols * record.storage_bits // 8)
        assert np.array_equal(nm.unpack_rows(data, rows, cols, name), codes)
        for layout in nm.LAYOUTS:
            data = nm.to_layout(codes, layout, name)
            assert data.size == nm.layout_bytes(rows, cols, layout, name)
            assert np.array_equal(nm.from_layout(data, rows, cols, layout, name), codes)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_quantise_once_and_stay(name: str, axis: int) -> None:
    block = nm.DTYPES[name].block
    assert block is not None
    for rule in block.rules:
        first = nm.quantize(values(40, 200) if axis else values(200, 40), name, axis=axis, rule=rule)
        exact = nm.dequantize(first)
        assert exact.dtype == np.float32
        assert first.codes.shape == exact.shape
        again = nm.dequantize(nm.quantize(exact, name, axis=axis, rule=rule))
        third = nm.dequantize(nm.quantize(again, name, axis=axis, rule=rule))
        assert np.array_equal(third, again), rule  # a fixed point is reached, whatever the rule's scale choice
        assert np.abs(exact - (values(40, 200) if axis else values(200, 40))).max() < 1, rule


@pytest.mark.parametrize("name", BLOCKS)
def test_scale_cells_have_their_size_and_come_back(name: str) -> None:
    block = nm.DTYPES[name].block
    assert block is not None
    for rows, k in ((1, 1), (16, 64), (17, 65), (40, 200)):
        tensor = nm.quantize(values(rows, k), name, axis=1)
        cells = nm.scale_cells(tensor.scales, name, 1)
        assert cells.size == nm.scale_cell_bytes(rows, k, name) == -(-rows // 16) * -(-k // 64) * block.scale_cell_bytes
        back = nm.read_scale_cells(cells, rows, k, name, 1)
        for field in type(back).__dataclass_fields__:
            assert np.array_equal(getattr(back, field), getattr(tensor.scales, field))


@pytest.mark.parametrize("name", BLOCKS)
def test_every_rule_of_a_block_dtype_serves_it(name: str) -> None:
    block = nm.DTYPES[name].block
    assert block is not None
    assert block.default_rule in block.rules
    for rule in block.rules:
        assert name in nm.RULES[rule].dtypes
    with pytest.raises(NumericsError, match="rule"):
        nm.quantize(values(1, 64), name, rule="no_such_rule")


def test_machines_name_dtypes_of_the_table_and_have_a_rate_for_their_pairs() -> None:
    for name in shipped_archs():
        arch = load_arch(name)
        for a, b in (*arch.spec.operand_pairs.mx, *arch.spec.operand_pairs.plain):
            assert {a, b} <= set(nm.DTYPES), (name, a, b)
        for a, b in arch.spec.operand_pairs.mx:
            assert arch.peak_macs_per_cycle(a, b) > 0, (name, a, b)
            assert nm.DTYPES[a].block or nm.DTYPES[b].block, (name, a, b)
