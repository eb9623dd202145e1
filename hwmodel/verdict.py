"""Outputs beside what they should be: the reference of the numerics core, and golden files."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodel.result import Values

Array = NDArray[Any]


def against_reference(found: Array, expected: Array, order: str) -> Values:
    """The verdict on ``found``, bit for bit; ``order`` is the order of accumulation that both followed."""
    different = found != expected
    count = int(np.count_nonzero(different))
    digest = hashlib.sha256(np.ascontiguousarray(found).data).hexdigest()
    first = _first_difference(found, expected, different) if count else ""
    return Values("mismatch" if count else "bit_exact", order, int(found.size), count, first, digest)


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
