"""Vector and Scalar engine: they empty PSUM and work on SBUF, each with its own clock, on all partitions at once.

An instruction on N elements of each partition takes max(64, N / rate) cycles and keeps the engine a little longer; a
reduction takes 64 more. The rate depends on the instruction and on where its operands lie and what they are made of;
results are seen some time after the last element (hardware facts 2.2 and 2.5).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

from pydantic import Field

from hwmodel.program.instructions import Instruction
from hwmodel.program.neuron import Access, Evacuate, Work
from hwmodel.program.neuron_dtypes import NEURON_DTYPES
from hwmodel.quantities import ceil_div
from hwmodel.units.base import Cycles, Rate, Spec, Timing, UnitKind, UnitSpec
from hwmodel.units.neuron import evacuate_values as values

REPORTED_AS = "evacuate"


WORK: tuple[str, ...] = get_args(Work)
Space: TypeAlias = Literal["sbuf", "psum"]
Dtype: TypeAlias = Literal[tuple(NEURON_DTYPES)]  # type: ignore[valid-type]
Width: TypeAlias = Literal["8_bit", "16_bit", "32_bit"]


class Mode(Spec):
    """A rate that an instruction has with some operands; they are contiguous in each partition, as all are here."""

    of: Work = Field(description="what the instruction does")
    inputs: tuple[Space, ...] | None = Field(default=None, description="where its inputs lie, in any order; none: both")
    input_dtypes: tuple[Dtype, ...] | None = Field(default=None, description="dtypes of all inputs; none: any")
    output: Space | None = Field(default=None, description="where its output lies; none: both")
    widths: tuple[Width, ...] | None = Field(default=None, description="of an element of each operand; none: any")
    elements_per_cycle: Rate = Field(description="of each partition")

    def fits(self, params: Evacuate) -> bool:
        """Whether an instruction runs in this mode."""
        operands = params.inputs if params.output is None else (*params.inputs, params.output)
        return (
            self.of == params.what
            and (self.inputs is None or sorted(self.inputs) == sorted(each.space for each in params.inputs))
            and (self.input_dtypes is None or all(each.dtype in self.input_dtypes for each in params.inputs))
            and (self.output is None or (params.output is not None and params.output.space == self.output))
            and (self.widths is None or (bool(operands) and all(_width(each) in self.widths for each in operands)))
        )


def _width(access: Access) -> str:
    return f"{8 * NEURON_DTYPES[access.dtype].bytes}_bit"


class EvacuateSpec(UnitSpec):
    """Rates and latencies of an engine that works on all partitions at once."""

    elements_per_cycle: dict[Work, Rate] = Field(description="of each partition, by what the instruction does")
    modes: dict[str, Mode] = Field(default={}, description="other rates; of those that fit the fastest counts")
    min_cycles: int = Field(gt=0, description="that the elements of an instruction take at least")
    added_cycles: dict[Work, Cycles] = Field(
        default={}, description="beside the elements, by what the instruction does"
    )
    issue_cycles: Cycles = Field(description="added to each instruction before the next can start")
    latency_cycles: Cycles = Field(description="added to each instruction before its results are seen")

    def rate(self, params: Evacuate) -> Rate:
        """Elements of each partition in a cycle."""
        fitting = (mode.elements_per_cycle for mode in self.modes.values() if mode.fits(params))
        return max(fitting, default=self.elements_per_cycle[params.what])


class VectorSpec(EvacuateSpec):
    """The Vector engine."""

    kind: Literal["vector"] = "vector"


class ScalarSpec(EvacuateSpec):
    """The Scalar (activation) engine."""

    kind: Literal["scalar"] = "scalar"


def timing(spec: EvacuateSpec, params: Evacuate) -> Timing:
    """Elements at their rate, and the fixed parts."""
    streaming = max(spec.min_cycles, ceil_div(params.elements, spec.rate(params)))
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
