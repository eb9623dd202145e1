"""Bad input of every kind through the command line: one line, exit code 2, no waiting and no full memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwmodel.scenario import load

Cli = Callable[..., Any]


@pytest.mark.parametrize("kind", ["blocked", "auto"])
@pytest.mark.parametrize("extents", [(10**6, 10**6, 10**6), (10**9, 1, 1), (1, 10**9, 1), (1, 1, 10**9), (2**62,) * 3])
def test_a_program_that_no_memory_holds(cli: Cli, kind: str, extents: tuple[int, int, int]) -> None:
    sets = [f"--set=problem.{name}={extent}" for name, extent in zip("mkn", extents, strict=True)]
    call = cli("check", "small.yaml", f"--set=tiling={{kind: {kind}}}", *sets)
    assert call.code == 2
    assert "problem: expected at most 1,000,000 blocks of 256 x 512 x 512 (m, k, n), which is" in call.error


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("schema_version=true", "schema_version: expected an integer, not true"),
        ("schema_version=1.0", "schema_version: expected an integer, not 1.0"),
        ("tiling={kind: n_split, buffers: {l0: true}}", "tiling.buffers.l0: expected an integer, not true"),
        ("tiling.buffers={l0: 99999999999999999999}", "tiling.buffers.l0: expected a smaller integer, not 99999"),
        ("tiling={kind: blocked, core_grid: [1]}", "tiling.core_grid: expected 2 items, not 1"),
        ("tiling={kind: blocked, base: []}", "tiling.base: expected 3 items, not 0"),
        ("tiling={kind: }", "tiling.kind: expected one of n_split, blocked"),
        ("tiling={kind: }", ", not nothing"),
        ("problem.epilogue={scale: .nan}", "problem.epilogue.scale: expected a finite number"),
        ("problem.epilogue={scale: 1e400}", "problem.epilogue.scale: expected a finite number"),
        ("inputs.a={kind: npy, path: pipe}", "inputs.a.path: .: expected a file, not a device or pipe"),
        (
            "inputs.a={kind: packed, data: pipe, scales: pipe}",
            "inputs.a.data: .: expected a file, not a device",
        ),
    ],
)
def test_fields(cli: Cli, here: Path, change: str, problem: str) -> None:
    os.mkfifo(here / "pipe")
    call = cli("check", "small.yaml", "--set", change)
    assert call.code == 2
    assert problem in call.error.replace(str(here / "pipe"), ".")


def test_a_list_that_is_too_short_is_told_where_it_was_written(cli: Cli, here: Path) -> None:
    text = (here / "small.yaml").read_text().replace("n_split", "blocked, core_grid: [1, 1]")
    (here / "small.yaml").write_text(text)
    error = cli("check", "small.yaml", "--set", "tiling.core_grid=[1]").error
    assert error == "--set tiling.core_grid: tiling.core_grid: expected 2 items, not 1"
    (here / "small.yaml").write_text(text.replace("[1, 1]", "[1]"))
    assert cli("check", "small.yaml").error == "small.yaml:5: tiling.core_grid: expected 2 items, not 1"


@pytest.mark.parametrize("out", ["int8", "hif8"])
def test_outputs_that_a_neuron_core_cannot_hold(cli: Cli, out: str) -> None:
    problem = f"problem={{op: matmul, m: 32, k: 64, n: 64, a: bf16, b: bf16, out: {out}}}"
    call = cli("check", "small.yaml", "--set=arch=neuron_trn2", "--set=tiling={kind: tiled}", "--set", problem)
    assert call.code == 2
    assert "problem.out: expected one of fp32, fp16, bf16, " in call.error
    assert f"on a NeuronCore, not {out}" in call.error


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("x" * 5000, "File name too long"),
        ("x" * 5000 + ".yaml", "File name too long"),
        ("", "expected a scenario, not an empty name"),
        ("pipe", "pipe: expected a scenario file, not a device or pipe"),
        ("loop", "loop: expected a scenario file, but Too many levels of symbolic links"),
    ],
)
def test_names_of_scenarios(cli: Cli, here: Path, name: str, problem: str) -> None:
    os.mkfifo(here / "pipe")
    (here / "loop").symlink_to("loop")
    call = cli("check", name)
    assert call.code == 2
    assert problem in call.error
    assert len(call.error) < 300
    assert cli("explain", name).code == cli("export", name, "--to", "csv").code == 2


def test_a_long_chain_of_bases(cli: Cli, here: Path) -> None:
    for index in range(60):
        (here / f"arch{index}.yaml").write_text(f"base: {f'arch{index - 1}.yaml' if index else 'ascend_a6'}\n")
    assert cli("check", "small.yaml", "--set", "arch=arch40.yaml").code == 0
    assert "base: expected at most 50 bases" in cli("check", "small.yaml", "--set", "arch=arch59.yaml").error


def test_a_header_that_is_no_python(cli: Cli, here: Path) -> None:
    np.save(here / "a.npy", np.zeros((32, 64)))
    whole = (here / "a.npy").read_bytes()
    header = (b"{'descr': " + b"(" * 30).ljust(117) + b"\n"
    (here / "a.npy").write_bytes(whole[:10] + header + whole[128:])
    call = cli("check", "small.yaml", "--set", "inputs.a={kind: npy, path: a.npy}")
    assert "a.npy: expected a .npy file, not one with this header" in call.error


@pytest.mark.parametrize(
    ("field", "value"),
    [("schema_version", True), ("cycles", "x"), ("cycles", True), ("values", []), ("expect", None), ("hazards", 3)],
)
def test_a_summary_that_was_changed(cli: Cli, here: Path, field: str, value: object) -> None:
    assert cli("run", "small.yaml", "-o", "x", "--write", "result").code == 0
    file = here / "x" / "result.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), field: value}))
    for arguments in (["export", "x", "--to", "csv"], ["explain", "x", "--no-whatif"], ["compare", "x", "small.yaml"]):
        call = cli(*arguments)
        assert call.code == 2
        assert f"result.json: {field}: " in call.error or f"expected {field} 1, not" in call.error


@pytest.mark.parametrize("text", ["[" * 100_000, "{", ""])
def test_a_summary_that_is_not_whole(cli: Cli, here: Path, text: str) -> None:
    assert cli("run", "small.yaml", "-o", "x", "--write", "result").code == 0
    (here / "x" / "result.json").write_text(text)
    assert "incomplete run folder: result.json is not whole" in cli("export", "x", "--to", "csv").error


@pytest.mark.parametrize(
    ("field", "value"), [("problem.k", 128), ("inputs.a", {"kind": "normal", "seed": 7}), ("arch.clock_mhz", 1000)]
)
def test_a_run_folder_of_another_scenario_than_its_result_is_bad_input(
    cli: Cli, here: Path, field: str, value: Any
) -> None:
    assert cli("run", "small.yaml", "-o", "x", "--write", "result").code == 0
    changed = load("small.yaml", {field: value})
    (here / "x" / "scenario.resolved.yaml").write_text(changed.resolved(here / "x"))
    for arguments in (["export", "x", "--to", "csv"], ["explain", "x", "--no-whatif"], ["compare", "x", "small.yaml"]):
        call = cli(*arguments)
        assert call.code == 2
        assert "x: result.json is of another scenario: scenario.resolved.yaml, or a file that it reads" in call.error
    file = here / "x" / "result.json"
    document = json.loads(file.read_text())
    document["provenance"]["hwmodel"] = "0.0.1"  # another version hashes in another way: its cycles decide
    file.write_text(json.dumps(document))
    assert cli("compare", "x", "small.yaml", "--write", "none").code == 0


def test_a_file_that_changed_since_the_run_is_bad_input(cli: Cli, here: Path) -> None:
    np.save(here / "a.npy", np.ones((32, 64), np.float32))
    arguments = ("small.yaml", "--set", "inputs.a={kind: npy, path: a.npy}", "-o", "x", "--write", "result")
    assert cli("run", *arguments).code == 0
    assert cli("export", "x", "--to", "csv").code == 0
    np.save(here / "a.npy", np.zeros((32, 64), np.float32))
    assert "has changed since the run" in cli("export", "x", "--to", "csv").error


def test_a_summary_of_other_cycles_is_bad_input(cli: Cli, here: Path) -> None:
    assert cli("run", "small.yaml", "-o", "x", "--write", "result").code == 0
    file = here / "x" / "result.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "cycles": 1}))
    for arguments in (["export", "x", "--to", "csv"], ["explain", "x", "--no-whatif"]):
        call = cli(*arguments)
        assert call.code == 2
        assert "the run had 1 cycles, this version gives" in call.error
