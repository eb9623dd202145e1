"""Simulates a program that a user wrote, and compares every tensor with the program run in order."""

from __future__ import annotations

import gc
import hashlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from hwmodel.errors import InputError, ProgramError
from hwmodel.inputs import read_bytes, read_codes
from hwmodel.listing.base import Listing, Output
from hwmodel.machine import Machine
from hwmodel.result import Result, Values
from hwmodel.units.storage import Array
from hwmodel.verdict import against_golden, judged

if TYPE_CHECKING:
    from hwmodel.scenario import Scenario


def run(
    scenario: Scenario,
    listing: Listing,
    golden: dict[str, Array],
    *,
    values: Literal["check", "skip"],
    trace_level: str,
    hazards: tuple[str, ...],
    provenance: dict[str, str],
) -> Result:
    """The result of a run, what was expected of it included."""
    memory = listing.memory() if values == "check" else None
    was = gc.isenabled()
    gc.disable()
    try:
        machine = Machine(scenario.arch, listing.program, memory)
        trace = machine.run()
    except ProgramError as error:
        raise scenario.locate(error, f"program.instructions[{error.index}]") from None
    finally:
        if was:
            gc.enable()
    verdict, outputs, failures = Values("skipped", listing.order, 0), {}, []
    if memory is not None:
        found = listing.found(memory, machine.storages[0])
        outputs = _outputs(listing.outputs, found)
        verdict = _compare(found, listing, outputs)
        failures += _against_golden(golden, outputs)
    peak = 0 if listing.operands is None else scenario.arch.peak_macs_per_cycle(*listing.operands)
    result = Result(
        name=scenario.name,
        question=scenario.question,
        arch=scenario.arch,
        values=verdict,
        tiling=listing.summary,
        problem={"op": "program"},
        trace_level=trace_level,
        outputs=outputs,
        out_dtype=_out_dtype(listing.outputs),
        program=listing.program,
        trace=trace,
        hazards=hazards,
        hazards_checked=True,
        peak_macs_per_cycle=peak,
        provenance=provenance,
        scenario=scenario,
    )
    return judged(result, failures)


def _outputs(outputs: tuple[Output, ...], found: dict[str, Array]) -> dict[str, Array]:
    """Output codes by file stem: the first is ``out``, the others ``out.NAME``; what is no plain code as bytes."""
    result = {}
    for place, output in enumerate(outputs):
        array = np.ascontiguousarray(found[output.tensor])
        stem = f"out.{output.tensor}" if place else "out"
        result[stem] = array if output.element is not None else array.view(np.uint8)
    return result


def _out_dtype(outputs: tuple[Output, ...]) -> str:
    return (outputs[0].element or "uint8") if outputs else "uint8"


def _compare(found: dict[str, Array], listing: Listing, outputs: dict[str, Array]) -> Values:
    """Every tensor at the end, bit for bit; elements are those of what was written, or changed all the same."""
    expected = listing.expected()
    elements = mismatches = 0
    first = ""
    for name, array in found.items():
        wanted = expected[name].view(array.dtype) if expected[name].dtype != array.dtype else expected[name]
        different = array != wanted
        count = int(np.count_nonzero(different))
        elements += int(array.size) if name in listing.written or count else 0
        mismatches += count
        if count and not first:
            where = tuple(int(index) for index in np.unravel_index(int(np.argmax(different)), different.shape))
            digits = 2 * array.dtype.itemsize
            place = ", ".join(str(index) for index in where)
            first = f"{name}[{place}] is 0x{int(array[where]):0{digits}X}, expected 0x{int(wanted[where]):0{digits}X}"
    digest = hashlib.sha256(np.ascontiguousarray(outputs["out"]).data).hexdigest() if "out" in outputs else None
    return Values("mismatch" if mismatches else "bit_exact", listing.order, elements, mismatches, first, digest)


def read_golden(scenario: Scenario, listing: Listing) -> dict[str, Array]:
    """What the first output is expected to be: codes from raw bytes or a ``.npy`` of values, else bytes.

    Raises InputError, its text beginning with the field: no output, no such file, one of the wrong size.
    """
    if scenario.expect.out is None:
        return {}
    if not listing.outputs:
        raise InputError("expect.out: expected a program with an output, not one that writes nothing")
    path, field = Path(scenario.expect.out.path), "expect.out.path"
    _, element, shape, itemsize = listing.outputs[0]
    if element is not None:
        return {"out": read_codes(path, element, (shape[0], shape[1]), field)}
    if path.suffix == ".npy":
        raise InputError(f"{field}: {path}: expected raw bytes, as the first output is no plain values")
    what = f"{' x '.join(map(str, shape))} of {itemsize} bytes"
    return {"out": read_bytes(path, math.prod(shape) * itemsize, what, field)}


def _against_golden(golden: dict[str, Array], outputs: dict[str, Array]) -> list[str]:
    failures = []
    for name, expected in golden.items():
        found = np.ascontiguousarray(outputs[name]).view(expected.dtype)
        failures += against_golden(name, found.reshape(expected.shape), expected, "elements")
    return failures
