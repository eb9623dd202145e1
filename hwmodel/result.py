"""What a run gives: values, trace, statistics, and where they came from."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hwmodel import numerics as nm
from hwmodel.analysis.statistics import Statistics, statistics
from hwmodel.arch import Arch
from hwmodel.program.program import Program
from hwmodel.trace import Trace

if TYPE_CHECKING:
    from hwmodel.scenario import Scenario

SCHEMA_VERSION = 1
_ML_DTYPES = {
    "bf16": "bfloat16",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e4m3_ieee": "float8_e4m3",
    "fp8_e5m2": "float8_e5m2",
    "fp8_e3m4": "float8_e3m4",
}
_NUMPY = {"fp32": "float32", "fp16": "float16", "int32": "int32", "int8": "int8", "uint8": "uint8"}


def as_values(codes: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """The same bits as numbers: numpy's own type, that of ml_dtypes, or fp32 where neither has one (hif8)."""
    if dtype in _NUMPY:
        return codes.view(_NUMPY[dtype])
    if dtype in _ML_DTYPES:
        import ml_dtypes

        return codes.view(getattr(ml_dtypes, _ML_DTYPES[dtype]))
    return nm.decode(codes, dtype) if nm.DTYPES[dtype].block is None else codes


@dataclass(frozen=True)
class Values:
    """How the output compares with the whole-matrix reference."""

    status: str
    """``bit_exact``, ``mismatch`` or ``skipped``."""
    order: str
    elements: int
    mismatches: int = 0
    first: str = ""
    """The first difference, for people: index and both bit patterns."""
    sha256: str | None = None


@dataclass(frozen=True)
class Expectation:
    """What the scenario expected and did not get."""

    stated: bool
    failures: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """``met``, ``failed`` or ``none``."""
        return "failed" if self.failures else "met" if self.stated else "none"


@dataclass(frozen=True)
class Result:
    """One run, complete. ``trace`` and ``program`` are None for an operation that has no timing model."""

    name: str
    question: str
    arch: Arch
    values: Values
    tiling: dict[str, Any]
    problem: dict[str, Any]
    trace_level: str
    """``full``, ``summary`` or ``off``: what the trace file of the run folder holds."""
    expect: Expectation = Expectation(False)
    outputs: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    """Output codes by file stem: ``out``, ``out.scales``."""
    out_dtype: str = "fp32"
    out_values: np.ndarray[Any, Any] | None = None
    """fp32 values of an output of codes with block scales, which are none by themselves."""
    program: Program | None = None
    trace: Trace | None = None
    hazards: tuple[str, ...] = ()
    hazards_checked: bool = True
    peak_macs_per_cycle: int = 0
    provenance: dict[str, str] = field(default_factory=dict)
    scenario: Scenario | None = None
    """What was simulated; needed to save a run folder."""

    def save(self, folder: str | os.PathLike[str], write: tuple[str, ...] | None = None) -> Path:
        """Write the run folder (contract section 3); it appears whole. ``write`` names writers, None the usual ones."""
        from hwmodel.runs import save

        return save(self, Path(folder), write)

    @cached_property
    def stats(self) -> Statistics | None:
        """Statistics of the trace."""
        if self.trace is None or self.program is None:
            return None
        return statistics(self.trace, self.program, self.arch, self.peak_macs_per_cycle)

    @property
    def cycles(self) -> int | None:
        """Cycles of the run; None where there is no timing model."""
        return self.stats.cycles if self.stats else None

    @property
    def time_us(self) -> float | None:
        """Modelled time in microseconds."""
        return self.stats.time_us if self.stats else None

    @property
    def out(self) -> np.ndarray[Any, Any] | None:
        """The output as an array of its own dtype (ml_dtypes for bf16 and fp8); None where values were skipped."""
        codes = self.outputs.get("out")
        return None if codes is None else as_values(codes, self.out_dtype)

    @property
    def exit_code(self) -> int:
        """0 fine; 1 an expectation failed or the values differ from the reference."""
        return int(self.values.status == "mismatch" or bool(self.expect.failures))

    def to_dict(self) -> dict[str, Any]:
        """``result.json`` (contract section 3)."""
        stats = self.stats
        units = {}
        work: dict[str, Any] = {"macs": 0, "flops": 0, "tflops": 0.0, "peak_fraction": 0.0}
        traffic = {"gm_read_bytes": 0, "gm_write_bytes": 0}
        if stats is not None:
            for name, unit in stats.units.items():
                units[name] = {
                    "busy_cycles": unit.busy_cycles,
                    "wait_input_cycles": unit.wait_input_cycles,
                    "wait_space_cycles": unit.wait_space_cycles,
                    "idle_cycles": unit.idle_cycles,
                    "utilization": unit.utilization,
                    "alone_cycles": unit.alone_cycles,
                    "instructions": unit.instructions,
                }
            traffic = {"gm_read_bytes": stats.gm_read_bytes, "gm_write_bytes": stats.gm_write_bytes}
            work = {
                "macs": stats.macs,
                "flops": 2 * stats.macs,
                "tflops": stats.tflops,
                "peak_fraction": stats.peak_fraction,
            }
        values = self.values
        return {
            "schema_version": SCHEMA_VERSION,
            "name": self.name,
            "arch": self.arch.name,
            "calibrated": self.arch.calibrated,
            "known_error": self.arch.known_error.model_dump() if self.arch.known_error else None,
            "cycles": self.cycles,
            "time_us": self.time_us,
            "values": {
                "status": values.status,
                "order": values.order,
                "elements": values.elements,
                "mismatches": values.mismatches,
                "sha256": values.sha256,
                "first_mismatch": values.first or None,
            },
            "expect": {"status": self.expect.status, "failures": list(self.expect.failures)},
            "hazards": list(self.hazards),
            "hazards_checked": self.hazards_checked,
            "bound": stats.bound if stats else None,
            "units": units,
            "traffic": traffic,
            "work": work,
            "problem": self.problem,
            "tiling": self.tiling,
            "trace": self.trace_level,
            "cores": stats.cores if stats else None,
            "scenario_hash": self.scenario.hash() if self.scenario is not None else None,
            "provenance": self.provenance,
        }
