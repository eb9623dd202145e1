"""Instruction lists for an Ascend core: every operation, flags, barriers, what is refused, what races."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwmodel import numerics as nm
from hwmodel.errors import DeadlockError, InputError
from hwmodel.experiment import Prepared, prepare, run
from hwmodel.program.memory import Part, Window
from hwmodel.result import Result
from hwmodel.scenario import load, loads

SHIPPED = Path(__file__).resolve().parents[2] / "scenarios" / "program_ascend_hif4.yaml"
M, K, N = 32, 64, 48


def values(seed: int) -> dict[str, Any]:
    return {"kind": "uniform", "low": -2.0, "high": 2.0, "seed": seed}


def flag(op: str, src: str, dst: str, number: int = 0) -> dict[str, Any]:
    return {"op": op, "src": src, "dst": dst, "id": number}


def both(src: str, dst: str, number: int = 0) -> list[dict[str, Any]]:
    return [flag("set_flag", src, dst, number), flag("wait_flag", src, dst, number)]


def plain(a: str = "bf16", b: str = "bf16", out: str = "fp32") -> dict[str, Any]:
    return {
        "a": {"space": "gm", "dtype": a, "shape": [M, K], "init": values(1)},
        "b": {"space": "gm", "dtype": b, "side": "b", "shape": [K, N], "init": values(2)},
        "out": {"space": "gm", "dtype": out, "shape": [M, N]},
        "a1": {"space": "l1", "dtype": a, "shape": [M, K]},
        "b1": {"space": "l1", "dtype": b, "side": "b", "shape": [K, N]},
        "a0": {"space": "l0a", "dtype": a, "shape": [M, K]},
        "b0": {"space": "l0b", "dtype": b, "side": "b", "shape": [K, N]},
        "c": {"space": "l0c", "dtype": "int32" if a == "int8" else "fp32", "shape": [M, N]},
    }


def steps(**store: Any) -> list[dict[str, Any]]:
    return [
        {"op": "tload", "src": "a", "dst": "a1"},
        {"op": "tload", "src": "b", "dst": "b1"},
        *both("MTE2", "MTE1"),
        {"op": "textract", "src": "a1", "dst": "a0"},
        {"op": "textract", "src": "b1", "dst": "b0"},
        *both("MTE1", "M"),
        {"op": "tmatmul", "a": "a0", "b": "b0", "dst": "c"},
        *both("M", "FIX"),
        {"op": "tstore", "src": "c", "dst": "out", **store},
    ]


def built(
    tensors: dict[str, Any], instructions: list[dict[str, Any]], arch: str = "ascend_a6", **rest: Any
) -> Prepared:
    data = {"name": "test", "arch": arch, "program": {"tensors": tensors, "instructions": instructions}, **rest}
    return prepare(loads(json.dumps(data), Path()))


def simulated(*args: Any, **how: Any) -> Result:
    prepared = built(*args, **how)
    assert prepared.hazards() == ()
    outcome = run(prepared)
    assert outcome.values.status == "bit_exact"
    return outcome


def refused(*args: Any, **how: Any) -> str:
    with pytest.raises(InputError) as error:
        built(*args, **how)
    return str(error.value)


def operand(seed: int, rows: int, cols: int, dtype: str) -> Any:
    drawn = np.random.RandomState(seed).uniform(-2, 2, rows * cols).astype(np.float32).reshape(rows, cols)
    return nm.decode(nm.encode(drawn, dtype), dtype)


@pytest.mark.parametrize(
    ("a", "b", "out"), [("bf16", "bf16", "fp32"), ("fp16", "fp16", "bf16"), ("fp8_e4m3", "fp8_e5m2", "fp16")]
)
def test_a_plain_matmul_by_hand(a: str, b: str, out: str) -> None:
    outcome = simulated(plain(a, b, out), steps())
    expected = nm.cast_out(nm.matmul(operand(1, M, K, a), operand(2, K, N, b)), out)
    assert np.array_equal(outcome.outputs["out"], expected)
    assert outcome.out_dtype == out


def test_integers_add_up_exactly() -> None:
    tensors = plain("int8", "int8", "int32")
    for name in "ab":
        tensors[name]["init"] = {"kind": "integers", "low": -128, "high": 128, "seed": 3}
    outcome = simulated(tensors, steps())
    assert outcome.out is not None
    assert outcome.out.dtype == np.int32


def test_the_epilogue_of_a_store() -> None:
    tensors = plain(out="int8")
    outcome = simulated(tensors, steps(relu=True, scale=0.5, offset=3))
    sums = nm.matmul(operand(1, M, K, "bf16"), operand(2, K, N, "bf16"))
    assert np.array_equal(outcome.outputs["out"], nm.cast_out(sums, "int8", True, None, 0.5, 3))


def test_accumulate_goes_on_from_what_l0c_holds() -> None:
    instructions = steps()
    again = {"op": "tmatmul", "a": "a0", "b": "b0", "dst": "c", "accumulate": True}
    instructions.insert(9, again)
    outcome = simulated(plain(), instructions)
    a, b = operand(1, M, K, "bf16"), operand(2, K, N, "bf16")
    assert np.array_equal(outcome.out, nm.matmul(a, b, acc=nm.matmul(a, b)))


def test_rectangles_of_tensors() -> None:
    """K in two halves of L1, N in two stores: the same bits as in one piece."""
    tensors = plain()
    tensors |= {
        "a0": {"space": "l0a", "dtype": "bf16", "shape": [M, K // 2], "offset": 0},
        "b0": {"space": "l0b", "dtype": "bf16", "side": "b", "shape": [K // 2, N], "offset": 0},
        "a2": {"space": "l0a", "dtype": "bf16", "shape": [M, K // 2], "offset": 16384},
        "b2": {"space": "l0b", "dtype": "bf16", "side": "b", "shape": [K // 2, N], "offset": 16384},
    }
    half = K // 2
    instructions = [
        *steps()[:4],
        {"op": "textract", "src": {"tensor": "a1", "cols": [0, half]}, "dst": "a0"},
        {"op": "textract", "src": {"tensor": "b1", "rows": [0, half]}, "dst": "b0"},
        {"op": "textract", "src": {"tensor": "a1", "cols": [half, half]}, "dst": "a2"},
        {"op": "textract", "src": {"tensor": "b1", "rows": [half, half]}, "dst": "b2"},
        *both("MTE1", "M"),
        {"op": "tmatmul", "a": "a0", "b": "b0", "dst": "c"},
        {"op": "tmatmul", "a": "a2", "b": "b2", "dst": "c", "accumulate": True},
        *both("M", "FIX"),
        {"op": "tstore", "src": {"tensor": "c", "cols": [0, 16]}, "dst": {"tensor": "out", "cols": [0, 16]}},
        {"op": "tstore", "src": {"tensor": "c", "cols": [16, 32]}, "dst": {"tensor": "out", "cols": [16, 32]}},
    ]
    outcome = simulated(tensors, instructions)
    assert np.array_equal(outcome.out, nm.matmul(operand(1, M, K, "bf16"), operand(2, K, N, "bf16")))


@pytest.mark.parametrize(("a", "b"), [("hif4", "hif4"), ("mxfp8_e4m3", "mxfp4_e2m1"), ("bf16", "hif4")])
def test_block_scaled_matmuls(a: str, b: str) -> None:
    change = {}
    for name, dtype in (("a", a), ("b", b)):
        for tensor in (name, f"{name}_scale", f"{name}_l1", f"{name}_scale_l1", f"{name}_l0", f"{name}_scale_l0"):
            if tensor[-2:] != "l0" or name == "a":
                change[f"program.tensors.{tensor}.dtype"] = dtype
    for slice_ in ("b0", "b1", "b0_scale", "b1_scale"):
        change[f"program.tensors.{slice_}.dtype"] = b
    known = load(SHIPPED).program["tensors"]
    change = {path: value for path, value in change.items() if path.split(".")[2] in known}
    if a == "bf16":
        data = _without_scales_of_a()
        outcome = run(
            prepare(loads(json.dumps(data), Path(), overrides={k: v for k, v in change.items() if "a_scale" not in k}))
        )
    else:
        outcome = run(prepare(load(SHIPPED, overrides={**change, "expect": {"values": "bit_exact"}})))
    assert outcome.values.status == "bit_exact"
    assert outcome.hazards == ()


def _without_scales_of_a() -> dict[str, Any]:
    scenario = load(SHIPPED)
    program = json.loads(json.dumps(scenario.program))
    for name in ("a_scale", "a_scale_l1", "a_scale_l0"):
        del program["tensors"][name]
    del program["tensors"]["a"]["scales"]
    for name in ("a", "a_l1", "a_l0"):
        program["tensors"][name]["mx"] = True
    kept = []
    for instruction in program["instructions"]:
        if not str(instruction.get("dst", "")).startswith("a_scale"):
            instruction.pop("a_scale", None)
            kept.append(instruction)
    program["instructions"] = kept
    return {"name": "bf16", "arch": "ascend_a6", "program": program}


def test_the_hand_written_program_equals_the_tiling_of_the_same_problem() -> None:
    outcome = run(prepare(load(SHIPPED)))
    data = {
        "name": "same",
        "arch": "ascend_a6",
        "problem": {"op": "matmul", "m": 64, "k": 128, "n": 128, "a": "hif4", "b": "hif4", "out": "bf16"},
        "tiling": {"kind": "n_split", "tile_n": 64},
        "inputs": {
            name: {"kind": "uniform", "low": -1.0, "high": 1.0, "seed": seed} for name, seed in (("a", 1), ("b", 2))
        },
    }
    tiled = run(prepare(loads(json.dumps(data), Path())))
    assert outcome.values.sha256 == tiled.values.sha256
    scales = [
        {
            (tile.space, tile.layout)
            for instruction in result.program.cores[0].instructions  # type: ignore[union-attr]
            for operand in (*instruction.reads, *instruction.writes)
            if not isinstance(operand, Window)
            for tile in [operand.tile if isinstance(operand, Part) else operand]
            if tile.kind == "scale"
        }
        for result in (outcome, tiled)
    ]
    assert scales[0] == scales[1] == {("l1", "ZZ"), ("l0a_mx", "ZZ"), ("l1", "NN"), ("l0b_mx", "NN")}


@pytest.mark.parametrize("pipe", ["all", "M"])
def test_a_barrier_of_all_pipes_orders_everything(pipe: str) -> None:
    instructions = []
    for instruction in steps():
        if instruction["op"] == "set_flag":
            instructions.append({"op": "pipe_barrier", "pipe": pipe})
        elif instruction["op"] != "wait_flag":
            instructions.append(instruction)
    prepared = built(plain(), instructions)
    outcome = run(prepared)
    assert (outcome.values.status == "bit_exact") == (pipe == "all")
    assert (prepared.hazards() == ()) == (pipe == "all")


def test_a_missing_flag_is_a_race_that_shows_in_the_bits() -> None:
    instructions = [each for each in steps() if each.get("src") != "MTE1"]
    prepared = built(plain(), instructions)
    assert any(hazard.kind in ("race", "unwritten") for hazard in prepared.hazards())
    assert run(prepared).values.status == "mismatch"


def test_a_wait_without_a_set_is_a_deadlock() -> None:
    instructions = [each for each in steps() if each["op"] != "set_flag"]
    prepared = built(plain(), instructions)
    assert any(hazard.kind == "unset wait" for hazard in prepared.hazards())
    with pytest.raises(DeadlockError, match="MTE2>MTE1:0"):
        run(prepared)


def change(tensor: str, **fields: Any) -> dict[str, Any]:
    tensors = plain()
    tensors[tensor] = {**tensors[tensor], **fields}
    return tensors


@pytest.mark.parametrize(
    ("tensors", "instructions", "words"),
    [
        (plain(), [{"op": "tlod", "src": "a", "dst": "a1"}], ("unknown operation 'tlod'", "did you mean 'tload'")),
        (plain(), [{"op": {"kind": "normal"}}], ("instruction 0", "unknown operation")),
        (plain(), [{"op": "tload", "src": "a", "dst": "a0"}], ("expected a tensor in l1, not a0 in l0a",)),
        (plain(), [{"op": "tload", "src": "b", "dst": "a1"}], ("dst: expected the shape of the source [64, 48]",)),
        (change("a1", dtype="fp16"), [{"op": "tload", "src": "a", "dst": "a1"}], ("expected dtype bf16",)),
        (change("b0", shape=[K - 1, N]), [{"op": "tmatmul", "a": "a0", "b": "b0", "dst": "c"}],
         ("invalid matrix product", "64", "63")),
        (change("c", shape=[M, N + 1]), [{"op": "tmatmul", "a": "a0", "b": "b0", "dst": "c"}], ("expected [32, 48]",)),
        (change("c", dtype="bf16"), [{"op": "tmatmul", "a": "a0", "b": "b0", "dst": "c"}], ("expected fp32 sums",)),
        (plain(), [{"op": "tmatmul_mx", "a": "a0", "b": "b0", "dst": "c"}], ("no tmatmul_mx of bf16 x bf16", "legal")),
        (plain(), [{"op": "set_flag", "src": "MTE3", "dst": "M"}], ("instructions[0].src", "MTE2, MTE1, M or FIX")),
        (plain(), [{"op": "tload", "src": {"tensor": "a", "rows": [30, 5]}, "dst": "a1"}], ("at most 32 of a",)),
        (change("a0", offset=65536), steps(), ("l0a ends at 65536",)),
        (change("a0", space="l0a_mx"), steps(), ("tensors.a0.space", "l0a, l0b or l0c")),
        (change("a1", init=values(1)), steps(), ("tensors.a1.init", "only GM")),
        (change("a", dtype="bf61"), steps(), ("tensors.a.dtype", "did you mean 'bf16'")),
    ],
)  # fmt: skip
def test_bad_programs_are_refused(tensors: dict[str, Any], instructions: list[Any], words: tuple[str, ...]) -> None:
    text = refused(tensors, instructions)
    for word in words:
        assert word in text


def test_a_program_can_be_compared_with_a_golden_file(tmp_path: Path) -> None:
    outcome = run(prepare(load(SHIPPED)))
    golden = tmp_path / "golden.bin"
    golden.write_bytes(outcome.outputs["out"].tobytes())
    assert run(prepare(load(SHIPPED, overrides={"expect.out": {"path": str(golden)}}))).expect.status == "met"
    golden.write_bytes(bytes(outcome.outputs["out"].nbytes))
    assert (
        "differ from the golden file"
        in run(prepare(load(SHIPPED, overrides={"expect.out": {"path": str(golden)}}))).expect.failures[0]
    )
    golden.write_bytes(b"short")
    with pytest.raises(InputError, match=r"expect.out.path: .*: expected 16,384 bytes \(64 x 128 bf16\), not 5"):
        prepare(load(SHIPPED, overrides={"expect.out": {"path": str(golden)}}))  # before anything runs
    golden.unlink()
    with pytest.raises(InputError, match=r"expect.out.path: .*golden.bin: expected a file, but there is none"):
        prepare(load(SHIPPED, overrides={"expect.out": {"path": str(golden)}}))


def test_a_golden_file_of_a_program_may_hold_values(tmp_path: Path) -> None:
    """The out.npy of one run is what the next one expects."""
    outcome = run(prepare(load(SHIPPED)))
    outcome.save(tmp_path / "run", ("out",))
    expected = {"expect.out": {"path": str(tmp_path / "run" / "out.npy")}}
    assert run(prepare(load(SHIPPED, overrides=expected))).expect.status == "met"
    values = np.load(tmp_path / "run" / "out.npy")
    values[3, 5] += 1
    np.save(tmp_path / "run" / "out.npy", values)
    (failure,) = run(prepare(load(SHIPPED, overrides=expected))).expect.failures
    assert failure.startswith("out: 1 of 8192 elements differ from the golden file, first [3, 5] is 0x")


def test_files_of_a_program_count_for_its_hash(tmp_path: Path) -> None:
    data = tmp_path / "a.bin"
    data.write_bytes(bytes(2 * M * K))
    tensors = plain()
    tensors["a"]["init"] = {"kind": "bytes", "data": "a.bin"}
    text = json.dumps({"name": "test", "arch": "ascend_a6", "program": {"tensors": tensors, "instructions": steps()}})
    first = loads(text, tmp_path)
    before = first.hash()
    assert run(prepare(first)).values.status == "bit_exact"
    data.write_bytes(bytes([1] * (2 * M * K)))
    assert loads(text, tmp_path).hash() != before
    assert "../a.bin" in loads(text, tmp_path).resolved(tmp_path / "folder")
    data.write_bytes(b"short")
    with pytest.raises(InputError, match=r"program.tensors.a.init.data: .*expected 4,096 bytes .*, not 5"):
        prepare(loads(text, tmp_path))
