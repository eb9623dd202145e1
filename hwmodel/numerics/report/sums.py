"""Products and casts of sums against the scalar reference."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodel import numerics as nm
from hwmodel.numerics.reference import casts, codec, sums
from hwmodel.numerics.report.finding import NARROW, Finding, different, exact, on_each_backend

SATURATE: tuple[Any, ...] = (None, True, False, "inf")


def _sums(every: int) -> Iterator[Finding]:
    rng = np.random.RandomState(5)
    for order in ("seq", "group", "f64"):
        cases = wrong = 0
        for m, k, n in ((1, 1, 1), (1, 65, 9), (9, 65, 1), (5, 130, 4), (4, 40, 7))[:: 1 if every == 1 else 3]:
            a = (rng.standard_normal((m, k)) * 2.0 ** rng.randint(-20, 20, (m, k))).astype(np.float32)
            b = (rng.standard_normal((k, n)) * 2.0 ** rng.randint(-20, 20, (k, n))).astype(np.float32)
            want = np.array(
                [[_dot(order, a[i].tolist(), b[:, j].tolist()) for j in range(n)] for i in range(m)], np.float32
            )

            wrong += on_each_backend(partial(_unlike_sums, order, a, b, want))
            cases += 2 * m * n
        yield Finding("fp32 sums", f"matmul, order {order}, both backends", cases, wrong)


def _unlike_sums(order: Any, a: Any, b: Any, want: NDArray[np.float32]) -> int:
    got = nm.matmul(a, b, order, group=32)
    return int(np.count_nonzero(got.view(np.uint32) != want.view(np.uint32)))


def _dot(order: str, x: list[float], y: list[float]) -> float:
    if order == "seq":
        return sums.sequential(x, y)
    if order == "group":
        return sums.grouped(x, y, 32)
    total = 0.0
    for left, right in zip(x, y, strict=True):
        total = float(total + float(Fraction(left) * Fraction(right)))
    return total


def _scaled_sums(every: int) -> Iterator[Finding]:
    """Scales on the sum of a block: each run exact, times both scales, rounded once, runs added in fp32."""
    rng = np.random.RandomState(8)
    m, k, n = (5, 150, 4) if every == 1 else (2, 70, 2)
    for dtype, record in nm.DTYPES.items():
        if record.block is None:
            continue
        a = nm.quantize(rng.standard_normal((m, k)).astype(np.float32), dtype)
        b = nm.quantize(rng.standard_normal((k, n)).astype(np.float32), dtype, axis=0)
        rows, columns = nm.dequantize(a).tolist(), nm.dequantize(b).T.tolist()
        want = np.array([[sums.grouped(x, y, record.block.group) for y in columns] for x in rows], np.float32)
        wrong = on_each_backend(partial(_unlike_scaled, a, b, want))
        yield Finding(dtype, "matmul, scales on the block, both backends", 2 * m * n, wrong)


def _unlike_scaled(a: nm.BlockTensor, b: nm.BlockTensor, want: NDArray[np.float32]) -> int:
    got = nm.matmul(a, b, "group", scale_on="block")
    return int(np.count_nonzero(got.view(np.uint32) != want.view(np.uint32)))


def _casts(every: int) -> Iterator[Finding]:
    """Sums to output formats: every way to saturate, with and without relu, scale, channel scales and offset."""
    rng = np.random.RandomState(9)
    count = max(4, 400 // every)
    acc = (rng.standard_normal(count) * 2.0 ** rng.randint(-30, 40, count)).astype(np.float32)
    acc = np.append(acc, np.array([0.0, -0.0, 2.5, -128.5, np.inf, -np.inf, np.nan], np.float32))
    one, channels = np.float32(0.37), (rng.standard_normal(acc.size) * 3).astype(np.float32)
    steps: list[tuple[Any, list[codec.Value | None]]] = [
        (None, [None] * acc.size),
        (one, [codec.from_float(float(one))] * acc.size),
        (channels, [casts.cut_scale(each) for each in exact(channels)]),
    ]
    for dtype in ("bf16", "fp16", *NARROW):
        record = nm.FORMATS[dtype]
        if record.is_float and not record.signed:  # formats of scales
            continue
        offsets = (None, 0, 300) if record.is_integer else (None,)
        cases = wrong = 0
        for (scale, factors), relu, saturate, offset in product(steps, (False, True), SATURATE, offsets):
            pairs = zip(exact(acc), factors, strict=True)
            want = [casts.cast_out(x, dtype, relu, saturate, factor, offset) for x, factor in pairs]
            wrong += different(nm.cast_out(acc, dtype, relu, saturate, scale, offset), want)
            cases += acc.size
        yield Finding(dtype, "cast of sums: relu, scale, offset, saturation", cases, wrong)


FAMILIES = (_sums, _scaled_sums, _casts)
