"""What FIXPIPE does to values on the way out, over slices and cores; each run compares with the whole matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import simulated

from hwmodel.errors import InputError
from hwmodel.units import UNITS

GRID = {"kind": "blocked", "core_grid": [2, 2], "base": [16, 64, 64], "panel_slices": 1}


def factors(n: int) -> list[float]:
    """One for each column, all different, with bits below those that the hardware keeps."""
    return [float(np.float32(1) + np.float32(2**-20) * (i + 1) + np.float32(i)) for i in range(n)]


@pytest.mark.parametrize("out", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("tiling", [{"kind": "n_split"}, {"kind": "n_split", "tile_n": 64}, GRID], ids=str)
def test_a_scale_for_each_column_goes_with_its_column(out: str, tiling: dict[str, Any]) -> None:
    # 65 columns: the last slice is one column wide, and cores have columns [0, 64) and [64, 65)
    scaled = simulated(16, 64, 65, out=out, tiling=tiling, problem={"epilogue": {"scale": factors(65)}})
    assert scaled.values.status == "bit_exact"
    plain = simulated(16, 64, 65, out="fp32", tiling=tiling)
    assert plain.out is not None
    assert scaled.out is not None
    if out == "fp32":
        kept = (np.array(factors(65), np.float32).view(np.uint32) & 0xFFFFE000).view(np.float32)
        assert np.array_equal(scaled.out, plain.out * kept)


@pytest.mark.parametrize("cores", ["representative", "all"])
def test_folded_cores_have_the_scales_of_their_own_columns(cores: str) -> None:
    tiling = {**GRID, "core_grid": [1, 3], "cores": cores}
    result = simulated(16, 64, 192, out="fp32", tiling=tiling, problem={"epilogue": {"scale": factors(192)}})
    assert result.values.status == "bit_exact"


def test_one_scale_for_all_keeps_its_bits() -> None:
    one = float(np.float32(1) + np.float32(2**-20))
    result = simulated(16, 64, 65, out="fp32", problem={"epilogue": {"scale": one}}, tiling={"kind": "n_split"})
    plain = simulated(16, 64, 65, out="fp32")
    assert result.out is not None
    assert plain.out is not None
    assert np.array_equal(result.out, plain.out * np.float32(one))


@pytest.mark.parametrize(
    ("epilogue", "out"),
    [({"relu": True}, "bf16"), ({"scale": 40.0, "offset": 100}, "uint8"), ({"relu": True, "scale": 9.0}, "int8")],
)
def test_relu_scale_and_offset(epilogue: dict[str, Any], out: str) -> None:
    result = simulated(32, 64, 96, out=out, problem={"epilogue": epilogue}, tiling={"kind": "n_split", "tile_n": 64})
    assert result.values.status == "bit_exact"
    assert result.out is not None
    values = result.out.astype(np.float32)
    assert len(np.unique(values)) > 5
    assert values.min() >= 0 or not epilogue.get("relu")


def test_an_offset_without_an_integer_output_is_refused_before_the_run() -> None:
    with pytest.raises(InputError, match=r"epilogue.offset: expected 0, as only integer outputs"):
        simulated(16, 64, 16, out="bf16", problem={"epilogue": {"offset": 3}})
    with pytest.raises(InputError, match=r"epilogue.offset: expected .*0, not -1"):
        simulated(16, 64, 16, out="int8", problem={"epilogue": {"offset": -1}})


def test_the_output_dtype_changes_the_drain_and_nothing_before_it_a26() -> None:
    runs = {out: simulated(128, 64, 128, out=out) for out in ("fp32", "bf16", "fp16")}
    for result in runs.values():
        assert result.trace is not None
        before = [row for row in result.trace.rows if row.engine != UNITS["fixpipe"].engine]
        fp32 = [row for row in runs["fp32"].trace.rows if row.engine != UNITS["fixpipe"].engine]  # type: ignore[union-attr]
        assert [(row.starts, row.ends) for row in before] == [(row.starts, row.ends) for row in fp32]
