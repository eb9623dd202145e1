"""Scenario files: what is read, what is refused and where, overrides, hashes, and writing them back."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodel.errors import CapacityError, ConfigError, HwmodelError, InputError
from hwmodel.problem import MatmulProblem, QuantizeProblem
from hwmodel.scenario import Scenario, load, loads

TEXT = """\
name: small
question: Does it read?
arch: ascend_a6
problem: {op: matmul, m: 64, k: 128, n: 96, a: hif4, b: hif4, out: bf16}
tiling: {kind: n_split}
inputs:
  a: {kind: uniform, low: -1.0, high: 1.0, seed: 19}
accumulate: {order: seq}
expect: {values: bit_exact}
"""
UNIFORM = "{kind: uniform, low: -1.0, high: 1.0, seed: 19}"
PROBLEM = "{op: matmul, m: 64, k: 128, n: 96, a: hif4, b: hif4, out: bf16}"
QUANTIZE = """\
name: q
arch: ascend_a6
problem: {op: quantize, rows: 16, cols: 64, source: bf16, to: hif4}
inputs: {a: {kind: normal}}
"""
PROGRAM = """\
name: p
arch: ascend_a6
program: {tensors: {}, instructions: [{op: tload}]}
"""


def read(text: str = TEXT, overrides: Any = None, base: Path = Path("/nowhere")) -> Scenario:
    return loads(text, base, overrides=overrides, origin="s.yaml")


def test_what_is_read() -> None:
    scenario = read()
    assert scenario.name == "small"
    assert isinstance(scenario.problem, MatmulProblem)
    assert (scenario.problem.m, scenario.problem.k, scenario.problem.n) == (64, 128, 96)
    assert scenario.tiling.kind == "n_split"
    assert scenario.accumulate.order == "seq"
    assert scenario.expect.values == "bit_exact"
    assert scenario.arch.name == "ascend_a6"


def test_seeds_default_to_0_and_1() -> None:
    inputs = read(TEXT.replace(", seed: 19", "")).inputs
    assert (inputs.a.seed, inputs.b.kind, inputs.b.seed) == (0, "normal", 1)
    inputs = read(TEXT, {"inputs.b": {"kind": "uniform"}}).inputs
    assert inputs.b.seed == 1
    assert read(TEXT, {"inputs.b": {"kind": "uniform", "seed": 0}}).inputs.b.seed == 0


def test_rules_are_named() -> None:
    inputs = read().inputs
    assert (inputs.a.rule, inputs.b.rule) == ("a6", "a6")
    inputs = read(TEXT.replace("a: hif4, b: hif4", "a: bf16, b: mxfp4_e2m1")).inputs
    assert (inputs.a.rule, inputs.b.rule) == (None, "floor")


def test_quantize_and_program() -> None:
    scenario = read(QUANTIZE)
    assert isinstance(scenario.problem, QuantizeProblem)
    assert scenario.tiling is None
    scenario = read(PROGRAM)
    assert scenario.problem is None
    assert scenario.program == {"tensors": {}, "instructions": ({"op": "tload"},)}


BAD = [
    ("name: small\n", "", 1, "name: expected text, but it is missing"),
    ("name: small", "name: 3", 1, "name: expected text, not 3"),
    ("name: small", "name: ../up", 1, "name: expected a name that a folder can have, not '../up'"),
    ("name: small", "name: .x", 1, "name: expected a name that a folder can have"),
    ("name: small", "name: ''", 1, "name: expected text of at least 1 characters"),
    ("problem:", "promblem:", 4, "promblem: expected one of schema_version, name,"),
    ("problem:", "promblem:", 4, "not 'promblem', did you mean 'problem'?"),
    ("question:", "schema_version: 2\nquestion:", 2, "schema_version: expected 1, not 2"),
    (f"problem: {PROBLEM}\n", "", 1, "problem: expected a problem or a program, but it is missing"),
    (PROBLEM, "3", 4, "problem: expected a mapping, not 3"),
    ("op: matmul, ", "", 4, "problem.op: expected one of matmul, quantize, but it is missing"),
    ("op: matmul", "op: matmull", 4, "not 'matmull', did you mean 'matmul'?"),
    ("k: 128, ", "", 4, "problem.k: expected an integer, but it is missing"),
    ("m: 64", "m: 0", 4, "problem.m: expected a number greater than 0, not 0"),
    ("m: 64", "m: -64", 4, "problem.m: expected a number greater than 0, not -64"),
    ("m: 64", "m: '64'", 4, "problem.m: expected an integer, not '64'"),
    ("m: 64", "m: 64.0", 4, "problem.m: expected an integer, not 64.0"),
    ("m: 64", "m: true", 4, "problem.m: expected an integer, not true"),
    ("m: 64", "m: yes", 4, "problem.m: expected an integer, not 'yes'"),
    ("m: 64", "m: ", 4, "problem.m: expected an integer, not nothing"),
    ("m: 64", "m: [64]", 4, "problem.m: expected an integer, not [64]"),
    ("n: 96", "k: 96", 4, "problem.k: expected each key once"),
    ("m: 64", "mm: 64", 4, "problem.mm: expected one of op, m, k, n, a, b, out, epilogue, layout"),
    ("a: hif4, b", "a: hif44, b", 4, "problem.a: unknown dtype 'hif44', did you mean 'hif4'?"),
    ("out: bf16", "out: hif4", 4, "problem.out: expected one of fp32,"),
    ("out: bf16", "out: bf61", 4, "problem.out: unknown dtype 'bf61', did you mean 'bf16'?"),
    ("out: bf16", "out: bf16, epilogue: {scale: [1, 2]}", 4, "problem.epilogue.scale: expected 96 factors"),
    ("out: bf16", "out: bf16, epilogue: {scale: x}", 4, "problem.epilogue.scale: expected a number or a list, not 'x'"),
    ("out: bf16", "out: bf16, layout: {b: km}", 4, "problem.layout.b: expected kn or nk, not 'km'"),
    ("ascend_a6", "ascend_6", 3, "arch: unknown arch 'ascend_6', did you mean 'ascend_a6'?"),
    ("ascend_a6", "./none.yaml", 3, "arch: expected an arch file, but there is none at /nowhere/none.yaml"),
    ("arch: ascend_a6\n", "", 1, "arch: expected a name, a path or a mapping, but it is missing"),
    ("arch:", "arhc:", 3, "arhc: expected one of schema_version, name,"),
    ("arch:", "arhc:", 3, "not 'arhc', did you mean 'arch'?"),
    ("ascend_a6", "{base: ascend_a6, cores: x}", 3, "arch.cores: expected an integer, not 'x'"),
    ("tiling: {kind: n_split}\n", "", 1, "tiling: expected a tiling of kind n_split,"),
    ("n_split", "nsplit", 5, "tiling.kind: expected one of"),
    ("n_split", "nsplit", 5, "not 'nsplit', did you mean 'n_split'?"),
    ("{kind: n_split}", "{tile_n: 64}", 5, "tiling.kind: expected one of"),
    ("n_split}", "n_split, tile_m: 64}", 5, "did you mean 'tile_n'?"),
    ("n_split}", "n_split, tile_n: 0}", 5, "tiling.tile_n: expected a number greater than 0, not 0"),
    ("n_split}", "n_split, buffers: {l0c: 3}}", 5, "tiling.buffers.l0c: expected 1 or 2, not 3"),
    ("kind: uniform", "kind: unifrom", 7, "inputs.a.kind: expected one of normal,"),
    ("kind: uniform", "kind: unifrom", 7, "did you mean 'uniform'?"),
    ("seed: 19", "sed: 19", 7, "inputs.a.sed: expected one of"),
    ("seed: 19", "seed: -1", 7, "inputs.a.seed: expected a number of at least 0, not -1"),
    ("seed: 19", "seed: 4294967296", 7, "inputs.a.seed: expected a number of at most 4294967295"),
    ("high: 1.0", "high: -1", 7, "inputs.a.high: expected a number greater than low (-1.0), not -1.0"),
    ("high: 1.0", "high: .inf", 7, "inputs.a.high: expected a finite number, not inf"),
    ("seed: 19", "rule: a7", 7, "inputs.a.rule: expected one of a6,"),
    ("seed: 19", "rule: floor", 7, "for hif4, not 'floor'"),
    (UNIFORM, "{kind: integers, low: 1, high: 1}", 7, "inputs.a.high: expected an integer greater than low (1), not 1"),
    (UNIFORM, "{kind: normal, std: -1}", 7, "inputs.a.std: expected a number of at least 0, not -1"),
    (UNIFORM, "{kind: constant}", 7, "inputs.a.value: expected a number, but it is missing"),
    (UNIFORM, "{kind: npy, path: 3}", 7, "inputs.a.path: expected text, not 3"),
    (UNIFORM, "{kind: npy, path: x.npy, nonfinite: kep}", 7, "expected refuse or keep, not 'kep', did you mean"),
    (UNIFORM, "{kind: packed, data: x.bin}", 7, "inputs.a.scales: expected a file of scale cells, as hif4 has"),
    ("seq", "group}\nx: {y: 1", 9, "x: expected one of"),
    ("seq", "sq", 8, "accumulate.order: expected seq, group, f64 or blas, not 'sq', did you mean 'seq'?"),
    ("bit_exact", "exact", 9, "expect.values: expected bit_exact, not 'exact'"),
    ("values: bit_exact", "cycles: -1", 9, "expect.cycles: expected a number of at least 0, not -1"),
    ("values: bit_exact", "cycle: 1", 9, "expect.cycle: expected one of values, out, scales, cycles"),
    ("values: bit_exact", "out: golden.bin", 9, "expect.out: expected a mapping, not 'golden.bin'"),
    ("values: bit_exact", "scales: {path: x}", 9, "expect.scales: expected only out"),
]


@pytest.mark.parametrize(("old", "new", "line", "problem"), BAD)
def test_bad_fields_are_one_line_with_file_line_and_field(old: str, new: str, line: int, problem: str) -> None:
    text = TEXT.replace(old, new)
    assert text != TEXT
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value).startswith(f"s.yaml:{line}: ")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


OTHER_BAD = [
    (TEXT.replace("a: hif4, b: hif4", "a: bf16, b: bf16").replace("seq", "group"), "accumulate.order: expected seq"),
    (TEXT.replace("a: hif4", "a: fp8_e4m3").replace(UNIFORM, "{kind: packed, data: x, scales: y}"), "expected none"),
    (TEXT.replace("a: hif4", "a: bf16").replace("seed: 19", "rule: a6"), "inputs.a.rule: expected none, as bf16"),
    (QUANTIZE + "tiling: {kind: n_split}\n", "tiling: expected none, as a quantize problem is not tiled"),
    (QUANTIZE.replace("{kind: normal}", "{kind: normal}, b: {kind: normal}"), "inputs.b: expected only inputs.a"),
    (QUANTIZE.replace("{kind: normal}", "{kind: normal, rule: floor}"), "for hif4, not 'floor'"),
    (PROGRAM + "tiling: {kind: n_split}\n", "tiling: expected either a program or a problem"),
    (TEXT.replace("out: bf16", "out: bf16, epilogue: {offset: 3}"), "problem.epilogue.offset: expected 0"),
    (PROGRAM + "inputs: {}\n", "inputs: expected either a program or a problem"),
    ("", "expected a mapping with name, arch, problem and tiling, not nothing"),
    ("[1]", "expected a mapping with name, arch, problem and tiling, not [1]"),
    ("a: [", "expected YAML text"),
]


@pytest.mark.parametrize(("text", "problem"), OTHER_BAD)
def test_bad_combinations(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert problem in str(caught.value)
    assert str(caught.value).startswith("s.yaml")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("none.yaml", "none.yaml: expected a scenario file, but there is none of that name"),
        ("folder", "folder: expected a scenario, not a folder"),
        ("nothing_like_that", "unknown scenario 'nothing_like_that'"),
    ],
)
def test_no_such_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError) as caught:
        load(name)
    assert problem in str(caught.value)


def test_messages_name_the_file_as_people_know_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "s.yaml").write_text(TEXT.replace("m: 64", "m: 0"))
    with pytest.raises(ConfigError, match=r"^sub/s.yaml:4: problem.m: "):
        load(tmp_path / "sub" / "s.yaml")


def test_a_machine_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("base: ascend_a6\ncores: 3\n")
    (tmp_path / "s.yaml").write_text(TEXT.replace("ascend_a6", "mine.yaml"))
    arch = load(tmp_path / "s.yaml").arch
    assert (arch.name, arch.spec.cores) == ("mine", 3)


# -- overrides -----------------------------------------------------------------------------------------------------


def test_set_replaces_fields() -> None:
    sets = ["problem.m=256", "expect={}", "accumulate.order=f64", "arch.units.fixpipe.bytes_per_cycle=64"]
    scenario = read(TEXT, sets)
    assert isinstance(scenario.problem, MatmulProblem)
    assert scenario.problem.m == 256
    assert scenario.expect.values is None
    assert scenario.accumulate.order == "f64"
    assert scenario.arch.unit("fixpipe").bytes_per_cycle == 64


def test_later_overrides_win() -> None:
    assert read(TEXT, ["name=a", "name=b"]).name == "b"


def test_set_of_what_the_file_leaves_out() -> None:
    scenario = read(TEXT, ["problem.epilogue.relu=true", "tiling.buffers.l0c=2", "expect.cycles=3"])
    assert isinstance(scenario.problem, MatmulProblem)
    assert scenario.problem.epilogue.relu
    assert scenario.tiling.buffers.l0c == 2
    assert scenario.expect.cycles == 3


def test_another_kind_of_tiling_drops_the_fields_of_the_first() -> None:
    text = TEXT.replace("n_split}", "n_split, tile_n: 64, buffers: {l0: 2, l0c: 2}}")
    for sets in (["tiling.kind=blocked", "tiling.base=[16,64,64]"], ["tiling.base=[16,64,64]", "tiling.kind=blocked"]):
        tiling = read(text, sets).tiling
        assert tiling.kind == "blocked"
        assert tiling.base == (16, 64, 64)
    back = read(text, ["tiling.kind=n_split"]).tiling
    assert back.tile_n == 64


def test_another_kind_of_input_drops_the_fields_of_the_first() -> None:
    source = read(TEXT, ["inputs.a.kind=normal"]).inputs.a
    assert (source.kind, source.seed) == ("normal", 19)
    source = read(TEXT, ["inputs.a.value=0.5", "inputs.a.kind=constant"]).inputs.a
    assert (source.kind, source.value) == ("constant", 0.5)


def test_another_operation_drops_what_only_a_matmul_has() -> None:
    sets = ["problem.op=quantize", "problem.rows=16", "problem.cols=64", "problem.to=hif4"]
    scenario = read(TEXT + "", sets)
    assert isinstance(scenario.problem, QuantizeProblem)
    assert scenario.tiling is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("problem.m=0", "expected a number greater than 0, not 0"),
        ("problem.mm=3", "did you mean 'm'?"),
        ("prob.m=3", "did you mean 'problem'?"),
        ("problem.m.x=3", "expected a path, but problem.m is 64 and has no fields"),
        ("problem.op=quantise", "did you mean 'quantize'?"),
        ("tiling.kind=blockd", "expected one of"),
        ("tiling.tile_m=64", "did you mean 'tile_n'?"),
        ("inputs.a.seed=x", "expected an integer, not 'x'"),
        ("arch=ascend_a66", "did you mean 'ascend_a6'?"),
        ("arch.cores=0", "expected a number greater than 0, not 0"),
        ("problem={op: matmul}", "expected an integer, but it is missing"),
    ],
)
def test_bad_overrides_name_the_flag(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(TEXT, [text])
    assert str(caught.value).startswith(f"--set {text.partition('=')[0]}: ")
    assert problem in str(caught.value)


def test_a_dtype_without_a_rate_is_refused_where_it_is_asked_for() -> None:
    with pytest.raises(
        ConfigError, match=r"^s.yaml:4: problem.a: expected a dtype that the Cube has a rate for, not hif4"
    ):
        read(TEXT, {"arch.units.cube.fractals": {"fp16": {"k_per_fractal": 16}}})


def test_overrides_do_not_change_the_given_data() -> None:
    value = {"kind": "uniform"}
    read(TEXT, {"inputs.b": value})
    assert value == {"kind": "uniform"}


# -- paths, hashes, writing back -----------------------------------------------------------------------------------


def with_files(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    np.save(folder / "a.npy", np.ones((64, 128), np.float32))
    (folder / "b.bin").write_bytes(bytes(128 * 48))
    (folder / "b_scale.bin").write_bytes(bytes(6 * 2 * 64))
    (folder / "golden.bin").write_bytes(bytes(64 * 96 * 2))
    text = TEXT.replace(UNIFORM, "{kind: npy, path: a.npy}\n  b: {kind: packed, data: b.bin, scales: b_scale.bin}")
    text = text.replace("{values: bit_exact}", "{out: {path: ../" + folder.name + "/golden.bin}}")
    (folder / "s.yaml").write_text(text)
    return folder / "s.yaml"


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = with_files(tmp_path / "one")
    monkeypatch.chdir("/")
    names = ["a.npy", "b.bin", "b_scale.bin", "golden.bin"]
    assert load(file).files() == [tmp_path / "one" / name for name in names]


def test_paths_of_overrides_are_those_of_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = with_files(tmp_path / "one")
    np.save(tmp_path / "other.npy", np.zeros((64, 128), np.float32))
    monkeypatch.chdir(tmp_path)
    assert load(file, ["inputs.a.path=other.npy"]).files()[0] == tmp_path / "other.npy"
    assert load(file, ["inputs.a.path=golden.bin"]).files()[0] == tmp_path / "one" / "golden.bin"


def test_the_hash_covers_scenario_machine_and_file_contents(tmp_path: Path) -> None:
    file = with_files(tmp_path / "one")
    first = load(file).hash()
    assert len(first) == 12
    assert load(file).hash() == first
    assert load(with_files(tmp_path / "two")).hash() == first
    others = [{"problem.layout.b": "nk"}, {"expect": {}}, {"arch.cores": 3}, {"name": "x"}]
    hashes = {first, *(load(file, change).hash() for change in others)}
    assert len(hashes) == 5
    np.save(tmp_path / "one" / "a.npy", np.zeros((64, 128), np.float32))
    assert load(file).hash() != first


def test_the_hash_does_not_depend_on_how_the_file_is_written() -> None:
    other = TEXT.replace("m: 64, k: 128", "k: 0x80, m: 0o100").replace("low: -1.0", "low: -1") + "# a comment\n"
    assert read(other).hash() == read().hash()
    assert read(TEXT + "schema_version: 1\n").hash() == read().hash()


def test_the_hash_needs_the_files(tmp_path: Path) -> None:
    file = with_files(tmp_path / "one")
    (tmp_path / "one" / "b.bin").unlink()
    with pytest.raises(ConfigError, match=r"s.yaml:8: inputs.b.data: expected a file, but .*b.bin cannot be read"):
        load(file).hash()


def test_scales_of_a_16_bit_operand_are_not_read(tmp_path: Path) -> None:
    text = TEXT.replace("a: hif4", "a: bf16").replace(UNIFORM, "{kind: packed, data: b.bin, scales: none.bin}")
    (tmp_path / "b.bin").write_bytes(b"")
    scenario = read(text, base=tmp_path)
    assert scenario.files() == [tmp_path / "b.bin"]
    assert scenario.hash()
    assert read(scenario.resolved()) == scenario


@pytest.mark.parametrize("text", [TEXT, QUANTIZE, PROGRAM])
def test_resolved_text_reads_back_equal(text: str, tmp_path: Path) -> None:
    scenario = read(text, {"arch.cores": 3, "arch.units.fixpipe.row_floor_cycles": 0.1})
    again = loads(scenario.resolved(tmp_path), tmp_path)
    assert again == scenario
    assert again.hash() == scenario.hash()
    assert again.resolved(tmp_path) == scenario.resolved(tmp_path)


def test_resolved_paths_are_relative_to_the_run_folder(tmp_path: Path) -> None:
    scenario = load(with_files(tmp_path / "one"))
    text = scenario.resolved(tmp_path / "runs" / "x")
    assert "path: ../../one/a.npy" in text
    assert os.fspath(tmp_path) not in text
    again = loads(text, tmp_path / "runs" / "x")
    assert again == scenario
    assert again.hash() == scenario.hash()


@settings(max_examples=30, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "problem.m": st.integers(1, 5000),
            "problem.out": st.sampled_from(["fp32", "bf16", "fp16"]),
            "problem.epilogue": st.fixed_dictionaries({"relu": st.booleans(), "scale": st.none() | st.floats(0.1, 10)}),
            "inputs.a": st.fixed_dictionaries({"kind": st.just("normal"), "mean": st.floats(-1e30, 1e30)}),
            "question": st.text(max_size=30),
            "arch.clock_mhz": st.floats(0.001, 1e5) | st.integers(1, 9999),
        }
    )
)
def test_any_scenario_reads_back_equal(overrides: dict[str, Any]) -> None:
    scenario = read(TEXT, overrides)
    again = read(scenario.resolved())
    assert again == scenario
    assert again.hash() == scenario.hash()


def test_scenarios_travel_between_processes() -> None:
    scenario = read()
    again = pickle.loads(pickle.dumps(scenario))
    assert again == scenario
    assert str(again.error("problem.m", "bad")) == "s.yaml:4: problem.m: bad"


# -- late errors ---------------------------------------------------------------------------------------------------


def test_late_errors_get_their_line() -> None:
    scenario = read(TEXT, {"tiling.tile_n": 65})
    located: HwmodelError = scenario.locate(InputError("tiling.tile_n: expected a multiple of 64, not 65"))
    assert str(located) == "--set tiling.tile_n: tiling.tile_n: expected a multiple of 64, not 65"
    located = scenario.locate(InputError("no such pair"), "problem")
    assert str(located) == "s.yaml:4: problem: no such pair"
    located = scenario.locate(CapacityError("l0c", 10, 5, "a slice"), "tiling")
    assert str(located) == "s.yaml:5: tiling: l0c: a slice needs 10 bytes, 5 bytes are there"
    same = ConfigError("f:1", "x", "bad")
    assert scenario.locate(same) is same
    assert str(scenario.error("inputs.b.seed", "bad")) == "s.yaml:6: inputs.b.seed: bad"
