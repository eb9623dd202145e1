"""Operands: generated streams, files of values, packed bytes, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from hwmodel import inputs
from hwmodel import numerics as nm
from hwmodel.errors import InputError
from hwmodel.inputs import InputSource, Operand, make_operand, make_values, read_cells, read_codes

BLOCKS = [name for name, dtype in nm.DTYPES.items() if dtype.block]
PLAIN = [name for name, dtype in nm.DTYPES.items() if not dtype.block]
SOURCES: TypeAdapter[Any] = TypeAdapter(InputSource)


def source(**fields: Any) -> Any:
    return SOURCES.validate_python(fields)


def test_streams_are_those_of_randomstate() -> None:
    shape = (7, 33)
    made = make_values(source(kind="normal", mean=2.0, std=3.0, seed=5), shape)
    assert np.array_equal(made, np.random.RandomState(5).normal(2.0, 3.0, shape).astype(np.float32))
    made = make_values(source(kind="uniform", low=-1.0, high=1.0, seed=19), shape)
    assert np.array_equal(made, np.random.RandomState(19).uniform(-1.0, 1.0, shape).astype(np.float32))
    made = make_values(source(kind="integers", low=-8, high=8, seed=3), shape)
    assert np.array_equal(made, np.random.RandomState(3).randint(-8, 8, shape, dtype=np.int64).astype(np.float32))
    assert made.min() >= -8
    assert made.max() <= 7
    assert np.array_equal(make_values(source(kind="constant", value=0.1), shape), np.full(shape, 0.1, np.float32))


def test_the_first_numbers_of_the_stream_never_change() -> None:
    made = make_values(source(kind="normal"), (1, 3))[0]
    assert made.view(np.uint32).tolist() == [0x3FE1CC78, 0x3ECCE168, 0x3F7A8E93]
    assert made.tolist() == pytest.approx([1.764052345967664, 0.4001572083672233, 0.9787379841057392], rel=1e-7)


@pytest.mark.parametrize("kind", ["normal", "uniform", "integers"])
def test_drawing_in_pieces_gives_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"low": -5, "high": 1000} if kind == "integers" else {}
    whole = make_values(source(kind=kind, **fields), (11, 13))
    monkeypatch.setattr(inputs, "CHUNK", 7)
    assert np.array_equal(make_values(source(kind=kind, **fields), (11, 13)), whole)


@pytest.mark.parametrize("dtype", PLAIN)
def test_plain_operands_hold_codes_of_their_values(dtype: str) -> None:
    operand = make_operand(source(kind="uniform", low=0.5, high=3.0), dtype, (4, 5))
    assert operand.values is not None
    assert np.array_equal(operand.codes, nm.encode(operand.values, dtype))
    assert operand.scales is None
    assert operand.cells is None
    assert np.array_equal(operand.decoded(), nm.decode(operand.codes, dtype))


@pytest.mark.parametrize("dtype", BLOCKS)
@pytest.mark.parametrize(("shape", "axis"), [((20, 100), 1), ((100, 20), 0)])
def test_block_operands_are_quantised_along_k(dtype: str, shape: tuple[int, int], axis: int) -> None:
    operand = make_operand(source(kind="normal"), dtype, shape, axis=axis)
    assert operand.values is not None
    assert operand.cells is not None
    tensor = nm.quantize(operand.values, dtype, axis=axis)
    assert np.array_equal(operand.codes, tensor.codes)
    assert np.array_equal(operand.cells, nm.scale_cells(tensor.scales, dtype, axis))
    assert operand.cells.size == nm.scale_cell_bytes(20, 100, dtype)
    assert np.array_equal(operand.decoded(), nm.dequantize(tensor))


def test_the_rule_counts() -> None:
    values = [make_operand(source(kind="normal", rule=rule), "mxfp4_e2m1", (8, 64)).decoded() for rule in nm.RULES if
              "mxfp4_e2m1" in nm.RULES[rule].dtypes and "neuron" not in rule]  # fmt: skip
    assert any(not np.array_equal(values[0], other) for other in values[1:])


# -- .npy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i1", "i4", "i8", "u2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_values_from_npy(tmp_path: Path, dtype: str, order: Any) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype, order=order)
    np.save(tmp_path / "a.npy", array)
    made = make_values(source(kind="npy", path="a.npy"), (3, 4), base=tmp_path)
    assert made.dtype == np.float32
    assert made.flags.c_contiguous
    assert np.array_equal(made, np.arange(12).reshape(3, 4))


def refused(tmp_path: Path, shape: tuple[int, int] = (3, 4), **fields: Any) -> str:
    fields = {"kind": "npy", "path": "a.npy"} | fields
    with pytest.raises(InputError) as caught:
        make_operand(source(**fields), "bf16", shape, base=tmp_path, field="inputs.b")
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("inputs.b.")
    return text


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "a.npy: expected a file, but there is none of that name" in refused(tmp_path)
    (tmp_path / "a.npy").mkdir()
    assert "a.npy: expected a file, not a folder" in refused(tmp_path)


def test_a_wrong_shape(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((4, 3)))
    assert "a.npy: expected shape [3, 4], not [4, 3]" in refused(tmp_path)
    np.save(tmp_path / "a.npy", np.zeros(12))
    assert "a.npy: expected shape [3, 4], not [12]" in refused(tmp_path)


def test_a_truncated_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 4), np.float32))
    data = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(data[:-1])
    assert "a.npy: expected 176 bytes (3 x 4 float32), not 175" in refused(tmp_path)
    (tmp_path / "a.npy").write_bytes(data + b"x")
    assert "expected 176 bytes (3 x 4 float32), not 177" in refused(tmp_path)
    for cut in (0, 5, 8, 40):
        (tmp_path / "a.npy").write_bytes(data[:cut])
        assert "a.npy: expected a .npy file, not one with this header" in refused(tmp_path)
    (tmp_path / "a.npy").write_bytes(b"PK\x03\x04" + data)
    assert "expected a .npy file" in refused(tmp_path)


@pytest.mark.parametrize("array", [np.zeros((3, 4), complex), np.zeros((3, 4), object), np.zeros((3, 4), "U3"),
                                   np.zeros((3, 4), bool), np.zeros((3, 4), np.longdouble)])  # fmt: skip
def test_arrays_that_are_no_numbers_we_take(tmp_path: Path, array: Any) -> None:
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    assert "a.npy: expected floats or integers of at most 64 bits, not" in refused(tmp_path)


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "Inf"), (-np.inf, "Inf"), (1e300, "Inf")])
def test_nan_and_inf_are_refused_with_their_first_index(tmp_path: Path, value: float, name: str) -> None:
    array = np.zeros((3, 4))
    array[1, 2] = array[2, 0] = value
    np.save(tmp_path / "a.npy", array)
    text = refused(tmp_path)
    assert f"a.npy: expected finite fp32 values, not {name} at [1, 2] (2 in all; nonfinite: keep" in text


def test_nan_and_inf_can_be_kept(tmp_path: Path) -> None:
    array = np.array([[np.nan, np.inf, -np.inf, 3e38]], np.float32)
    np.save(tmp_path / "a.npy", array)
    keep = source(kind="npy", path="a.npy", nonfinite="keep")
    assert make_operand(keep, "bf16", (1, 4), base=tmp_path).codes.tolist() == [[0x7FC0, 0x7F80, 0xFF80, 0x7F62]]
    assert make_operand(keep, "fp16", (1, 4), base=tmp_path).codes.tolist() == [[0x7E00, 0x7C00, 0xFC00, 0x7BFF]]
    assert make_operand(keep, "fp32", (1, 4), base=tmp_path).codes.tolist()[0][1:3] == [0x7F800000, 0xFF800000]
    assert make_operand(keep, "hif4", (1, 4), base=tmp_path).scales is not None


# -- packed --------------------------------------------------------------------------------------------------------


def packed(tmp_path: Path, operand: Operand, codes: Any, dtype: str) -> Any:
    (tmp_path / "d.bin").write_bytes(nm.pack_rows(codes, dtype).tobytes())
    if operand.cells is None:
        return source(kind="packed", data="d.bin")
    (tmp_path / "s.bin").write_bytes(operand.cells.tobytes())
    return source(kind="packed", data="d.bin", scales="s.bin")


@pytest.mark.parametrize("dtype", [*BLOCKS, "bf16", "fp32", "fp8_e4m3", "int8"])
@pytest.mark.parametrize(("shape", "axis"), [((17, 67), 1), ((67, 17), 0)])
def test_packed_operands_are_what_was_packed(tmp_path: Path, dtype: str, shape: tuple[int, int], axis: int) -> None:
    operand = make_operand(source(kind="normal", seed=4), dtype, shape, axis=axis)
    again = make_operand(packed(tmp_path, operand, operand.codes, dtype), dtype, shape, axis=axis, base=tmp_path)
    assert again.values is None
    assert np.array_equal(again.codes, operand.codes)
    assert np.array_equal(again.decoded(), operand.decoded())


def test_packed_b_may_lie_transposed(tmp_path: Path) -> None:
    operand = make_operand(source(kind="normal"), "hif4", (67, 17), axis=0)
    given = packed(tmp_path, operand, operand.codes.T, "hif4")
    again = make_operand(given, "hif4", (67, 17), axis=0, base=tmp_path, transposed=True)
    assert np.array_equal(again.codes, operand.codes)
    assert np.array_equal(again.decoded(), operand.decoded())


def test_padding_of_packed_bytes_is_ignored(tmp_path: Path) -> None:
    operand = make_operand(source(kind="normal"), "hif4", (1, 3))
    assert operand.cells is not None
    (tmp_path / "d.bin").write_bytes(
        bytes([operand.codes[0, 0] | operand.codes[0, 1] << 4, operand.codes[0, 2] | 0xF0])
    )
    cells = np.full(64, 0xFF, np.uint8)
    cells[[0, 1, 32, 33]] = operand.cells[[0, 1, 32, 33]]
    (tmp_path / "s.bin").write_bytes(cells.tobytes())
    again = make_operand(source(kind="packed", data="d.bin", scales="s.bin"), "hif4", (1, 3), base=tmp_path)
    assert np.array_equal(again.codes, operand.codes)
    assert np.array_equal(again.decoded(), operand.decoded())


def test_sizes_of_packed_files(tmp_path: Path) -> None:
    (tmp_path / "d.bin").write_bytes(bytes(100))
    (tmp_path / "s.bin").write_bytes(bytes(64))
    files = {"kind": "packed", "data": "d.bin", "scales": "s.bin"}
    with pytest.raises(InputError, match=r"^inputs.a.data: .*d.bin: expected 1,088 bytes \(17 x 128 hif4\), not 100$"):
        make_operand(source(**files), "hif4", (17, 128), base=tmp_path)
    (tmp_path / "d.bin").write_bytes(bytes(1088))
    with pytest.raises(
        InputError, match=r"^inputs.a.scales: .*s.bin: expected 256 bytes \(scale cells of 17 rows x 128"
    ):
        make_operand(source(**files), "hif4", (17, 128), base=tmp_path)
    (tmp_path / "s.bin").unlink()
    with pytest.raises(
        InputError, match=r"^inputs.a.scales: .*s.bin: expected a file, but there is none of that name$"
    ):
        make_operand(source(**files), "hif4", (17, 128), base=tmp_path)
    (tmp_path / "s.bin").mkdir()
    with pytest.raises(InputError, match=r"s.bin: expected a file, not a folder$"):
        make_operand(source(**files), "hif4", (17, 128), base=tmp_path)


# -- goldens -------------------------------------------------------------------------------------------------------


def test_golden_codes(tmp_path: Path) -> None:
    codes = nm.encode(np.arange(12, dtype=np.float32).reshape(3, 4), "bf16")
    (tmp_path / "g.bin").write_bytes(nm.pack_rows(codes, "bf16").tobytes())
    np.save(tmp_path / "g.npy", np.arange(12, dtype=np.float32).reshape(3, 4))
    assert np.array_equal(read_codes(tmp_path / "g.bin", "bf16", (3, 4), "expect.out.path"), codes)
    assert np.array_equal(read_codes(tmp_path / "g.npy", "bf16", (3, 4), "expect.out.path"), codes)
    with pytest.raises(InputError, match=r"^expect.out.path: .*g.bin: expected 48 bytes \(3 x 4 fp32\), not 24$"):
        read_codes(tmp_path / "g.bin", "fp32", (3, 4), "expect.out.path")


def test_integers_of_a_golden_file_are_exact(tmp_path: Path) -> None:
    """int32 sums above 2**24 have no fp32 of their own: the out.npy of a run was not equal to itself."""
    values = np.array([[2**24 + 1, -(2**31)], [2**31 - 1, -1]])
    for dtype in (np.int32, np.int64):
        np.save(tmp_path / "g.npy", values.astype(dtype))
        codes = read_codes(tmp_path / "g.npy", "int32", (2, 2), "expect.out.path")
        assert codes.dtype == np.uint32
        assert np.array_equal(codes.view(np.int32), values)
    np.save(tmp_path / "g.npy", values + 1)
    with pytest.raises(InputError, match=r"expect.out.path: .*g.npy: expected int32 values, not 2147483648"):
        read_codes(tmp_path / "g.npy", "int32", (2, 2), "expect.out.path")


@pytest.mark.parametrize(("dtype", "name"), [("bf16", "bfloat16"), ("fp8_e4m3", "float8_e4m3fn")])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_golden_file_of_ml_dtypes_holds_codes(tmp_path: Path, dtype: str, name: str, order: Any) -> None:
    """What ``numpy.save`` makes of the ``out`` of a `Result`."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([[1.5, -2.0, 0.25], [3.0, -0.0, 0.5]], getattr(ml_dtypes, name), order=order)
    np.save(tmp_path / "g.npy", array)
    codes = read_codes(tmp_path / "g.npy", dtype, (2, 3), "expect.out.path")
    assert codes.dtype == nm.DTYPES[dtype].numpy_dtype
    assert np.array_equal(nm.decode(codes, dtype), array.astype(np.float32))
    with pytest.raises(InputError, match=r"g.npy: expected floats or integers of at most 64 bits, not \|V"):
        read_codes(tmp_path / "g.npy", "fp32", (2, 3), "expect.out.path")


def test_golden_scales(tmp_path: Path) -> None:
    (tmp_path / "s.bin").write_bytes(bytes(range(64)))
    assert read_cells(tmp_path / "s.bin", "hif4", 16, 64, "expect.scales.path").tolist() == list(range(64))
    with pytest.raises(InputError, match=r"^expect.scales.path: .*expected 128 bytes .* not 64$"):
        read_cells(tmp_path / "s.bin", "hif4", 16, 65, "expect.scales.path")
