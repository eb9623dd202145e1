"""One row of the conformance table, and what its checks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodel import numerics as nm
from hwmodel.numerics.reference import codec

BACKENDS: tuple[Any, ...] = ("numpy", "numba")
NARROW = tuple(name for name, record in nm.FORMATS.items() if record.bits <= 8)


@dataclass(frozen=True, slots=True)
class Finding:
    """One row: what was checked how, over how many cases, with how many differences."""

    subject: str
    check: str
    cases: int
    differences: int


def different(got: NDArray[Any], want: list[int]) -> int:
    """How many codes differ."""
    return int(np.count_nonzero(got.astype(np.int64) != np.array(want, np.int64)))


def exact(row: NDArray[Any]) -> list[codec.Value]:
    """Exact values of floats."""
    return [codec.from_float(float(each)) for each in row]


def on_each_backend(count: Callable[[], int]) -> int:
    """Differences under numpy alone plus those with compiled kernels."""
    total = 0
    for name in BACKENDS:
        before = nm.set_backend(name)
        try:
            total += count()
        except ImportError:
            pass
        finally:
            nm.set_backend(before)
    return total
