"""Accumulation orders: each run agrees with the whole matrix in the same order, and orders differ where they must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import prepared, simulated, write_packed

from hwmodel import numerics as nm
from hwmodel.errors import InputError
from hwmodel.inputs import Operand

TILINGS = [
    {"kind": "n_split"},
    {"kind": "n_split", "tile_n": 64},
    {"kind": "blocked", "base": [16, 64, 64], "panel_slices": 2},
]
F64 = {"order": "f64"}


@pytest.mark.parametrize("tiling", TILINGS, ids=str)
@pytest.mark.parametrize("order", ["seq", "group", "f64"])
@pytest.mark.parametrize("scale_on", ["operand", "block"])
@pytest.mark.parametrize("pair", [("hif4", "hif4"), ("mxfp8_e4m3", "mxfp4_e2m1"), ("bf16", "hif4")], ids="x".join)
def test_every_order_agrees_with_its_reference(
    tiling: dict[str, Any], order: str, scale_on: str, pair: tuple[str, str]
) -> None:
    accumulate = {"order": order, "scale_on": scale_on}
    result = simulated(40, 256, 130, *pair, out="fp32", tiling=tiling, accumulate=accumulate)
    assert result.values.status == "bit_exact"
    cut = order == "f64" and scale_on == "operand" and tiling["kind"] == "blocked"
    assert result.values.order == (f"{order}/64" if cut else order)


def test_float64_sums_are_rounded_where_the_accumulator_holds_them() -> None:
    """K slices of 64: one rounding each, as L0C holds fp32; a single instruction rounds once."""
    slices = simulated(16, 256, 16, "mxfp8_e4m3", "mxfp8_e4m3", out="fp32", tiling=TILINGS[2], accumulate=F64)
    whole = simulated(16, 256, 16, "mxfp8_e4m3", "mxfp8_e4m3", out="fp32", accumulate=F64)
    assert slices.out is not None
    assert whole.out is not None
    assert (slices.values.status, whole.values.status) == ("bit_exact", "bit_exact")
    assert not np.array_equal(slices.out, whole.out)


def out(**accumulate: str) -> np.ndarray[Any, Any]:
    fields: dict[str, Any] = {"accumulate": accumulate} if accumulate else {}
    result = simulated(64, 512, 64, "mxfp8_e4m3", "mxfp8_e5m2", out="fp32", **fields)
    assert result.out is not None
    return result.out


def test_orders_are_different_questions() -> None:
    runs = [out(order=order) for order in ("seq", "group", "f64")]
    assert np.allclose(runs[0], runs[1], rtol=1e-4, atol=1e-3)
    assert not np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_seq_is_the_default() -> None:
    assert np.array_equal(out(), out(order="seq", scale_on="operand"))


def e8m0_extremes(folder: Path) -> dict[str, Any]:
    """6.0 with scale byte 0xFE times 0.5 with scale byte 0x00, all else zero."""
    inputs = {}
    for name, shape, axis, value, byte in (("a", (16, 64), 1, 6.0, 0xFE), ("b", (64, 16), 0, 0.5, 0x00)):
        values = np.zeros(shape, np.float32)
        values[0, 0] = value
        codes = nm.encode(values, "fp4_e2m1")
        scales = np.full((16, 2), 127, np.uint8)
        scales[0, 0] = byte
        operand = Operand("mxfp4_e2m1", axis, codes, cells=nm.e8m0_cells(scales))
        inputs[name] = write_packed(folder, operand, "mxfp4_e2m1", name)
    return inputs


def test_where_scales_are_applied_shows_at_the_extremes(tmp_path: Path) -> None:
    # (6 x 2^127) x (0.5 x 2^-127): the first operand is Inf in fp32, so is the product; on the block sum: 3 x 1 = 3
    for scale_on, expected in (("operand", np.inf), ("block", 3.0)):
        result = simulated(
            16, 64, 16, "mxfp4_e2m1", "mxfp4_e2m1", out="fp32",
            base=tmp_path, inputs=e8m0_extremes(tmp_path), accumulate={"scale_on": scale_on},
        )  # fmt: skip
        assert result.values.status == "bit_exact"
        assert result.out is not None
        assert result.out[0, 0] == expected


def test_scales_on_the_block_need_blocks() -> None:
    with pytest.raises(InputError, match=r"^accumulate.scale_on: expected operand, as bf16 x bf16 has no block"):
        prepared(16, 64, 16, "bf16", "bf16", accumulate={"scale_on": "block"})
