"""Element formats against the scalar reference: decode, and encode where rounding is decided."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from hwmodel import numerics as nm
from hwmodel.numerics.reference import codec
from hwmodel.numerics.report.finding import NARROW, Finding, different, exact

OVERFLOW: tuple[Any, ...] = ("saturate", "ieee")


def _decoding(every: int) -> Iterator[Finding]:
    for dtype, record in nm.FORMATS.items():
        if record.bits > 16:
            continue
        codes = np.arange(0, record.code_count, every if record.bits == 16 else 1)
        want = [codec.to_float32_bits(codec.decode(int(code), dtype)) for code in codes]
        got = nm.decode(codes, dtype)
        got = np.where(np.isnan(got), np.float32(np.nan), got)
        yield Finding(dtype, "decode, all codes", codes.size, different(got.view(np.uint32), want))


def _encoding(every: int) -> Iterator[Finding]:
    codes = np.arange(0, 65536, every, dtype=np.uint16)
    for source in ("bf16", "fp16"):
        values = [codec.decode(int(code), source) for code in codes]
        for dtype in NARROW:
            cases = wrong = 0
            for overflow in OVERFLOW:
                want = [codec.encode(value, dtype, overflow) for value in values]
                wrong += different(nm.convert(codes, source, dtype, overflow), want)
                wrong += different(nm.encode(nm.decode(codes, source), dtype, overflow), want)
                cases += 2 * len(want)
            yield Finding(dtype, f"encode, all {source} inputs, both overflow modes", cases, wrong)


def _midpoints(every: int) -> Iterator[Finding]:
    for dtype in NARROW:
        record = nm.FORMATS[dtype]
        grid = sorted({value.magnitude for value in _values(dtype) if value.magnitude is not None})
        ends = [*grid, grid[-1] + (grid[-1] - grid[-2])]
        middle = np.array([float((low + high) / 2) for low, high in pairwise(ends)])
        cases = wrong = 0
        for kind in (np.float32, np.float64):
            centre = middle.astype(kind)
            near = np.concatenate([centre, np.nextafter(centre, kind(0)), np.nextafter(centre, kind(np.inf))])
            inputs = np.concatenate([near, -near])[::every]
            for overflow in OVERFLOW:
                want = [codec.encode(codec.from_float(float(x)), record.name, overflow) for x in inputs]
                wrong += different(nm.encode(inputs, dtype, overflow), want)
                cases += len(want)
        yield Finding(dtype, "encode, midpoints and their fp32 and float64 neighbours", cases, wrong)


def _wide(every: int) -> Iterator[Finding]:
    """fp32 to the 16-bit floats: every midpoint of neighbours, and the fp32 numbers beside it."""
    for dtype in ("fp16", "bf16"):
        finite = np.arange(0, nm.FORMATS[dtype].max_code, every, dtype=np.uint16)
        low, high = (nm.decode(codes, dtype).astype(np.float64) for codes in (finite, finite + np.uint16(1)))
        middle = np.append((low + high) / 2, high[-1] + (high[-1] - low[-1]) / 2).astype(np.float32)
        near = np.concatenate([middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))])
        inputs = np.concatenate([near, -near])
        cases = wrong = 0
        for overflow in OVERFLOW:
            want = [codec.encode(value, dtype, overflow) for value in exact(inputs)]
            wrong += different(nm.encode(inputs, dtype, overflow), want)
            cases += inputs.size
        yield Finding(dtype, "encode, midpoints and their fp32 neighbours", cases, wrong)


def _values(dtype: str) -> list[codec.Value]:
    return [codec.decode(code, dtype) for code in range(nm.FORMATS[dtype].code_count)]


FAMILIES = (_decoding, _encoding, _midpoints, _wide)
