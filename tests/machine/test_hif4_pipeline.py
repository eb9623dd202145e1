"""HiF4 through the whole pipeline, from packed bytes: scale levels, cells, pairs. Values are worked out by hand.

With B the identity (code 4 is 1.0, Ea 0xC0 is 1.0) the output is A as the Cube decodes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import prepared, program_of, simulated, timeline, write_packed

from hwmodel import numerics as nm
from hwmodel.errors import InputError
from hwmodel.inputs import Operand
from hwmodel.result import Result
from hwmodel.scenario import load

ONE, E_ONE = 4, 0xC0
Array = np.ndarray[Any, Any]


def cells(rows: int, groups: int) -> Array:
    """Scale cells that say 1.0: [rows/16, groups, 64], (Ea, Eb) of 16 rows, then (Ec low, Ec high)."""
    array = np.zeros((-(-rows // 16), groups, 64), np.uint8)
    array[:, :, 0:32:2] = E_ONE
    return array


def identity() -> Operand:
    return Operand("hif4", 0, (np.eye(64) * ONE).astype(np.uint8), cells=cells(64, 1).reshape(-1))


def decoded(folder: Path, codes: Array, scales: Array) -> Array:
    """What the machine makes of A = (codes, scale cells) times the identity."""
    a = Operand("hif4", 1, codes.astype(np.uint8), cells=scales.reshape(-1))
    inputs = {"a": write_packed(folder, a, "hif4", "a"), "b": write_packed(folder, identity(), "hif4", "b")}
    result = simulated(len(codes), 64, 64, out="fp32", base=folder, inputs=inputs)
    assert result.values.status == "bit_exact"
    assert result.out is not None
    return result.out


def random_codes(rows: int = 16, seed: int = 3) -> Array:
    return np.random.RandomState(seed).randint(0, 16, (rows, 64))


def plain(codes: Array) -> Array:
    """Sign and magnitude / 4."""
    return np.where(codes & 8, -1, 1) * (codes & 7) / np.float32(4)


# -- scale levels ------------------------------------------------------------------------------------------------------


def test_scales_of_one_leave_the_elements(tmp_path: Path) -> None:
    codes = random_codes()
    assert np.array_equal(decoded(tmp_path, codes, cells(16, 1)), plain(codes))


def test_every_level_1_code_a13(tmp_path: Path) -> None:
    """e6m2: exponent - 48 in the upper six bits, hidden one and two mantissa bits; 0xC0 = 1, 0xFF is NaN."""
    codes = np.zeros((256, 64), np.uint8)
    codes[:, 5] = ONE
    scales = cells(256, 1)
    for row in range(256):
        scales[row // 16, 0, 2 * (row % 16)] = row
    out = decoded(tmp_path, codes, scales)
    expected = np.array([2.0 ** ((code >> 2) - 48) * (1 + (code & 3) / 4) for code in range(255)], np.float32)
    assert np.array_equal(out[:255, 5], expected)
    assert out[0xC0, 5] == 1
    assert np.isnan(out[255]).all()
    assert (np.delete(out[:255], 5, axis=1) == 0).all()


@pytest.mark.parametrize("bit", range(8))
def test_every_bit_of_level_2_doubles_its_eight_elements_a14(tmp_path: Path, bit: int) -> None:
    """Bits 4..7 (elements 32..63) included, which a former kernel lost."""
    codes, scales = random_codes(), cells(16, 1)
    scales[0, 0, 2 * 7 + 1] = 1 << bit  # row 7
    expected = plain(codes)
    expected[7, 8 * bit : 8 * bit + 8] *= 2
    assert np.array_equal(decoded(tmp_path, codes, scales), expected)


@pytest.mark.parametrize("bit", range(16))
def test_every_bit_of_level_3_doubles_its_four_elements_a15(tmp_path: Path, bit: int) -> None:
    codes, scales = random_codes(), cells(16, 1)
    scales[0, 0, 32 + 2 * 3 + bit // 8] = 1 << bit % 8  # row 3, low byte first
    expected = plain(codes)
    expected[3, 4 * bit : 4 * bit + 4] *= 2
    assert np.array_equal(decoded(tmp_path, codes, scales), expected)


def test_levels_multiply(tmp_path: Path) -> None:
    codes, scales = random_codes(), cells(16, 1)
    scales[0, 0, 0:32:2] = 0xC0 + 4 * 3 + 2  # 8 x 1.5
    scales[0, 0, 1:32:2] = 0b0000_0001
    scales[0, 0, 32:64:2] = 0b0000_0001
    factor = np.full(64, 12.0, np.float32)
    factor[:8] *= 2
    factor[:4] *= 2
    assert np.array_equal(decoded(tmp_path, codes, scales), plain(codes) * factor)


# -- cells -------------------------------------------------------------------------------------------------------------


def test_one_cell_built_by_hand_a11_a12(tmp_path: Path) -> None:
    """Bytes 0..31: Ea, Eb of rows 0..15 alternating; bytes 32..63: Ec low, Ec high alternating."""
    cell = np.zeros(64, np.uint8)
    for row in range(16):
        cell[2 * row] = 0xC0 + 4 * (row % 3)  # 1, 2, 4
        cell[2 * row + 1] = 1 << (row % 8)
        cell[32 + 2 * row] = row
        cell[32 + 2 * row + 1] = 0x80 if row % 2 else 0
    codes = random_codes()
    expected = plain(codes)
    for row in range(16):
        expected[row] *= 2 ** (row % 3)
        expected[row, 8 * (row % 8) : 8 * (row % 8) + 8] *= 2
        for bit in range(8):
            if row >> bit & 1:
                expected[row, 4 * bit : 4 * bit + 4] *= 2
        if row % 2:
            expected[row, 60:] *= 2
    assert np.array_equal(decoded(tmp_path, codes, cell), expected)


def packed(folder: Path, *extents: int) -> tuple[dict[str, Any], Result]:
    """Generated operands of a problem, written as the device sees them, and the result of the generated run."""
    ready = prepared(*extents, out="fp32")
    inputs = {name: write_packed(folder, ready.operands[name], "hif4", name) for name in ("a", "b")}
    return inputs, simulated(*extents, out="fp32")


def flipped(folder: Path, name: str, position: int, bits: int = 0xFF) -> None:
    path = folder / name
    data = np.fromfile(path, np.uint8)
    data[position] ^= bits
    data.tofile(path)


@pytest.mark.parametrize("byte", [0, 1, 32, 33])
@pytest.mark.parametrize("row", [0, 5, 15])
def test_one_byte_of_a_cell_serves_one_row_and_one_group_a10(tmp_path: Path, byte: int, row: int) -> None:
    """A [32, 128]: cells [2][2][64]. A byte of cell (1, 1) changes row 16 + row, and only through K 64..127."""
    inputs, before = packed(tmp_path, 32, 128, 32)
    flipped(tmp_path, "a_scales.bin", 3 * 64 + byte + 2 * row, 0x01)
    after = simulated(32, 128, 32, out="fp32", base=tmp_path, inputs=inputs)
    changed = np.flatnonzero((after.outputs["out"] != before.outputs["out"]).any(axis=1))
    assert changed.tolist() == [16 + row]
    # with the codes of K 64..127 zero in that row, nothing changes at all
    data = np.fromfile(tmp_path / "a_data.bin", np.uint8).reshape(32, 64)
    data[16 + row, 32:] = 0
    data.tofile(tmp_path / "a_data.bin")
    without = simulated(32, 128, 32, out="fp32", base=tmp_path, inputs=inputs)
    flipped(tmp_path, "a_scales.bin", 3 * 64 + byte + 2 * row, 0x01)
    restored = simulated(32, 128, 32, out="fp32", base=tmp_path, inputs=inputs)
    assert np.array_equal(without.outputs["out"], restored.outputs["out"])


def test_one_byte_of_a_cell_of_b_serves_one_column_a10(tmp_path: Path) -> None:
    inputs, before = packed(tmp_path, 16, 128, 48)
    flipped(tmp_path, "b_scales.bin", (2 * 2 + 1) * 64 + 2 * 9, 0x04)  # cell (2, 1): columns 32..47, K 64..127
    after = simulated(16, 128, 48, out="fp32", base=tmp_path, inputs=inputs)
    changed = np.flatnonzero((after.outputs["out"] != before.outputs["out"]).any(axis=0))
    assert changed.tolist() == [41]


def test_scales_of_a_and_b_exchanged_differ_a06(tmp_path: Path) -> None:
    inputs, before = packed(tmp_path, 64, 64, 64)
    a, b = inputs["a"], inputs["b"]
    swapped = {"a": {**a, "scales": b["scales"]}, "b": {**b, "scales": a["scales"]}}
    after = simulated(64, 64, 64, out="fp32", base=tmp_path, inputs=swapped)
    assert after.values.status == "bit_exact"
    assert not np.array_equal(after.outputs["out"], before.outputs["out"])


def test_padding_in_files_is_ignored_whatever_it_holds(tmp_path: Path) -> None:
    """K = 70, M = 17, N = 33: the last high nibble of a row, cells of rows 17..31, level bits beyond K."""
    inputs, before = packed(tmp_path, 17, 71, 33)
    data = np.fromfile(tmp_path / "a_data.bin", np.uint8).reshape(17, 36)
    data[:, 35] |= 0xF0  # K 71: column 35 holds k = 70 and nothing
    data.tofile(tmp_path / "a_data.bin")
    scales = np.fromfile(tmp_path / "a_scales.bin", np.uint8).reshape(2, 2, 2, 16, 2)
    scales[1, :, :, 1:] = 0xFF  # rows 17..31
    scales.tofile(tmp_path / "a_scales.bin")
    after = simulated(17, 71, 33, out="fp32", base=tmp_path, inputs=inputs)
    assert np.array_equal(after.outputs["out"], before.outputs["out"])


def test_values_and_packed_bytes_are_the_same_run_a04(tmp_path: Path) -> None:
    inputs, before = packed(tmp_path, 96, 128, 192)
    after = simulated(96, 128, 192, out="fp32", base=tmp_path, inputs=inputs)
    assert after.values.sha256 == before.values.sha256
    assert after.trace is not None
    assert before.trace is not None
    assert timeline(after.trace) == timeline(before.trace)


def test_large_values_only_in_the_upper_half_a16(tmp_path: Path) -> None:
    """Elements 32..63 eight times the others: level 2 bits 4..7 are set, and survive from quantiser to output."""
    values = np.full((16, 64), 0.5, np.float32)
    values[:, 32:] = 4.0
    np.save(tmp_path / "a.npy", values)
    inputs = {
        "a": {"kind": "npy", "path": "a.npy"},
        "b": write_packed(tmp_path, identity(), "hif4", "b"),
    }
    quantised = nm.quantize(values, "hif4", axis=1)
    assert set(quantised.scales.eb[:, 0].tolist()) == {0xF0}  # type: ignore[union-attr]
    result = simulated(16, 64, 64, out="fp32", base=tmp_path, inputs=inputs)
    assert np.array_equal(result.out, nm.dequantize(quantised))  # type: ignore[arg-type]
    assert (result.out[:, 32:] > 3).all()  # type: ignore[index]


# -- the test cases of the requirement ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["128x128x128", "64x64x64", "128x256x128", "256x128x128", "128x512x128",
                                   "128x128x256", "256x256x256"])  # fmt: skip
def test_shapes_of_one_slice_a28_a29(shape: str) -> None:
    """The shapes are M x K x N: any other reading of 128x512x128 or 512x128x512 overflows a buffer."""
    result = _shipped(f"hif4_{shape}")
    assert [f"{result.problem[name]}" for name in "mkn"] == shape.split("x")
    assert (result.tiling["n_tiles"], result.values.status) == (1, "bit_exact")
    if shape == "256x256x256":
        assert result.program is not None
        (tile,) = {i.writes[0] for i in result.program.cores[0].instructions if i.op == "tmatmul_mx"}
        assert tile.size == 262144  # type: ignore[union-attr]


@pytest.mark.parametrize(("shape", "slices", "width"), [("256x128x512", 2, 256), ("512x128x512", 4, 128)])
def test_shapes_that_need_n_tiling_a30(shape: str, slices: int, width: int) -> None:
    result = _shipped(f"hif4_{shape}")
    assert (result.tiling["n_tiles"], result.tiling["tile_n"]) == (slices, width)
    assert result.values.status == "bit_exact"


def _shipped(name: str) -> Result:
    from hwmodel.experiment import simulate

    return simulate(load(name))


def test_e1m2_goes_through_the_same_stages_a32() -> None:
    hif4, e1m2 = _shipped("hif4_128x128x128"), _shipped("e1m2_128x128x128")
    assert hif4.trace is not None
    assert e1m2.trace is not None
    assert [entry[0] for entry in timeline(hif4.trace)] == [entry[0] for entry in timeline(e1m2.trace)]
    assert e1m2.values.status == "bit_exact"
    assert hif4.stats is not None
    assert e1m2.stats is not None
    # HiF4 has 64-byte cells, E8M0 32-byte ones: 8 x 2 cells an operand
    assert hif4.stats.gm_read_bytes - e1m2.stats.gm_read_bytes == 2 * 8 * 2 * 32
    assert hif4.stats.units["cube"].busy_cycles == e1m2.stats.units["cube"].busy_cycles


def test_hif4_with_scales_of_one_is_e1m2_with_scale_127_a33(tmp_path: Path) -> None:
    """The same packed codes, all 16 of them, scale cells 1.0 in both: the same bits."""
    stream = np.random.RandomState(7)
    a, b = stream.randint(0, 16, (48, 192)).astype(np.uint8), stream.randint(0, 16, (192, 80)).astype(np.uint8)
    out = []
    for dtype in ("hif4", "mxfp4_e1m2"):
        inputs = {}
        for name, codes, axis in (("a", a, 1), ("b", b, 0)):
            rows = codes.shape[1 - axis]
            scales = cells(rows, 3) if dtype == "hif4" else np.full((-(-rows // 16), 3, 32), 127, np.uint8)
            operand = Operand(dtype, axis, codes, cells=scales.reshape(-1))
            inputs[name] = write_packed(tmp_path, operand, dtype, f"{dtype}_{name}")
        out.append(simulated(48, 192, 80, dtype, dtype, out="fp32", base=tmp_path, inputs=inputs))
    assert out[0].values.sha256 == out[1].values.sha256
    assert out[0].values.status == out[1].values.status == "bit_exact"
    assert len(np.unique(out[0].out)) > 100  # type: ignore[arg-type]


# -- operand pairs -----------------------------------------------------------------------------------------------------

MX4, MX8 = ("mxfp4_e2m1", "mxfp4_e1m2"), ("mxfp8_e4m3", "mxfp8_e5m2")
LEGAL = [
    ("hif4", "hif4"),
    *((a, b) for a in MX4 for b in MX4),
    *((a, b) for a in MX8 for b in MX8),
    ("mxfp8_e4m3", "mxfp4_e2m1"),
    ("mxfp4_e2m1", "mxfp8_e4m3"),
    *((a, b) for a in ("mxfp8_e4m3", "fp16", "bf16") for b in ("mxfp4_e2m1", "hif4")),
]
"""Hardware facts 3.5: what A6 multiplies with block scales."""


FP8 = ("fp8_e4m3", "fp8_e5m2")
PLAIN = [
    *((x, x) for x in ("int8", "fp16", "bf16", "fp32", "hif8")),
    *((a, b) for a in FP8 for b in FP8),
    ("int8", "int4"),
    *((a, b) for a in ("fp16", "bf16") for b in ("fp8_e4m3", "int8", "int4")),
]
"""Hardware facts 3.5: without block scales, those of A2/A3, A5 and A6 together."""


def test_the_shipped_machine_has_exactly_these_pairs() -> None:
    arch = prepared(16, 64, 16, shipped=True).scenario.arch
    assert set(arch.spec.operand_pairs.mx) == set(LEGAL)
    assert set(arch.spec.operand_pairs.plain) == set(PLAIN)


@pytest.mark.parametrize("pair", [pair for pair in PLAIN if pair[0] != pair[1]], ids="x".join)
@pytest.mark.parametrize("tiling", [
    {"kind": "n_split", "tile_n": 64}, {"kind": "blocked", "base": [32, 64, 64], "panel_slices": 2},
], ids=["n_split", "blocked"])  # fmt: skip
def test_plain_pairs_of_two_dtypes_written_out(pair: tuple[str, str], tiling: dict[str, Any]) -> None:
    """fp32 multiply and add in ascending k; integers (int8 x int4) exactly. The wider operand sets the K of a step."""
    integer = pair[0] == "int8"
    out = "int32" if integer else "fp32"
    result = simulated(5, 130, 70, *pair, out=out, tiling=tiling)
    ready = prepared(5, 130, 70, *pair, out=out, tiling=tiling)
    a, b = ready.operands["a"].decoded(), ready.operands["b"].decoded()
    sums = np.zeros((5, 70), np.int64 if integer else np.float32)
    for k in range(130):
        sums = sums + (a[:, k, None] * b[None, k]).astype(sums.dtype)
    assert len(np.unique(sums)) > 10
    assert np.array_equal(result.out, sums)  # type: ignore[arg-type]
    assert result.values.status == "bit_exact"


def test_the_wider_operand_of_a_plain_pair_sets_the_rate() -> None:
    """K = 128 in steps of 16 for fp16, 32 for int8: 5 + 1 x 8 x 4 and 5 + 1 x 4 x 4."""
    for pair, out, expected in ((("fp16", "int4"), "fp32", 37), (("int8", "int4"), "int32", 21)):
        (entry,) = timeline(simulated(16, 128, 64, *pair, out=out).trace, "cube")  # type: ignore[arg-type]
        assert entry[2] - entry[1] == expected


@pytest.mark.parametrize("pair", LEGAL, ids="x".join)
@pytest.mark.parametrize("extents", [(1, 64, 64), (40, 200, 150)], ids=str)
@pytest.mark.parametrize("tiling", [
    {"kind": "n_split", "tile_n": 64}, {"kind": "blocked", "base": [32, 64, 64], "panel_slices": 2},
], ids=["n_split", "blocked"])  # fmt: skip
def test_every_legal_pair_through_the_whole_pipeline(
    pair: tuple[str, str], extents: tuple[int, int, int], tiling: dict[str, Any]
) -> None:
    result = simulated(*extents, *pair, tiling=tiling)
    assert result.values.status == "bit_exact"
    assert result.expect.status == "none"
    assert len(np.unique(result.outputs["out"])) > 10


@pytest.mark.parametrize("pair", LEGAL, ids="x".join)
def test_every_legal_pair_against_the_reference_written_out(pair: tuple[str, str]) -> None:
    """Independent of the pipeline's own check: decode, then fp32 multiply and add in ascending k."""
    result = simulated(5, 130, 7, *pair, out="fp32")
    ready = prepared(5, 130, 7, *pair, out="fp32")
    a, b = ready.operands["a"].decoded(), ready.operands["b"].decoded()
    sums = np.zeros((5, 7), np.float32)
    for k in range(130):
        sums = sums + a[:, k, None] * b[None, k]
    assert np.array_equal(result.out, sums)  # type: ignore[arg-type]


ALL = ("hif4", *MX4, *MX8, "bf16", "fp16", "fp8_e4m3", "int8", "int4")


@pytest.mark.parametrize("pair", [(a, b) for a in ALL for b in ALL], ids="x".join)
def test_every_other_pair_is_refused_or_plain(pair: tuple[str, str]) -> None:
    if pair in LEGAL or pair in PLAIN:
        op = program_of(prepared(16, 64, 64, *pair)).cores[0].instructions[-2].op
        assert op == ("tmatmul_mx" if pair in LEGAL else "tmatmul")
        return
    with pytest.raises(InputError, match=f"^problem: ascend_a6 has no matmul of {pair[0]} x {pair[1]}"):
        prepared(16, 64, 64, *pair)


def test_the_scale_of_a_sixteen_bit_operand_is_optional_and_ignored(tmp_path: Path) -> None:
    ready = prepared(16, 128, 64, "bf16", "hif4", out="fp32")
    inputs = {
        "a": write_packed(tmp_path, ready.operands["a"], "bf16", "a"),
        "b": write_packed(tmp_path, ready.operands["b"], "hif4", "b"),
    }
    without = simulated(16, 128, 64, "bf16", "hif4", out="fp32", base=tmp_path, inputs=inputs)
    (tmp_path / "neutral.bin").write_bytes(b"\x7f" * 64)
    inputs["a"]["scales"] = "neutral.bin"
    with_scales = simulated(16, 128, 64, "bf16", "hif4", out="fp32", base=tmp_path, inputs=inputs)
    assert with_scales.values.sha256 == without.values.sha256
    assert with_scales.cycles == without.cycles
