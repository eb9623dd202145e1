"""The composition root: a scenario goes in, a result comes out."""

from __future__ import annotations

import gc
import math
import platform
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from hwmodel import __version__
from hwmodel import numerics as nm
from hwmodel.errors import InputError, choice
from hwmodel.inputs import Operand, make_operand, read_codes
from hwmodel.problem import MatmulProblem, QuantizeProblem
from hwmodel.program.hazards import BufferLimits, Hazard, find_hazards, first_beyond
from hwmodel.program.program import Program
from hwmodel.quantising import read_golden, source_values
from hwmodel.quantising import run as run_quantize
from hwmodel.reference import matmul_reference, split_of
from hwmodel.result import Result, Values
from hwmodel.tiling import TILINGS
from hwmodel.units.storage import UNWRITTEN, Array
from hwmodel.verdict import against_golden, against_reference, judged

if TYPE_CHECKING:
    from hwmodel.listing import Listing
    from hwmodel.scenario import Scenario
    from hwmodel.tiling import Plan

ValueMode = Literal["check", "skip"]
TraceLevel = Literal["off", "summary", "full"]

FROM_FILES = ("npy", "packed")
FULL_LIMIT = 20_000
"""Instructions up to which the trace is written in full, and a tiling's program is searched for hazards in a run.

A program that the user wrote is always searched; those of tilings have none by construction (contract tests), so a run
that skips values, as sweeps do, does not look.
"""

LARGE_BLOCK, MAX_BLOCKS = (256, 512, 512), 1_000_000
"""m, k, n of about what one instruction works on at most, and how many of them a program may have."""

TWO_THREADS = 1 << 20
"""Elements of A and B from which on each is made in a thread of its own."""


@dataclass(frozen=True)
class Prepared:
    """A scenario that was planned and lowered, whose inputs and golden files were read: nothing can be missing."""

    scenario: Scenario
    plan: Plan | None
    golden: dict[str, Array]
    from_files: dict[str, Operand]
    """Operands that were read from files; generated ones are made when values are asked for."""
    listing: Listing | None = None
    """The program that stands in the scenario instead of a problem."""

    @cached_property
    def program(self) -> Program | None:
        """The instructions; None for an operation that has no timing model."""
        if self.listing is not None:
            return self.listing.program
        with _no_collection():
            return None if self.plan is None else self.plan.program()

    @cached_property
    def operands(self) -> dict[str, Operand]:
        """Both operands of a matmul, as they lie in global memory."""
        problem = self.scenario.problem
        assert isinstance(problem, MatmulProblem)
        if self.from_files or problem.k * (problem.m + problem.n) < TWO_THREADS:
            return {name: self.from_files.get(name) or _operand(self.scenario, problem, name) for name in ("a", "b")}
        with ThreadPoolExecutor(1) as pool:
            b = pool.submit(_operand, self.scenario, problem, "b")
            return {"a": _operand(self.scenario, problem, "a"), "b": b.result()}

    @cached_property
    def source_values(self) -> Array:
        """fp32 values that a quantisation starts from."""
        problem = self.scenario.problem
        assert isinstance(problem, QuantizeProblem)
        return source_values(self.scenario, problem)

    def hazards(self) -> tuple[Hazard, ...]:
        """Every hazard that can be proved."""
        return self._hazards

    @cached_property
    def _hazards(self) -> tuple[Hazard, ...]:
        if self.program is None:
            return ()
        units = self.scenario.arch.units.items()
        overlapped = {engine for engine, unit in units if unit.kind.timing is not None}
        return find_hazards(self.program, limits_of(self.scenario), overlapped=overlapped)


def limits_of(scenario: Scenario) -> dict[str, BufferLimits]:
    """Capacity and allocation unit of each buffer of the scenario's machine."""
    buffers = scenario.arch.spec.buffers.items()
    return {
        name: BufferLimits(buffer.partition_bytes, buffer.allocation_bytes, buffer.partitions)
        for name, buffer in buffers
    }


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the cyclic garbage collector: programs and traces are many small records that all stay alive."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def prepare(scenario: Scenario, *, to_run: bool = True) -> Prepared:
    """Plan, lower and read every input file.

    A written program that touches what lies beyond a buffer cannot run; where ``to_run`` is False that is left to
    `Prepared.hazards`, which names every such place.

    Raises:
        InputError: it does not fit the machine, or a file is missing, truncated or of the wrong size.
    """
    problem = scenario.problem
    if isinstance(problem, QuantizeProblem):
        prepared = Prepared(scenario, None, read_golden(scenario, problem), {})
        if scenario.inputs.a.kind in FROM_FILES:
            _ = prepared.source_values
        return prepared
    if not isinstance(problem, MatmulProblem):
        return _prepare_listing(scenario, to_run)
    tiling = TILINGS[scenario.tiling.kind]
    if tiling.family != scenario.arch.spec.family:
        legal = ", ".join(name for name, other in TILINGS.items() if other.family == scenario.arch.spec.family)
        raise InputError(f"tiling.kind: {scenario.arch.name} has {legal}, not {tiling.kind}")
    _refuse_huge(problem)
    plan = tiling.plan(problem, scenario.accumulate, scenario.arch, scenario.tiling)
    golden = {}
    if scenario.expect.out is not None:
        path = Path(scenario.expect.out.path)
        golden["out"] = read_codes(path, problem.out, (problem.m, problem.n), "expect.out.path")
    files = {
        name: _operand(scenario, problem, name)
        for name, source in (("a", scenario.inputs.a), ("b", scenario.inputs.b))
        if source.kind in FROM_FILES
    }
    prepared = Prepared(scenario, plan, golden, files)
    _ = prepared.program  # what cannot be lowered is told before anything runs
    return prepared


def _refuse_huge(problem: MatmulProblem) -> None:
    """Refuse what becomes too long a program: it would be built for minutes before the memory is full."""
    extents = (problem.m, problem.k, problem.n)
    blocks = math.prod(-(-extent // size) for extent, size in zip(extents, LARGE_BLOCK, strict=True))
    if blocks > MAX_BLOCKS:
        shape, block = (" x ".join(str(size) for size in sizes) for sizes in (extents, LARGE_BLOCK))
        limit = f"at most {MAX_BLOCKS:,} blocks of {block} (m, k, n)"
        raise InputError(f"problem: expected {limit}, which is a program that fits the memory, not {shape}")


def _prepare_listing(scenario: Scenario, to_run: bool) -> Prepared:
    from hwmodel.listing import read_listing
    from hwmodel.listing.run import read_golden

    listing = read_listing(scenario)
    prepared = Prepared(scenario, None, read_golden(scenario, listing), {}, listing)
    if to_run and (beyond := first_beyond(prepared.hazards())):
        raise scenario.locate(InputError(str(beyond)), "program")
    return prepared


def _operand(scenario: Scenario, problem: MatmulProblem, name: str) -> Operand:
    """An operand as it lies in global memory; the values it was quantised from are not kept."""
    first = name == "a"
    operand = make_operand(
        scenario.inputs.a if first else scenario.inputs.b,
        problem.a if first else problem.b,
        (problem.m, problem.k) if first else (problem.k, problem.n),
        axis=1 if first else 0,
        base=scenario.base,
        transposed=not first and problem.layout.b == "nk",
        neuron=scenario.arch.spec.family == "neuron",
        field=f"inputs.{name}",
    )
    return replace(operand, values=None)


def run(prepared: Prepared, *, values: ValueMode = "check", trace: TraceLevel | None = None) -> Result:
    """Simulate. ``values="skip"`` moves no bytes and takes exactly the same cycles; InputError for other names."""
    choice("values", values, get_args(ValueMode))
    if trace is not None:
        choice("trace", trace, get_args(TraceLevel))
    problem = prepared.scenario.problem
    if isinstance(problem, QuantizeProblem):
        return run_quantize(
            prepared.scenario,
            problem,
            prepared.golden,
            (lambda: prepared.source_values) if values == "check" else None,
            provenance=provenance(),
        )
    if prepared.listing is not None:
        return _run_listing(prepared, prepared.listing, values, trace)
    assert isinstance(problem, MatmulProblem)
    return _matmul(prepared, problem, values, trace)


def _run_listing(prepared: Prepared, listing: Listing, values: ValueMode, level: TraceLevel | None) -> Result:
    from hwmodel.listing.run import run as run_listing

    small = listing.program.count <= FULL_LIMIT
    return run_listing(
        prepared.scenario,
        listing,
        prepared.golden,
        values=values,
        trace_level=level or ("full" if small else "summary"),
        hazards=tuple(str(hazard) for hazard in prepared.hazards()),
        provenance=provenance(),
    )


def simulate(scenario: Scenario, *, values: ValueMode = "check", trace: TraceLevel | None = None) -> Result:
    """Prepare and run a scenario. A failed expectation is in the result, not raised."""
    return run(prepare(scenario), values=values, trace=trace)


def global_memory(problem: MatmulProblem, operands: dict[str, Operand]) -> dict[str, Array]:
    """Arrays of the tensors in GM: codes, scale cells, and an output that nobody has written."""
    gm: dict[str, Array] = {"a": operands["a"].codes, "b": operands["b"].codes}
    for name, rows in (("a", problem.m), ("b", problem.n)):
        cells = operands[name].cells
        if cells is not None:
            gm[f"{name}_scale"] = cells.reshape(-(-rows // 16), -(-problem.k // 64), -1)
    out = np.empty((problem.m, problem.n), nm.DTYPES[problem.out].numpy_dtype)
    out.view(np.uint8)[...] = UNWRITTEN
    gm["out"] = out
    return gm


def _memory(prepared: Prepared, problem: MatmulProblem, plan: Plan) -> dict[str, Array]:
    memory = TILINGS[prepared.scenario.tiling.kind].memory
    return global_memory(problem, prepared.operands) if memory is None else memory(plan, prepared.operands)


def _matmul(prepared: Prepared, problem: MatmulProblem, values: ValueMode, level: TraceLevel | None) -> Result:
    from hwmodel.machine import Machine

    scenario, plan, program = prepared.scenario, prepared.plan, prepared.program
    assert plan is not None
    assert program is not None
    small = program.count <= FULL_LIMIT
    checked = scenario.program is not None or (small and values == "check")
    gm = _memory(prepared, problem, plan) if values == "check" else None
    with _no_collection():
        machine = Machine(scenario.arch, program, gm)
        trace = machine.run()
        machine.replay_folded()
        del machine  # its buffers, before the reference needs the room
    split = plan.k_block or split_of(scenario.accumulate, plan.k_tile, plan.k_slice)
    order = f"{scenario.accumulate.order}/{split}" if split else scenario.accumulate.order
    verdict = Values("skipped", order, problem.m * problem.n)
    outputs: dict[str, Array] = {}
    failures: list[str] = []
    if gm is not None:
        outputs["out"] = gm["out"]
        expected = matmul_reference(
            problem, scenario.accumulate, prepared.operands, plan.k_tile, plan.k_slice, plan.k_block
        )
        verdict = against_reference(gm["out"], expected, order)
        if "out" in prepared.golden:
            failures += against_golden("out", gm["out"], prepared.golden["out"])
    result = Result(
        name=scenario.name,
        question=scenario.question,
        arch=scenario.arch,
        values=verdict,
        tiling=plan.summary(),
        problem=problem.model_dump(),
        trace_level=level or ("full" if small else "summary"),
        outputs=outputs,
        out_dtype=problem.out,
        program=program,
        trace=trace,
        hazards=tuple(str(hazard) for hazard in prepared.hazards()) if checked else (),
        hazards_checked=checked,
        peak_macs_per_cycle=scenario.arch.peak_macs_per_cycle(problem.a, problem.b),
        provenance=provenance(),
        scenario=scenario,
    )
    return judged(result, failures)


def provenance() -> dict[str, str]:
    """Versions that a result depends on."""
    from hwmodel.sim import SIMPY_VERSION

    return {
        "hwmodel": __version__,
        "numpy": np.__version__,
        "simpy": SIMPY_VERSION,
        "python": platform.python_version(),
    }


__all__ = ["FULL_LIMIT", "Prepared", "global_memory", "limits_of", "prepare", "provenance", "run", "simulate"]
