"""Machines from files: sources, variants, overrides, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hwmodel.arch import CONFIDENCES, Source
from hwmodel.config.arch import load_arch
from hwmodel.config.overrides import parse_overrides
from hwmodel.config.reader import read_file, read_text
from hwmodel.config.resources import shipped_archs
from hwmodel.config.sourced import DEFAULT, OVERRIDE, UNSTATED, is_sourced, numbers
from hwmodel.errors import ConfigError

ARCHS = sorted(shipped_archs())


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def load_set(*sets: str, reference: Any = "ascend_a6") -> Any:
    return load_arch(reference, overrides=parse_overrides(sets))


@pytest.mark.parametrize("name", ARCHS)
def test_every_shipped_machine_loads_under_its_file_name(name: str) -> None:
    assert load_arch(name).name == name


@pytest.mark.parametrize("name", ARCHS)
def test_every_number_that_ships_says_its_source(name: str) -> None:
    data = read_file(shipped_archs()[name]).data
    for path, value in numbers(data):
        assert path[-1] == "value", f"{path}: {value} is bare"
    arch = load_arch(name)
    for path, source in arch.sources.items():
        assert source.confidence in CONFIDENCES, path
        assert source.source.strip(), path
        assert source not in (UNSTATED, OVERRIDE), path


@pytest.mark.parametrize("name", ARCHS)
def test_every_number_of_a_machine_has_a_source(name: str) -> None:
    from hwmodel.config.paths import format_path
    from hwmodel.config.plain import plain

    arch = load_arch(name)
    for path, _ in numbers(plain(arch.spec)):
        assert any(format_path(path[:cut]) in arch.sources for cut in range(len(path), 0, -1)), path


def test_values_are_exact_and_sources_kept() -> None:
    arch = load_arch("ascend_a6")
    assert arch.unit("fixpipe").row_floor_cycles == Fraction(459, 100)
    assert arch.sources["buffers.l0c.capacity_bytes"].confidence == "spec"
    assert arch.sources["units.cube.fractals.hif4.passes"] == DEFAULT


def test_a_bare_override_is_assumed() -> None:
    arch = load_set("arch.units.fixpipe.bytes_per_cycle=64", "arch.cores={value: 8, source: mine, confidence: silicon}")
    assert arch.unit("fixpipe").bytes_per_cycle == 64
    assert arch.sources["units.fixpipe.bytes_per_cycle"] == Source("override", "assumed")
    assert arch.sources["cores"] == Source("mine", "silicon")


def test_variants_of_variants(tmp_path: Path) -> None:
    write(tmp_path, "one.yaml", "base: ascend_a6\ncores: 8\nunits: {cube: {startup_cycles: 20}}\n")
    text = "base: one.yaml\nname: mine\ncores: {value: 4, source: a note, confidence: fit}\n"
    arch = load_arch("two.yaml", write(tmp_path, "two.yaml", text).parent)
    assert (arch.name, arch.spec.cores, arch.unit("cube").startup_cycles) == ("mine", 4, 20)
    assert arch.sources["cores"] == Source("a note", "fit")
    assert arch.sources["units.cube.startup_cycles"] == OVERRIDE
    assert arch.unit("cube").fractals == load_arch("ascend_a6").unit("cube").fractals
    assert load_arch("one.yaml", tmp_path).name == "one"


def test_a_variant_that_comes_back_to_itself(tmp_path: Path) -> None:
    write(tmp_path, "one.yaml", "base: ./two.yaml\n")
    write(tmp_path, "two.yaml", "name: two\nbase: ./one.yaml\n")
    with pytest.raises(ConfigError, match=r"two.yaml:2: base: .* not one.yaml -> two.yaml -> one.yaml"):
        load_arch("one.yaml", tmp_path)


def test_another_kind_of_unit_replaces_the_whole_unit(tmp_path: Path) -> None:
    text = "base: ascend_a6\nunits: {cube: {kind: fixpipe}}\n"
    with pytest.raises(ConfigError, match=r"x.yaml:2: units.cube.startup_cycles: expected an integer, but"):
        load_arch(str(write(tmp_path, "x.yaml", text)))


def test_an_inline_machine() -> None:
    arch = load_arch({"base": "ascend_a6", "l2": None, "launch_cycles": 100})
    assert arch.spec.l2 is None
    assert arch.spec.launch_cycles == 100
    assert "l2.capacity_bytes" not in arch.sources


def test_a_file_of_its_own_may_leave_sources_out(tmp_path: Path) -> None:
    data = read_file(shipped_archs()["ascend_a6"]).data
    bare = strip(data)
    from hwmodel.config.dump import dump

    arch = load_arch(str(write(tmp_path, "bare.yaml", dump(bare))))
    assert arch.spec == load_arch("ascend_a6").spec
    assert set(arch.sources.values()) == {UNSTATED, DEFAULT}


def strip(data: Any) -> Any:
    if is_sourced(data):
        return data["value"]
    if isinstance(data, dict):
        return {name: strip(value) for name, value in data.items()}
    return data


BAD = [
    ("name: x", "", "base: expected the machine that this one changes, or a whole one, not one without family, "),
    ("units: {tload: {bytes_per_cycle: 20}}", "", "base: expected the machine that this one changes"),
    ("extends: ascend_a5", "", "base: expected the machine that this one changes"),
    ("bases: ascend_a6\nfamily: ascend", "", "base: expected the machine that this one changes"),
    ("base: ascend_a66", ":1", "base: unknown arch 'ascend_a66', did you mean 'ascend_a6'?"),
    ("base: [1]", ":1", "base: expected the name or path of a machine, not [1]"),
    ("base: ./no.yaml", ":1", "base: expected an arch file, but there is none at"),
    ("base: ascend_a6\ncore: 3", ":2", "core: expected one of"),
    ("base: ascend_a6\ncore: 3", ":2", "did you mean 'cores'?"),
    ("base: ascend_a6\nextends: ascend_a5", ":2", "features, base, not 'extends'"),
    ("base: ascend_a6\ncores: 0", ":2", "cores: expected a number greater than 0, not 0"),
    ("base: ascend_a6\ncores: 1.5", ":2", "cores: expected an integer, not 1.5"),
    ("base: ascend_a6\nclock_mhz: fast", ":2", "clock_mhz: expected a number, not 'fast'"),
    ("base: ascend_a6\nclock_mhz: .inf", ":2", "clock_mhz: expected a number, not inf"),
    ("base: ascend_a6\nclock_mhz: [1]", ":2", "clock_mhz: expected a number, not [1]"),
    ("base: ascend_a6\nclock_mhz: true", ":2", "clock_mhz: expected a number, not true"),
    ("base: ascend_a6\nfamily: ascent", ":2", "expected ascend or neuron, not 'ascent', did you mean 'ascend'?"),
    ("base: ascend_a6\ncores: {value: 3, source: x}", ":2", "cores: expected value, source and confidence, but confid"),
    ("base: ascend_a6\ncores:\n  value: 3\n  sorce: x", ":4", "cores.sorce: expected value, source and confid"),
    ("base: ascend_a6\ncores: {value: 3, source: x, confidence: silicn}", ":2", "did you mean 'silicon'?"),
    ("base: ascend_a6\ncores: {value: 3, source: 3, confidence: fit}", ":2", "cores.source: expected text, not 3"),
    ("base: ascend_a6\ncores: {value: {}, source: a, confidence: fit}", ":2", "cores.value: expected a number, not"),
    ("base: ascend_a6\nunits: {cub: {kind: cube}}", ":2", "units.cub.startup_cycles: expected an integer"),
    ("base: ascend_a6\nunits: {mte9: {kind: tlod}}", ":2", "units.mte9.kind: expected one of"),
    ("base: ascend_a6\nunits: {textract: {bytes_per_cycle: {l0d: 3}}}", ":2", "unknown buffer 'l0d', did you mean 'l0"),
    ("base: ascend_a6\nunits: {cube: {fractals: {hif5: {k_per_fractal: 3}}}}", ":2", "unknown dtype 'hif5'"),
    ("base: ascend_a6\noperand_pairs: {mx: [[hif4, hif44]]}", ":2", "operand_pairs.mx[0][1]: unknown dtype 'hif44'"),
    ("base: ascend_a6\nbuffers: {l0c: {banks: two}}", ":2", "expected an integer or none or per_tile, not 'two'"),
    (
        "base: neuron_trn1\nbuffers: {psum: {one_at_a_time: [DVE, ATC]}}",
        ":2",
        "unknown engine 'ATC', did you mean",
    ),
    (
        "base: neuron_trn2\nunits: {vector: {modes: {x: {of: cpy, elements_per_cycle: 2}}}}",
        ":2",
        "did you mean 'copy'?",
    ),
    ("base: neuron_trn2\nunits: {vector: {modes: {x: {of: copy, widths: [9_bit]}}}}", ":2", "not '9_bit'"),
    ("base: neuron_trn2\nunits: {vector: {elements_per_cycle: {cpy: 2}}}", ":2", "elements_per_cycle"),
    ("base: ascend_a6\nschema_version: 2", ":2", "schema_version: expected 1, not 2"),
    ("- 1", "", "expected a mapping that describes a machine, not [1]"),
]


@pytest.mark.parametrize(("text", "line", "problem"), BAD)
def test_bad_machines_are_one_line(tmp_path: Path, text: str, line: str, problem: str) -> None:
    path = write(tmp_path, "x.yaml", text)
    with pytest.raises(ConfigError) as caught:
        load_arch(str(path))
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.where.startswith(str(path) + line)


def test_unit_key_and_kind_must_agree() -> None:
    data = read_text("{base: ascend_a6, units: {drain: {kind: cube, startup_cycles: 1, fractals: {}}}}", "f").data
    with pytest.raises(ConfigError, match=r"expected the name of its kind, cube, not drain"):
        load_arch(data)


SETS = [
    ("arch.units.fixpip.bytes_per_cycle=64", "did you mean 'fixpipe'?"),
    ("arch.units.fixpipe.bytes_per_cycl=64", "did you mean 'bytes_per_cycle'?"),
    ("arch.units.textract.bytes_per_cycle.l0d=64", "did you mean 'l0"),
    ("arch.units.fixpipe.bytes_per_cycle=x", "expected a number, not 'x'"),
    ("arch.units.fixpipe.bytes_per_cycle.value=3", "has no fields"),
    ("arch.operand_pairs.mx[99]=hif4", "expected an index from 0 to 15, not 99"),
    ("arch.links={}", "expected hbm in a machine of family ascend, but hbm is missing"),
    ("arch.units={}", "expected tload, textract, cube, fixpipe in a machine of family ascend, but tload is missing"),
    ("arch.buffers={}", "but l1 is missing"),
    ("arch.units.textract.bytes_per_cycle={l0a: 3}", "expected a rate for l0a_mx, but it is missing"),
    ("arch.clock=3", "did you mean 'clock_mhz'?"),
    ("arch.buffers.l0c.banks=0", "expected a number greater than 0 or none or per_tile, not 0"),
    ("arch.buffers.l0c.banks=-1", "expected a number greater than 0 or none or per_tile, not -1"),
]


@pytest.mark.parametrize(("text", "problem"), SETS)
def test_bad_overrides_name_the_flag(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_set(text)
    assert problem in str(caught.value)
    assert caught.value.where == "--set " + text.partition("=")[0]
    assert caught.value.field == text.partition("=")[0]


def test_an_override_may_add_a_whole_entry_of_a_table() -> None:
    arch = load_set("arch.units.cube.fractals.uint8={k_per_fractal: 32}", "arch.operand_pairs.plain.0=[uint8, uint8]")
    assert arch.unit("cube").fractals["uint8"].k_per_fractal == 32
    assert arch.sources["units.cube.fractals.uint8.k_per_fractal"] == OVERRIDE
    assert arch.spec.operand_pairs.plain[0] == ("uint8", "uint8")
