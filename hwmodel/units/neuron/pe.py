"""The PE array: a matmul streams the moving rows through weights that were loaded beside the matmul before it.

Streaming takes ``max(min(64, weight columns), moving rows)`` cycles of the PE clock, times the passes of the dtype; a
transpose of data [P, F] ``max(P, min(64, F))``, times its passes in that mode. The results are in PSUM some time after
the last row went in (hardware facts 2.1).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

from pydantic import Field

from hwmodel.program.instructions import Instruction, Matmul
from hwmodel.program.neuron import Transpose, Weights
from hwmodel.quantities import ceil_div
from hwmodel.units.base import Cycles, Pace, Rate, Spec, Timing, UnitKind, UnitSpec
from hwmodel.units.neuron import matmul as values
from hwmodel.units.neuron.throttle import BurstThrottle

LOAD, MULTIPLY = "PEW", "PE"
"""Engines of the array: the weight loads, and the moving rows."""


class PeOperand(Spec):
    """What the array does with one operand dtype."""

    k: int = Field(gt=0, description="K that one instruction contracts")
    passes: int = Field(default=1, gt=0, description="times that the moving rows are streamed (fp32 is split)")
    transpose_passes: int = Field(default=1, gt=0, description="the same in transpose mode")

    def passes_of(self, *, transpose: bool) -> int:
        """Times that the rows are streamed in a mode."""
        return self.transpose_passes if transpose else self.passes


class ThrottleSpec(Spec):
    """The guard that holds the clock back at the start of a burst."""

    window_cycles: int = Field(gt=0, description="how long it holds, and over what it looks back")
    busy_share: Rate = Field(description="a burst begins when the array was busy less than this")
    slowdown: Rate = Field(description="how many times longer work takes meanwhile")


class PeSpec(UnitSpec):
    """Rates and latencies of the array."""

    kind: Literal["pe"] = "pe"
    rows: int = Field(gt=0, description="of the array: K contracted at once, partitions of SBUF")
    columns: int = Field(gt=0, description="of the array: weight columns, partitions of PSUM")
    max_moving: int = Field(gt=0, description="moving rows of one instruction")
    min_columns: int = Field(gt=0, description="weights with as many columns or more need as many moving rows at least")
    weight_columns_per_cycle: Rate = Field(description="weight columns loaded in a cycle")
    swap_cycles: Cycles = Field(description="between two matmuls: nothing streams while the weights change over")
    latency_cycles: Cycles = Field(description="from the last moving row until the results are in PSUM")
    operands: dict[str, PeOperand] = Field(description="by operand dtype; of a mixed pair the slower one counts")
    throttle: ThrottleSpec | None = None


def streaming_cycles(spec: PeSpec, params: Matmul | Transpose) -> int:
    """Cycles that one instruction takes the array: passes x the rows that stream, and the swap."""
    transpose = isinstance(params, Transpose)
    passes = max(spec.operands[side].passes_of(transpose=transpose) for side in (params.a, params.b))
    columns, rows = (params.columns, params.rows) if isinstance(params, Transpose) else (params.m, params.n)
    return passes * max(min(spec.min_columns, columns), rows) + spec.swap_cycles


def timing(spec: PeSpec, params: Matmul | Transpose | Weights) -> Timing:
    """A weight load ends when the copy is complete; the others when their last row has come through the array."""
    if isinstance(params, Weights):
        passes = spec.operands[params.dtype].passes_of(transpose=params.transpose)
        load = passes * ceil_div(params.columns, spec.weight_columns_per_cycle)
        return Timing(load, load)
    issue = streaming_cycles(spec, params)
    return Timing(issue, issue + spec.latency_cycles)


def cycles(spec: PeSpec, params: Matmul | Transpose | Weights) -> int:
    """From the first weight or row until everything is where it belongs."""
    return timing(spec, params).before


def peak_macs(spec: PeSpec, a: str, b: str) -> int:
    """Peak multiply-adds a cycle: one an element of the array and lane of K, less for dtypes with several passes."""
    sides = (spec.operands[a], spec.operands[b])
    return min(spec.columns * side.k // side.passes for side in sides)


def pace(spec: PeSpec, ticks_per_cycle: int, engine: str) -> Pace | None:
    """The throttle of the moving rows; weight loads go on beside them."""
    how = spec.throttle
    if how is None or engine != MULTIPLY:
        return None
    return BurstThrottle(how.window_cycles * ticks_per_cycle, Fraction(how.busy_share), Fraction(how.slowdown))


def capture(instruction: Instruction, storage: Any) -> Any:
    """Operands, as they lie when the instruction starts."""
    return values.capture(instruction, storage)


def commit(instruction: Instruction, storage: Any, payload: Any) -> None:
    """Weights into their copy, or the product into PSUM."""
    values.commit(instruction, storage, payload)


UNIT = UnitKind(
    kind="pe",
    spec=PeSpec,
    engine=MULTIPLY,
    engines=lambda _spec: (LOAD, MULTIPLY),
    operations={"load_weights": 1, "matmult": 2, "matmult_mx": 2, "matmult_sparse": 2},
    spaces=frozenset({"sbuf", "weights", "psum"}),
    cycles=cycles,
    timing=timing,
    pace=pace,
    macs=lambda params: params.m * params.k * params.n if isinstance(params, Matmul) else 0,
    peak_macs=peak_macs,
    capture=capture,
    commit=commit,
    summary="matrix multiply into PSUM: weight loads (PEW) beside moving rows (PE)",
)
