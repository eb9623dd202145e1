"""Bounds of runs of K, which decide whether every order of a sum is exact, against exact integers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hwmodel import numerics as nm

pytest.importorskip("numba")
from hwmodel.numerics.kernels import grain

NONE = grain.NO_QUANTUM


def slow_bounds(vectors: NDArray[np.float32], group: int) -> tuple[list[float], list[int], list[float]]:
    """(max|x| / q, least exponent of q, max|x|) of each run over all vectors [V, K], one element at a time."""
    peak, last, top = [], [], []
    for start in range(0, vectors.shape[1], group):
        ratios, exponents, largest = [0.0], [NONE], [0.0]
        for vector in vectors[:, start : start + group].astype(np.float64):
            numbers = [abs(int(x * 2.0**149)) for x in vector.tolist() if x]
            if numbers:
                lowest = min((each & -each).bit_length() - 1 for each in numbers)
                ratios.append(max(numbers) / 2**lowest)
                exponents.append(lowest - 149)
                largest.append(float(np.abs(vector).max()))
        peak.append(max(ratios))
        last.append(min(exponents))
        top.append(max(largest))
    return peak, last, top


def fast_bounds(x: NDArray[np.float32], group: int, kernel: Any) -> tuple[list[float], list[int], list[float]]:
    runs = math.ceil((x.shape[1] if kernel is grain.rows else x.shape[0]) / group)
    peak, last, top = np.zeros(runs), np.full(runs, NONE, np.int64), np.zeros(runs)
    assert kernel(np.ascontiguousarray(x).view(np.uint32), group, peak, last, top)
    return peak.tolist(), last.tolist(), top.tolist()


def values(kind: str, rng: np.random.RandomState, shape: tuple[int, int]) -> NDArray[np.float32]:
    if kind == "fp4":
        return nm.decode(rng.randint(0, 16, shape).astype(np.uint8), "fp4_e2m1")
    if kind == "fp8":
        found = nm.decode(rng.randint(0, 256, shape).astype(np.uint8), "fp8_e5m2")
        return np.where(np.isfinite(found), found, np.float32(0))
    if kind == "subnormal":
        return (rng.randint(0, 9, shape) * 2.0**-149).astype(np.float32)
    if kind == "far apart":
        return np.ldexp(rng.standard_normal(shape), rng.randint(-160, 120, shape)).astype(np.float32)
    sparse = rng.random_sample(shape) < (0.1 if kind == "sparse" else 1)
    return np.where(sparse, rng.standard_normal(shape), 0).astype(np.float32)


@pytest.mark.parametrize("kind", ["fp4", "fp8", "subnormal", "far apart", "sparse", "dense"])
@pytest.mark.parametrize("group", [1, 2, 16, 32, 64])
def test_bounds_of_runs_are_those_of_exact_integers(kind: str, group: int) -> None:
    rng = np.random.RandomState(group)
    for shape in ((1, 1), (3, 40), (17, 64), (5, 33), (2, 129)):
        x = values(kind, rng, shape)
        want = slow_bounds(x, group)
        assert fast_bounds(x, group, grain.rows) == want
        assert fast_bounds(x.T, group, grain.columns) == want


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_no_bounds(wrong: float) -> None:
    x = np.ones((3, 40), np.float32)
    x[2, 39] = wrong
    for kernel, array, runs in ((grain.rows, x, 3), (grain.columns, np.ascontiguousarray(x.T), 3)):
        bounds = np.zeros(runs), np.full(runs, NONE, np.int64), np.zeros(runs)
        assert not kernel(array.view(np.uint32), 16, *bounds)
