"""Vector and Scalar engine: they empty PSUM, each with its own clock. One element a partition and cycle.

An instruction on N elements takes max(64, N) cycles, a reduction 64 more, and keeps the engine a little longer; its
results are seen some time after that (hardware facts 2.2 and 2.5).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from hwmodel.program.instructions import Instruction
from hwmodel.program.neuron import Evacuate
from hwmodel.quantities import ceil_div
from hwmodel.units.base import Cycles, Rate, Timing, UnitKind, UnitSpec
from hwmodel.units.neuron import evacuate_values as values

REPORTED_AS = "evacuate"


class EvacuateSpec(UnitSpec):
    """Rates and latencies of an engine that works on all partitions at once."""

    elements_per_cycle: dict[str, Rate] = Field(description="of each partition, by what the instruction does")
    min_elements: int = Field(gt=0, description="fewer elements take as long as this many")
    added_cycles: dict[str, Cycles] = Field(default={}, description="beside the elements, by what the instruction does")
    issue_cycles: Cycles = Field(description="added to each instruction before the next can start")
    latency_cycles: Cycles = Field(description="added to each instruction before its results are seen")


class VectorSpec(EvacuateSpec):
    """The Vector engine."""

    kind: Literal["vector"] = "vector"


class ScalarSpec(EvacuateSpec):
    """The Scalar (activation) engine."""

    kind: Literal["scalar"] = "scalar"


def timing(spec: EvacuateSpec, params: Evacuate) -> Timing:
    """Elements at the rate of the operation, and the fixed parts."""
    streaming = ceil_div(max(spec.min_elements, params.elements), spec.elements_per_cycle[params.what])
    streaming += spec.added_cycles.get(params.what, 0)
    return Timing(streaming + spec.issue_cycles, streaming + spec.latency_cycles)


def cycles(spec: EvacuateSpec, params: Evacuate) -> int:
    """From the start until the results are seen."""
    return timing(spec, params).before


def capture(instruction: Instruction, storage: Any) -> Any:
    """Operands, as they lie when the instruction starts."""
    return values.capture(instruction, storage)


def commit(instruction: Instruction, storage: Any, payload: Any) -> None:
    """Write the results when the instruction has ended."""
    values.commit(instruction, storage, payload)


def _unit(kind: str, engine: str, spec: type[UnitSpec], summary: str) -> UnitKind:
    return UnitKind(
        kind=kind,
        spec=spec,
        engine=engine,
        unit=REPORTED_AS,
        operations={"copy": 3, "add": 3, "quantize_mx": 3, "engine_accumulate": 3, "read_activation_accumulator": 3},
        spaces=frozenset({"sbuf", "psum"}),
        cycles=cycles,
        timing=timing,
        capture=capture,
        commit=commit,
        summary=summary,
    )


VECTOR = _unit("vector", "DVE", VectorSpec, "PSUM to SBUF and element-wise work on the Vector engine (DVE)")
SCALAR = _unit("scalar", "ACT", ScalarSpec, "PSUM to SBUF and accumulators on the Scalar engine (ACT)")
