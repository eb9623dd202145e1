"""Quantising as a problem of its own: golden files, source values, codes and scales, their check. It takes no time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hwmodel import neuron_mx
from hwmodel import numerics as nm
from hwmodel.errors import InputError
from hwmodel.inputs import NEURON_RULES, make_operand, make_values, read_cells, read_codes, read_slots
from hwmodel.problem import QuantizeProblem
from hwmodel.reference import check_quantize
from hwmodel.result import Result, Values
from hwmodel.units.storage import Array
from hwmodel.verdict import against_golden, digest, judged

if TYPE_CHECKING:
    from hwmodel.scenario import Scenario


def read_golden(scenario: Scenario, problem: QuantizeProblem) -> dict[str, Array]:
    """The golden files that the scenario names, by file stem: ``out`` packed, ``out.scales`` in their cells or slots.

    Raises:
        InputError: a file is missing, truncated or of the wrong size, or there are no scales to compare.
    """
    golden: dict[str, Array] = {}
    if scenario.expect.out is not None:
        path, shape = Path(scenario.expect.out.path), (problem.rows, problem.cols)
        if path.suffix == ".npy" and nm.DTYPES[problem.to].block is not None:
            raise InputError(f"expect.out.path: {path}: expected packed codes, as {problem.to} has block scales")
        golden["out"] = nm.pack_rows(read_codes(path, problem.to, shape, "expect.out.path"), problem.to)
    if scenario.expect.scales is not None:
        if nm.DTYPES[problem.to].block is None:
            raise InputError(f"expect.scales: expected none, as {problem.to} has no block scales")
        path, field = Path(scenario.expect.scales.path), "expect.scales.path"
        if _rule(scenario, problem).startswith(NEURON_RULES):
            golden["out.scales"] = read_slots(path, problem.rows, problem.cols, field)
        else:
            golden["out.scales"] = read_cells(path, problem.to, problem.rows, problem.cols, field)
    return golden


def source_values(scenario: Scenario, problem: QuantizeProblem) -> Array:
    """fp32 values [rows, cols] that the source dtype can hold: packed codes decoded, others rounded to it once."""
    shape = (problem.rows, problem.cols)
    if scenario.inputs.a.kind == "packed":
        return make_operand(scenario.inputs.a, problem.source, shape, base=scenario.base).decoded()
    wide = make_values(scenario.inputs.a, shape, base=scenario.base)
    return wide if problem.source == "fp32" else nm.decode(nm.encode(wide, problem.source), problem.source)


def run(
    scenario: Scenario,
    problem: QuantizeProblem,
    golden: dict[str, Array],
    source: Callable[[], Array] | None,
    *,
    provenance: dict[str, str],
) -> Result:
    """The result, what was expected of it included; without a ``source`` of fp32 values no value is computed."""
    outputs: dict[str, Array] = {}
    dequantized: Array | None = None
    failures: list[str] = []
    rule = _rule(scenario, problem)
    verdict = Values("skipped", rule, problem.rows * problem.cols)
    if source is not None:
        wide = source()
        codes, scales, dequantized = _quantize(wide, problem.to, rule)
        outputs["out"] = nm.pack_rows(codes, problem.to)
        if scales is not None:
            outputs["out.scales"] = _scale_bytes(scales, problem.to, rule)
        checked, mismatches, first = check_quantize(wide, problem.to, rule, codes, scales)
        status = "mismatch" if mismatches else "bit_exact"
        verdict = Values(status, rule, checked, mismatches, first, digest(outputs["out"]))
        for name, expected in golden.items():
            failures += against_golden(name, outputs[name], expected, "bytes")
    result = Result(
        name=scenario.name,
        question=scenario.question,
        arch=scenario.arch,
        values=verdict,
        tiling={},
        problem=problem.model_dump(),
        trace_level="off",
        outputs=outputs,
        out_dtype=problem.to,
        out_values=dequantized,
        provenance=provenance,
        scenario=scenario,
    )
    return judged(result, failures)


def _rule(scenario: Scenario, problem: QuantizeProblem) -> str:
    block = nm.DTYPES[problem.to].block
    return getattr(scenario.inputs.a, "rule", None) or (block.default_rule if block is not None else "nearest even")


def _quantize(wide: Array, dtype: str, rule: str) -> tuple[Array, nm.BlockScales | None, Array | None]:
    """Codes, and the scales and values of a format that has block scales."""
    if nm.DTYPES[dtype].block is None:
        return nm.encode(wide, dtype), None, None
    if rule.startswith(NEURON_RULES):
        tensor = nm.quantize_neuron_mx(wide, dtype, rule=rule)
    else:
        tensor = nm.quantize(wide, dtype, axis=1, rule=rule)
    return tensor.codes, tensor.scales, nm.dequantize(tensor)


def _scale_bytes(scales: nm.BlockScales, dtype: str, rule: str) -> Array:
    """Scales as they lie in memory: the slots of a partition on Neuron, cells otherwise."""
    if rule.startswith(NEURON_RULES):
        assert isinstance(scales, nm.MxScales)
        return neuron_mx.partition_slots(scales.e8m0)
    return nm.scale_cells(scales, dtype, 1)
