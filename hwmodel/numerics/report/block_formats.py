"""Block formats against the scalar reference: quantise by every rule, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodel import numerics as nm
from hwmodel.errors import NumericsError
from hwmodel.numerics import hif4, mx
from hwmodel.numerics.reference import blocks, codec, neuron
from hwmodel.numerics.report.finding import Finding, different, exact, on_each_backend
from hwmodel.numerics.scales import scale_planes


def _hif4_profiles(every: int) -> Iterator[Finding]:
    rows = nm.round_bf16(_blocks(max(8, 600 // every), 64))
    for name, rule in hif4.PROFILES.items():
        want = [_or_refused(blocks.hif4_quantize, exact(row), rule) for row in rows]
        wrong = on_each_backend(partial(_unlike, rows, want, partial(_hif4_block, rule=name)))
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
            want = [_or_refused(blocks.mx_quantize, exact(row), record.element, rule) for row in rows]
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
                values, floor = exact(row), 0 if name == "neuron_hw" else 1
                scale = neuron.scale_byte(values, nm.neuron_emax(dtype), name != "neuron", floor)
                element = nm.DTYPES[dtype].element
                want = [neuron.narrow(neuron.multiply_back(value, scale), element, False) for value in values]
                got = tensor.codes[8 * number : 8 * number + 8].reshape(-1)
                wrong += int(tensor.scales.e8m0[number, 0]) != scale or different(got, want) > 0
            yield Finding(dtype, f"quantise 8 x 4, rule {name}", len(rows), wrong)


def _dequantising(every: int) -> Iterator[Finding]:
    """Random codes under every scale byte, and for HiF4 under random level 2 and 3 bits."""
    rng = np.random.RandomState(10)
    scale = np.arange(0, 256, max(1, every // 100), dtype=np.uint8)
    eb, ec = rng.randint(0, 256, scale.size, np.uint8), rng.randint(0, 65536, scale.size, np.uint16)
    for dtype, record in nm.DTYPES.items():
        if record.block is None:
            continue
        group = record.block.group
        codes = rng.randint(0, nm.FORMATS[record.element].code_count, (scale.size, group)).astype(np.uint8)
        if record.block.scales == "hif4":
            scales: nm.BlockScales = nm.Hif4Scales(scale[:, None], eb[:, None], ec[:, None])
        else:
            scales = nm.MxScales(scale[:, None])
        tensor = nm.BlockTensor(codes, scales, dtype, 1, (1, group))
        wrong = on_each_backend(partial(_unlike_values, tensor, _exact_values(tensor, record.element)))
        yield Finding(dtype, "dequantise, every scale, both backends", 2 * codes.size, wrong)


def _exact_values(tensor: nm.BlockTensor, element: str) -> list[int]:
    """fp32 bits of the values, row by row."""
    bits = []
    for row, codes in enumerate(tensor.codes.tolist()):
        scale = [int(plane[row, 0]) for plane in scale_planes(tensor.scales)]
        for q, code in enumerate(codes):
            if isinstance(tensor.scales, nm.Hif4Scales):
                value = blocks.hif4_value(code, scale[0], scale[1], scale[2], q)
            else:
                value = blocks.mx_value(code, element, scale[0])
            bits.append(codec.to_float32_bits(value))
    return bits


def _unlike_values(tensor: nm.BlockTensor, want: list[int]) -> int:
    return different(nm.dequantize(tensor).view(np.uint32).reshape(-1), want)


def _blocks(count: int, length: int) -> NDArray[np.float32]:
    """Rows spread over many binades, with zeros of both signs, infinities and NaN."""
    rng = np.random.RandomState(count + length)
    rows = rng.standard_normal((count, length)) * 2.0 ** rng.randint(-4, 4, (count, length))
    rows[::5] *= 2.0 ** rng.randint(-145, 122, (len(rows[::5]), 1))
    rows[::7, 3], rows[::11, 5] = 0.0, -0.0
    rows[1], rows[2, 4], rows[3, 7] = 0.0, np.inf, np.nan
    with np.errstate(all="ignore"):
        return rows.astype(np.float32)


def _or_refused(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except (NumericsError, blocks.RefusedError):
        return None


FAMILIES = (_hif4_profiles, _mx_rules, _neuron_rules, _dequantising)
