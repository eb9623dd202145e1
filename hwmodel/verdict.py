"""Outputs beside what they should be: the reference of the numerics core, golden files, stated expectations."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodel.result import Expectation, Result, Values

Array = NDArray[Any]


def against_reference(found: Array, expected: Array, order: str) -> Values:
    """The verdict on ``found``, bit for bit; ``order`` is the order of accumulation that both followed."""
    different = found != expected
    count = int(np.count_nonzero(different))
    first = _first_difference(found, expected, different) if count else ""
    return Values("mismatch" if count else "bit_exact", order, int(found.size), count, first, digest(found))


def digest(array: Array) -> str:
    """SHA-256 of the bytes of an output, C order."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def _first_difference(found: Array, expected: Array, different: Array) -> str:
    where = tuple(int(index) for index in np.unravel_index(int(np.argmax(different)), different.shape))
    digits = 2 * found.dtype.itemsize
    place = ", ".join(str(index) for index in where)
    return f"[{place}] is 0x{int(found[where]):0{digits}X}, expected 0x{int(expected[where]):0{digits}X}"


def against_golden(name: str, found: Array, golden: Array, what: str = "elements") -> list[str]:
    """Nothing, or one line that says how many ``what`` of ``found`` differ from ``golden`` and which is the first."""
    golden = golden.reshape(found.shape)
    different = found != golden
    count = int(np.count_nonzero(different))
    if not count:
        return []
    first = _first_difference(found, golden, different)
    return [f"{name}: {count} of {found.size} {what} differ from the golden file, first {first}"]


def judged(result: Result, failures: list[str]) -> Result:
    """The same result beside what its scenario expected; ``failures`` are those that golden files showed."""
    assert result.scenario is not None
    expect, verdict, found = result.scenario.expect, result.values, list(failures)
    if expect.cycles is not None and result.trace is None:
        found.append(f"cycles: expected {expect.cycles}, but quantising has no timing model")
    elif expect.cycles is not None and result.cycles != expect.cycles:
        found.append(f"cycles: expected {expect.cycles}, not {result.cycles}")
    if expect.values == "bit_exact" and verdict.status == "mismatch":
        found.append(f"values: expected bit_exact, not {verdict.mismatches} differences")
    of_values = expect.values is not None or expect.out is not None or expect.scales is not None
    stated = expect.cycles is not None or (of_values and verdict.status != "skipped")
    return replace(result, expect=Expectation(stated, tuple(found)))
