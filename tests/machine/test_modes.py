"""The same program in other ways: bytes or arrays in the buffers, values or none, engines made in another order."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ends, prepared, program_of, scenario, simulated, traced, without_set

from hwmodel.arch import Arch
from hwmodel.errors import DeadlockError
from hwmodel.experiment import Prepared, global_memory, prepare, run
from hwmodel.problem import MatmulProblem
from hwmodel.program import Program, Signal
from hwmodel.scenario import load

SHIPPED = sorted((Path(__file__).resolve().parents[2] / "scenarios").glob("*.yaml"))
MATMULS = [path for path in SHIPPED if isinstance(load(path).problem, MatmulProblem)]
ASCEND = [path for path in MATMULS if load(path).arch.spec.family == "ascend"]
"""A NeuronCore's memory holds bytes only, so there is nothing to compare."""
BLOCKED = {"kind": "blocked", "core_grid": [2, 2], "base": [32, 64, 64], "panel_slices": 2, "cores": "all"}
SHARED = {"arch__links__hbm__bytes_per_cycle": 80}


def matmul_of(ready: Prepared) -> MatmulProblem:
    problem = ready.scenario.problem
    assert isinstance(problem, MatmulProblem)
    return problem


@pytest.mark.parametrize("path", ASCEND, ids=lambda path: path.stem)
def test_buffers_as_bytes_give_the_same_output_and_time(path: Path) -> None:
    ready = prepare(load(path))
    out = []
    for as_bytes in (False, True):
        gm = global_memory(matmul_of(ready), ready.operands)
        trace = traced(ready.scenario.arch, program_of(ready), gm, as_bytes=as_bytes)
        out.append((gm["out"], ends(trace)))
    assert np.array_equal(out[0][0], out[1][0])
    assert out[0][1] == out[1][1]


@pytest.mark.parametrize("path", MATMULS, ids=lambda path: path.stem)
def test_the_order_in_which_engines_and_cores_are_made_changes_nothing(path: Path) -> None:
    ready = prepare(load(path))
    program, arch = program_of(ready), ready.scenario.arch
    expected = ends(traced(arch, program))
    units = list(arch.spec.units)
    for order in (units[::-1], units[2:] + units[:2]):
        shuffled = _with_units(arch, order)
        assert list(shuffled.units) != list(arch.units)
        cores = Program(program.tensors, program.cores[::-1])
        assert ends(traced(shuffled, cores)) == expected


@pytest.mark.parametrize("banks", [1, 2])
@pytest.mark.parametrize("order", list(itertools.permutations(["tload", "textract", "cube", "fixpipe"])))
def test_engines_made_in_any_order_with_banks_and_a_shared_link(order: tuple[str, ...], banks: int) -> None:
    """Four cores on one link, two L0C tiles in one or two banks: every contention there is, with values."""
    tiling = {**BLOCKED, "buffers": {"l0c": 2}}
    ready = prepared(128, 128, 256, tiling=tiling, **SHARED, arch__buffers__l0c__banks=banks)
    program = program_of(ready)
    assert len(program.cores) == 4
    expected = _expected(banks)
    gm = global_memory(matmul_of(ready), ready.operands)
    cores = program.cores[2:] + program.cores[:2]
    shuffled = _with_units(ready.scenario.arch, list(order))
    assert ends(traced(shuffled, Program(program.tensors, cores), gm)) == expected[0]
    assert np.array_equal(gm["out"], expected[1])


@cache
def _expected(banks: int) -> Any:
    tiling = {**BLOCKED, "buffers": {"l0c": 2}}
    result = simulated(128, 128, 256, tiling=tiling, **SHARED, arch__buffers__l0c__banks=banks)
    assert result.trace is not None
    assert result.values.status == "bit_exact"
    return ends(result.trace), result.outputs["out"]


def _with_units(arch: Arch, order: list[str]) -> Arch:
    spec = arch.spec.model_copy(update={"units": {name: arch.spec.units[name] for name in order}})
    return replace(arch, spec=spec)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tiling": {"kind": "n_split", "tile_n": 64, "buffers": {"l0": 2, "l0c": 2}}},
        {"tiling": BLOCKED},
        {"tiling": BLOCKED, "arch__links__hbm__bytes_per_cycle": 70},
        {"arch__buffers__l0c__banks": 1, "tiling": {"kind": "n_split", "tile_n": 64, "buffers": {"l0c": 2}}},
    ],
    ids=str,
)
def test_without_values_every_instruction_has_the_same_time(fields: dict[str, Any]) -> None:
    ready = prepared(96, 192, 200, **fields)
    with_values, without_values = run(ready), run(ready, values="skip")
    assert with_values.trace is not None
    assert without_values.trace is not None
    assert ends(with_values.trace) == ends(without_values.trace)
    assert with_values.stats == without_values.stats
    assert without_values.outputs == {}


def test_a_wait_that_can_never_be_satisfied_ends_with_who_waits_for_whom() -> None:
    ready = prepared(64, 64, 64)
    program = without_set(program_of(ready), 7, Signal("MTE1>M:0"))
    with pytest.raises(DeadlockError) as caught:
        traced(ready.scenario.arch, program)
    # TEXTRACT of the last scales ends at 516 (test_timeline); then nothing can happen any more
    assert caught.value.cycle == 516
    assert str(caught.value) == (
        "deadlock at cycle 516: core 0 M waits for flag MTE1>M:0 before instruction 8 (tmatmul_mx); "
        "core 0 FIX waits for flag M>FIX:0 before instruction 9 (tstore)"
    )
    assert caught.value.exit_code == 3


def test_no_value_is_made_where_values_are_skipped() -> None:
    result = run(prepare(scenario(64, 64, 64, expect={"values": "bit_exact"})), values="skip")
    assert (result.values.status, result.values.sha256, result.out, result.exit_code) == ("skipped", None, None, 0)
