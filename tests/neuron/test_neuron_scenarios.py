"""The Neuron scenarios that ship: what they show beyond being right (tests/scenarios runs them all)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from hwmodel.experiment import prepare, run
from hwmodel.listing.neuron.isa import OPERATIONS
from hwmodel.result import Result
from hwmodel.scenario import load

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
LOOPS = ["tiled", "hoisted", "blocked_free", "fully_blocked"]


@cache
def outcome(name: str) -> Result:
    return run(prepare(load(SCENARIOS / f"{name}.yaml")))


def test_k_tiling_of_a_group_gives_the_same_bits_where_sums_are_exact() -> None:
    """Each is equal to its own stated order (the reference), and here both orders agree."""
    whole, tiled = outcome("neuron_group_whole"), outcome("neuron_group_tiled")
    assert whole.values.status == tiled.values.status == "bit_exact"
    assert whole.values.sha256 == tiled.values.sha256
    assert (whole.cycles or 0) < (tiled.cycles or 0)


def test_k_tiling_of_a_group_changes_bits_where_sums_round() -> None:
    """The same two programs with normal values: each still equals its own order, and they differ."""
    change = {f"program.tensors.{name}.init": {"kind": "normal", "seed": 1} for name in ("ifmap", "weights")} | {
        "expect": {"values": "bit_exact"}
    }
    found = [
        run(prepare(load(SCENARIOS / f"neuron_group_{name}.yaml", overrides=change))) for name in ("whole", "tiled")
    ]
    assert [each.values.status for each in found] == ["bit_exact", "bit_exact"]
    assert found[0].values.sha256 != found[1].values.sha256


def test_every_operation_has_a_scenario() -> None:
    shown = set()
    for path in (*SCENARIOS.glob("neuron_*.yaml"), *SCENARIOS.glob("program_neuron_*.yaml")):
        program = load(path).program
        for instruction in program["instructions"] if program is not None else ():
            shown.add(instruction["op"])
    numbers = {record.opcode: name for name, record in OPERATIONS.items()}
    assert {numbers.get(op, op) for op in shown} >= set(OPERATIONS) - {"add"}


@pytest.mark.parametrize("preset", ["", "_hw"])
def test_the_round_trip_is_bit_exact(preset: str) -> None:
    assert outcome(f"neuron_mx_round_trip{preset}").values.status == "bit_exact"


def test_the_loops_differ_in_time_and_share_their_bits() -> None:
    found = [outcome(f"neuron_gemm_{kind}") for kind in LOOPS]
    cycles = [each.cycles or 0 for each in found]
    assert cycles == sorted(cycles, reverse=True)
    assert len({each.values.sha256 for each in found[:3]}) == 1


@pytest.mark.benchmark
@pytest.mark.parametrize("kind", LOOPS)
def test_the_large_loops_take_their_cycles(kind: str) -> None:
    result = run(prepare(load(SCENARIOS / "large" / f"neuron_gemm_large_{kind}.yaml")), values="skip")
    assert result.expect.status == "met"


def test_elements_are_those_that_a_program_writes() -> None:
    """Four banks of 128 x 128 and the 128 x 512 output; the source and the identity are inputs."""
    assert outcome("neuron_transpose").values.elements == 4 * 128 * 128 + 128 * 512
