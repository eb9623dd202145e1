"""Array code against the scalar reference: how many cases of what were compared, and how many differed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodel import numerics as nm
from hwmodel.errors import NumericsError
from hwmodel.numerics import hif4, mx
from hwmodel.numerics.reference import blocks, codec, neuron, sums

NARROW = tuple(name for name, record in nm.FORMATS.items() if record.bits <= 8)
OVERFLOW: tuple[Any, ...] = ("saturate", "ieee")
BACKENDS: tuple[Any, ...] = ("numpy", "numba")


@dataclass(frozen=True, slots=True)
class Finding:
    """One row: what was checked how, over how many cases, with how many differences."""

    subject: str
    check: str
    cases: int
    differences: int


def findings(every: int) -> Iterator[Finding]:
    """All rows. ``every`` takes only every n-th case of the exhaustive checks (1: all of them)."""
    for family in (_decoding, _encoding, _midpoints, _hif4_profiles, _mx_rules, _neuron_rules, _sums, _layouts):
        yield from family(every)


def _different(got: NDArray[Any], want: list[int]) -> int:
    return int(np.count_nonzero(got.astype(np.int64) != np.array(want, np.int64)))


def _decoding(every: int) -> Iterator[Finding]:
    for dtype, record in nm.FORMATS.items():
        if record.bits > 16:
            continue
        codes = np.arange(0, record.code_count, every if record.bits == 16 else 1)
        want = [codec.to_float32_bits(codec.decode(int(code), dtype)) for code in codes]
        got = nm.decode(codes, dtype)
        got = np.where(np.isnan(got), np.float32(np.nan), got)
        yield Finding(dtype, "decode, all codes", codes.size, _different(got.view(np.uint32), want))


def _encoding(every: int) -> Iterator[Finding]:
    codes = np.arange(0, 65536, every, dtype=np.uint16)
    for source in ("bf16", "fp16"):
        values = [codec.decode(int(code), source) for code in codes]
        for dtype in NARROW:
            cases = wrong = 0
            for overflow in OVERFLOW:
                want = [codec.encode(value, dtype, overflow) for value in values]
                wrong += _different(nm.convert(codes, source, dtype, overflow), want)
                wrong += _different(nm.encode(nm.decode(codes, source), dtype, overflow), want)
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
                wrong += _different(nm.encode(inputs, dtype, overflow), want)
                cases += len(want)
        yield Finding(dtype, "encode, midpoints and their fp32 and float64 neighbours", cases, wrong)


def _values(dtype: str) -> list[codec.Value]:
    return [codec.decode(code, dtype) for code in range(nm.FORMATS[dtype].code_count)]


def _blocks(count: int, length: int) -> NDArray[np.float32]:
    """Rows spread over many binades, with zeros of both signs, infinities and NaN."""
    rng = np.random.RandomState(count + length)
    rows = rng.standard_normal((count, length)) * 2.0 ** rng.randint(-4, 4, (count, length))
    rows[::5] *= 2.0 ** rng.randint(-145, 122, (len(rows[::5]), 1))
    rows[::7, 3], rows[::11, 5] = 0.0, -0.0
    rows[1], rows[2, 4], rows[3, 7] = 0.0, np.inf, np.nan
    with np.errstate(all="ignore"):
        return rows.astype(np.float32)


def _exact(row: NDArray[Any]) -> list[codec.Value]:
    return [codec.from_float(float(each)) for each in row]


def _or_refused(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except (NumericsError, blocks.RefusedError):
        return None


def _on_each_backend(count: Callable[[], int]) -> int:
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


def _hif4_profiles(every: int) -> Iterator[Finding]:
    rows = nm.round_bf16(_blocks(max(8, 600 // every), 64))
    for name, rule in hif4.PROFILES.items():
        want = [_or_refused(blocks.hif4_quantize, _exact(row), rule) for row in rows]
        wrong = _on_each_backend(partial(_unlike, rows, want, partial(_hif4_block, rule=name)))
        yield Finding("hif4", f"quantise, rule {name}, both backends", 2 * len(rows), wrong)


def _unlike(rows: NDArray[Any], want: list[Any], make: Callable[[NDArray[Any]], Any]) -> int:
    return sum(_or_refused(make, row) != block for row, block in zip(rows, want, strict=True))


def _hif4_block(row: NDArray[Any], rule: str) -> blocks.Block:
    tensor = nm.quantize(row, "hif4", rule=rule)
    assert isinstance(tensor.scales, nm.Hif4Scales)
    scales = tensor.scales
    return blocks.Block(tuple(tensor.codes.tolist()), (int(scales.ea[0]), int(scales.eb[0]), int(scales.ec[0])))


def _mx_rules(every: int) -> Iterator[Finding]:
    rows = _blocks(max(8, 600 // every), 32)
    for dtype, record in nm.DTYPES.items():
        if record.block is None or record.block.scales != "e8m0":
            continue
        for name, rule in mx.RULES.items():
            want = [_or_refused(blocks.mx_quantize, _exact(row), record.element, rule) for row in rows]
            wrong = _unlike(rows, want, partial(_mx_block, dtype=dtype, rule=name))
            yield Finding(dtype, f"quantise, rule {name}", len(rows), wrong)


def _mx_block(row: NDArray[Any], dtype: str, rule: str) -> blocks.Block:
    tensor = nm.quantize(row, dtype, rule=rule)
    assert isinstance(tensor.scales, nm.MxScales)
    return blocks.Block(tuple(tensor.codes.tolist()), (int(tensor.scales.e8m0[0]),))


def _neuron_rules(every: int) -> Iterator[Finding]:
    rows = _blocks(max(8, 600 // every), 32)
    x = rows.reshape(-1, 8, 4).reshape(-1, 4)
    for name, rule in nm.RULES.items():
        if not name.startswith("neuron"):
            continue
        for dtype in rule.dtypes:
            tensor = nm.quantize_neuron_mx(x, dtype, name)
            assert isinstance(tensor.scales, nm.MxScales)
            wrong = 0
            for number, row in enumerate(rows):
                values, floor = _exact(row), 0 if name == "neuron_hw" else 1
                scale = neuron.scale_byte(values, nm.neuron_emax(dtype), name != "neuron", floor)
                element = nm.DTYPES[dtype].element
                want = [neuron.narrow(neuron.multiply_back(value, scale), element, False) for value in values]
                got = tensor.codes[8 * number : 8 * number + 8].reshape(-1)
                wrong += int(tensor.scales.e8m0[number, 0]) != scale or _different(got, want) > 0
            yield Finding(dtype, f"quantise 8 x 4, rule {name}", len(rows), wrong)


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

            wrong += _on_each_backend(partial(_unlike_sums, order, a, b, want))
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


def _layouts(every: int) -> Iterator[Finding]:
    rng = np.random.RandomState(6)
    for layout in nm.LAYOUTS:
        cases = wrong = 0
        for dtype in ("hif4", "fp8_e4m3", "bf16", "fp32"):
            for rows, cols in ((16, 64), (33, 70), (1, 1), (128, 200))[:: 1 if every == 1 else 2]:
                codes = rng.randint(0, 1 << min(31, nm.DTYPES[dtype].storage_bits), (rows, cols), np.int64)
                raw = nm.to_layout(codes, layout, dtype)
                wrong += int(np.count_nonzero(nm.from_layout(raw, rows, cols, layout, dtype) != codes))
                cases += codes.size
        yield Finding(layout, "layout there and back, 4 to 32 bit", cases, wrong)
