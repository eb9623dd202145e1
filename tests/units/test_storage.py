"""Buffers hold bytes: what nobody wrote is 0xFF, a read gets what lies there, in whatever layout it is looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import program_of, scenario, simulated

from hwmodel import numerics as nm
from hwmodel.experiment import global_memory, prepare
from hwmodel.machine import Machine
from hwmodel.program import Part, Tensor, Tile, Window, whole
from hwmodel.tiling import operands as sizes
from hwmodel.units.neuron.storage import CoreMemory
from hwmodel.units.storage import Buffer, Storage, parse, render

HIF4 = sizes.operand_kind("hif4", mx=True)
FP8 = sizes.operand_kind("mxfp8_e4m3", mx=True)
BF16 = sizes.operand_kind("bf16", mx=False)


def codes(rows: int, cols: int, top: int, seed: int = 0) -> np.ndarray[Any, Any]:
    dtype = np.uint8 if top <= 256 else np.uint16
    return np.random.RandomState(seed).randint(0, top, (rows, cols)).astype(dtype)


def test_memory_that_nobody_wrote_is_ff() -> None:
    buffer = Buffer(4096)
    assert buffer.peek(100, 5).tolist() == [0xFF] * 5
    tile = sizes.l1_tile(HIF4, 0, 16, 64, k_axis=1)
    assert (buffer.read(whole(tile)) == 0xF).all()
    assert np.isnan(Buffer(1024).read(whole(sizes.acc_tile(0, 16, 16, "fp32")))).all()  # 0xFFFFFFFF
    scales = Buffer(64).read(whole(sizes.scale_tile(HIF4, "l0a_mx", 0, 16, 64)))
    assert scales.shape == (1, 1, 64)
    assert (scales == 0xFF).all()


def test_output_memory_that_nobody_wrote_is_ff() -> None:
    ready = prepare(scenario(32, 64, 128, tiling={"kind": "n_split", "tile_n": 64}))
    program = program_of(ready)
    last = program.cores[0].instructions[:-1]  # without the last store
    shorter = type(program)(program.tensors, (type(program.cores[0])(0, last),))
    gm = global_memory(ready.scenario.problem, ready.operands)  # type: ignore[arg-type]
    Machine(ready.scenario.arch, shorter, gm).run()
    assert (gm["out"][:, 64:] == 0xFFFF).all()
    full = simulated(32, 64, 128, tiling={"kind": "n_split", "tile_n": 64})
    assert np.array_equal(gm["out"][:, :64], full.outputs["out"][:, :64])


def test_nd_to_nz_in_l1_byte_by_byte_a05() -> None:
    """A [20, 70] of 8 bits: NZ, 16 x 32 bytes a fractal, columns of fractals first; the rest of each is zero."""
    tile = sizes.l1_tile(FP8, 0, 20, 70, k_axis=1)
    assert tile.padded == (32, 128)  # K to 64, as scales cover it
    assert tile.size == 32 * 128
    value = codes(20, 70, 256) | 1  # no zeros
    buffer = Buffer(8192)
    buffer.write(tile, value)
    found = buffer.peek(0, tile.size)
    for row in range(32):
        for col in range(128):
            at = (col // 32) * 32 * 32 + (row // 16) * 512 + (row % 16) * 32 + col % 32
            expected = value[row, col] if row < 20 and col < 70 else 0
            assert found[at] == expected, (row, col)


def test_nd_to_nz_of_four_bits_packs_along_the_row_a05() -> None:
    """B [64, 5] hif4: N to 64 a fractal, two to a byte along N, first in the low nibble, odd width zero filled."""
    tile = sizes.l1_tile(HIF4, 32, 64, 5, k_axis=0)
    assert tile.padded == (64, 64)
    value = codes(64, 5, 15) + 1
    buffer = Buffer(4096)
    buffer.write(tile, value)
    found = buffer.peek(32, tile.size).reshape(64, 32)  # one column of fractals: rows of 32 bytes
    for k in range(64):
        row = [*value[k], *[0] * 59]
        assert found[k].tolist() == [row[2 * i] | row[2 * i + 1] << 4 for i in range(32)]


def test_bf16_in_l1_is_little_endian() -> None:
    tile = sizes.l1_tile(BF16, 0, 16, 16, k_axis=1)
    value = codes(16, 16, 65536)
    buffer = Buffer(512)
    buffer.write(tile, value)
    assert np.array_equal(buffer.peek(0, 512), value.reshape(-1).view(np.uint8))


def test_scale_cells_lie_in_l1_as_in_gm_a06() -> None:
    """Row fractals first, then K: 32 rows x 128 of K are four cells of 64 bytes."""
    tile = sizes.scale_tile(HIF4, "l1", 64, 32, 128)
    cells = np.arange(256, dtype=np.uint8).reshape(2, 2, 64)
    buffer = Buffer(512)
    buffer.write(tile, cells)
    assert np.array_equal(buffer.peek(64, 256), np.arange(256, dtype=np.uint8))
    second = sizes.scale_rows(tile, HIF4, 16, 16)
    assert (second.offset, second.size) == (64 + 128, 128)
    assert np.array_equal(buffer.read(second).reshape(-1), np.arange(128, 256, dtype=np.uint8))


def test_sums_lie_in_16_by_16_fractals_of_4_bytes() -> None:
    tile = sizes.acc_tile(0, 20, 20, "fp32")
    assert (tile.padded, tile.size) == ((32, 32), 4096)
    value = np.arange(400, dtype=np.float32).reshape(20, 20)
    buffer = Buffer(4096)
    buffer.write(tile, value)
    found = buffer.peek(0, 4096).view(np.float32)
    for row, col in ((0, 0), (3, 15), (15, 16), (16, 0), (19, 19)):
        assert found[(col // 16) * 512 + (row // 16) * 256 + (row % 16) * 16 + col % 16] == value[row, col]


def test_a_column_slice_of_nz_is_contiguous() -> None:
    tile = sizes.l1_tile(HIF4, 0, 128, 512, k_axis=0)
    part = sizes.columns(tile, HIF4, 128, 128)
    assert (part.offset, part.size) == (2 * 128 * 32, 2 * 128 * 32)  # two columns of fractals of 128 rows
    value = codes(128, 512, 16)
    buffer = Buffer(tile.size)
    buffer.write(tile, value)
    cut = Tile("l1", part.offset, part.size, "hif4", 128, 128, "NZ", "data", (128, 128))
    assert np.array_equal(parse(cut, buffer.peek(part.offset, part.size)), value[:, 128:256])
    assert np.array_equal(buffer.read(part), value[:, 128:256])


def test_an_overwritten_part_changes_what_is_read() -> None:
    for as_bytes in (False, True):
        buffer = Buffer(8192, as_bytes=as_bytes)
        big = sizes.l1_tile(FP8, 0, 32, 64, k_axis=1)  # column 0: rows 0-15, rows 16-31; column 1
        buffer.write(big, np.full((32, 64), 7, np.uint8))
        small = sizes.l1_tile(BF16, 512, 16, 16, k_axis=1)  # 512 bytes over rows 16-31 of the first 32 columns
        buffer.write(small, np.full((16, 16), 0x0102, np.uint16))
        found = buffer.read(whole(big))
        assert (found[:16] == 7).all()
        assert (found[16:, 32:] == 7).all()
        assert (found[16:, :32:2] == 2).all()
        assert (found[16:, 1:32:2] == 1).all()


def test_the_same_bytes_may_be_read_in_another_layout() -> None:
    buffer = Buffer(4096)
    nz = Tile("l0a", 0, 2048, "mxfp8_e4m3", 32, 64, "NZ", "data", (32, 64))
    zz = nz._replace(layout="ZZ")
    value = codes(32, 64, 256)
    buffer.write(nz, value)
    data = nm.to_layout(value, "NZ", "fp8_e4m3")
    assert np.array_equal(buffer.read(whole(zz)), nm.from_layout(data, 32, 64, "ZZ", "fp8_e4m3"))
    assert not np.array_equal(buffer.read(whole(zz)), value)


def test_a_load_is_a_copy_of_what_gm_holds_then() -> None:
    gm = {"x": np.zeros((16, 32), np.uint8)}
    storage = Storage({"l1": 512}, gm, {"x": Tensor("x", "int8", 16, 32)}, {})
    taken = storage.load(Window("x", 0, 0, 16, 32))
    storage.store(Window("x", 0, 0, 16, 32), np.ones((16, 32), np.uint8))
    assert (taken == 0).all()
    assert (storage.load(Window("x", 0, 0, 16, 32)) == 1).all()


@pytest.mark.parametrize("rows", [1, 2, 128])
def test_what_a_neuron_core_read_stays_as_it_was(rows: int) -> None:
    """A single partition is contiguous, yet no view of it is handed out: others may write it before the matmul ends."""
    memory = CoreMemory({"sbuf": 8}, {}, {}, {})
    tile = Tile("sbuf", 0, 8, "bfloat16", rows, 4, "ND", "data", (rows, 4))
    memory.write(tile, np.full((rows, 4), 0x1234, np.uint16))
    found = memory.read(whole(tile))
    memory.write(tile, np.zeros((rows, 4), np.uint16))
    assert (found == 0x1234).all()


def test_windows_are_relative_to_the_origin_of_the_core() -> None:
    array = np.arange(48, dtype=np.uint8).reshape(6, 8)
    storage = Storage({}, {"x": array}, {"x": Tensor("x", "int8", 6, 8)}, {"x": (2, 3)})
    assert storage.load(Window("x", 1, 1, 2, 2)).tolist() == [[28, 29], [36, 37]]
    assert storage.origin(Window("x", 1, 1, 2, 2)) == (3, 4)


tiles = st.tuples(
    st.sampled_from(["hif4", "mxfp8_e4m3", "bf16"]), st.integers(1, 40), st.integers(1, 150),
    st.integers(0, 24).map(lambda unit: unit * 512), st.sampled_from(["NZ", "ZZ", "ZN", "acc"]),
)  # fmt: skip


@given(st.lists(tiles, min_size=1, max_size=6), st.lists(tiles, min_size=1, max_size=4), st.integers(0, 2**31))
def test_logical_arrays_and_bytes_are_the_same_memory(writes: list[Any], reads: list[Any], seed: int) -> None:
    """Any tiles, overlapping in any way: a buffer that keeps arrays and one that keeps bytes give the same."""
    stream = np.random.RandomState(seed)
    lazy, eager = Buffer(1 << 16), Buffer(1 << 16, as_bytes=True)
    written = []
    for spec in writes:
        tile, value = _made(spec, stream)
        written.append(tile)
        lazy.write(tile, value)
        eager.write(tile, value)
    for tile in [*written, *(_made(spec, stream)[0] for spec in reads)]:
        left, right = lazy.read(whole(tile)), eager.read(whole(tile))
        assert np.array_equal(left.view(np.uint8), right.view(np.uint8))
        rows, cols = -(-tile.rows // 2), -(-tile.cols // 2)
        part = Part(tile, 0, 0, rows, cols, tile.offset, tile.size)
        assert np.array_equal(lazy.read(part).tobytes(), eager.read(part).tobytes())


def _made(spec: Any, stream: np.random.RandomState) -> tuple[Tile, np.ndarray[Any, Any]]:
    dtype, rows, cols, offset, layout = spec
    if layout == "acc":
        tile = sizes.acc_tile(offset, rows, cols, "fp32")
        return tile, stream.randint(0, 2**31, (rows, cols)).astype(np.uint32).view(np.float32)
    kind = sizes.operand_kind(dtype, mx=dtype != "bf16")
    tile = sizes.l1_tile(kind, offset, rows, cols, k_axis=1)
    padded = (-(-rows // 64) * 64, -(-cols // 64) * 64)
    tile = tile._replace(layout=layout, padded=padded, size=padded[0] * padded[1] * kind.bits // 8)
    top = 1 << kind.bits
    return tile, stream.randint(0, top, (rows, cols)).astype(np.uint16 if kind.bits == 16 else np.uint8)


@pytest.mark.parametrize(("space", "layout"), [("l0a", "NZ"), ("l0a", "ZZ"), ("l0b", "ZN")])
def test_rendering_and_parsing_undo_each_other(space: str, layout: str) -> None:
    tile = sizes.l0_tile(HIF4, space, 0, 20, 100, layout)
    value = codes(20, 100, 16)
    data = render(tile, value)
    assert data.size == tile.size
    assert np.array_equal(parse(tile, data), value)
