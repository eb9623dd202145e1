"""Results that writers are tried on: small, split in tiles, long, several cores, several clocks, parallel, empty."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwmodel.experiment import simulate
from hwmodel.machine import Machine
from hwmodel.program.instructions import Instruction, Load
from hwmodel.program.memory import Tensor, Tile, Window
from hwmodel.program.program import CoreProgram, Program
from hwmodel.result import Result
from hwmodel.scenario import load
from hwmodel.trace import WAIT_SPACE, Row, Stall, Trace

Make = Callable[..., Result]

SCENARIO = """
name: sample
question: What does it look like?
arch: ascend_a6
problem: {op: matmul, m: 64, k: 64, n: 192, a: hif4, b: hif4, out: bf16}
tiling: {kind: n_split, tile_n: 64}
expect: {values: bit_exact}
"""
QUANTIZE = """
name: quantized
arch: ascend_a6
problem: {op: quantize, rows: 3, cols: 65, source: bf16, to: hif4}
"""
BLOCKED = {
    "problem": {"op": "matmul", "m": 256, "k": 512, "n": 512, "a": "bf16", "b": "bf16", "out": "bf16"},
    "tiling": {"kind": "blocked", "core_grid": [1, 2], "base": [128, 64, 256], "cores": "all"},
}


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Simulates the sample scenario (or ``quantize``: a quantisation to that dtype), changed as ``overrides`` say."""
    folder = tmp_path_factory.mktemp("scenario")
    (folder / "sample.yaml").write_text(SCENARIO)
    (folder / "quantize.yaml").write_text(QUANTIZE)

    def simulated(overrides: dict[str, Any] | None = None, *, values: Any = "skip", quantize: str = "") -> Result:
        path = folder / ("quantize.yaml" if quantize else "sample.yaml")
        changed = {**(overrides or {}), **({"problem.to": quantize} if quantize else {})}
        return simulate(load(path, overrides=changed), values=values)

    return simulated


@pytest.fixture(scope="session")
def split(make: Make) -> Result:
    """Three tiles, with values."""
    return make(values="check")


@pytest.fixture(scope="session")
def cores(make: Make) -> Result:
    """Two simulated cores, each with two output tiles."""
    return make(BLOCKED)


@pytest.fixture(scope="session")
def long(make: Make) -> Result:
    """Enough instructions that a picture shows parts of it."""
    return make({**BLOCKED, "problem.m": 1024, "problem.n": 1024, "tiling.core_grid": [1, 1]})


@pytest.fixture(scope="session")
def clocks(make: Make) -> Result:
    """FIXPIPE on a clock of its own: ticks are not cycles."""
    return make({"arch.units.fixpipe.clock_mhz": 1000})


@pytest.fixture(scope="session")
def quantized(make: Make) -> Result:
    """No timing model."""
    return make(values="check", quantize="hif4")


@pytest.fixture(scope="session")
def empty(split: Result) -> Result:
    """A core that has nothing to do."""
    program = Program({}, (CoreProgram(0, ()),))
    trace = Machine(split.arch, program).run()
    return replace(split, name="empty", program=program, trace=trace, outputs={}, tiling={"kind": "none"})


@pytest.fixture(scope="session")
def parallel(split: Result) -> Result:
    """An engine with queues: three loads, two of them at the same time, and a wait in front of the third."""

    def loaded(number: int) -> Instruction:
        tile = Tile("l1", number * 64, 64, "int8", 1, 64, "ND", "data", (1, 64))
        window = Window("a", number, 0, 1, 64)
        return Instruction(number, "tload", "MTE2", Load(64, 1, 64, 64), (window,), (tile,), label=(("n", number),))

    instructions = tuple(loaded(number) for number in range(3))
    program = Program({"a": Tensor("a", "int8", 3, 64)}, (CoreProgram(0, instructions),))
    stalls = [Stall(40, 90, 2, WAIT_SPACE, "flag x", "", -1)]
    row = Row(0, "MTE2", "tload", instructions, True, array("q", [0, 10, 90]), array("q", [100, 80, 130]), stalls)
    trace = Trace([row], 130, 0, 1, (1,))
    return replace(split, name="parallel", program=program, trace=trace, outputs={})


@pytest.fixture(params=["split", "cores", "long", "clocks", "parallel", "empty", "summary"])
def timed(request: pytest.FixtureRequest) -> Result:
    """Each result that has a trace, in turn."""
    if request.param == "summary":
        result: Result = request.getfixturevalue("long")
        return replace(result, name="summary", trace_level="summary")
    found: Result = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def events(tmp_path: Path) -> Callable[[Result], list[dict[str, Any]]]:
    """Writes a Perfetto trace and reads its events back."""
    import json

    from hwmodel.writers import writer

    def read(result: Result) -> list[dict[str, Any]]:
        writer("perfetto").write(result, tmp_path / "trace.json")
        found: list[dict[str, Any]] = json.loads((tmp_path / "trace.json").read_text("utf-8"))["traceEvents"]
        return found

    return read
