"""With order seq every tiling gives the same bits, whatever the remainders; folding and splits change no values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import simulated

from hwmodel.tiling.grid import shares

DTYPES = (
    ("ascend_a3", "fp16", "fp32"),
    ("ascend_a3", "int8", "int32"),
    ("ascend_a5", "mxfp4_e2m1", "bf16"),
    ("ascend_a6", "hif4", "bf16"),
)


@settings(max_examples=12)
@given(
    st.tuples(st.integers(1, 90), st.integers(1, 200), st.integers(1, 150)),
    st.sampled_from(DTYPES),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from([16, 32, 64]),
    st.sampled_from([64, 128]),
    st.sampled_from([64, 128]),
    st.sampled_from(["mn", "nm"]),
)
def test_every_tiling_gives_the_same_bits(
    extents: tuple[int, int, int], pair: tuple[str, str, str], grid: tuple[int, int], m: int, k: int, n: int, order: str
) -> None:
    arch, dtype, out = pair
    fields: dict[str, Any] = {"arch": arch, "shipped": True, "inputs": {}}
    tiling = {"kind": "blocked", "core_grid": list(grid), "base": [m, k, n], "panel_slices": 2, "loop_order": order}
    found = simulated(*extents, dtype, dtype, out, tiling=tiling, **fields)
    plain = simulated(*extents, dtype, dtype, out, tiling={"kind": "auto", "max_cores": 1}, **fields)
    assert found.values.status == plain.values.status == "bit_exact"
    assert found.values.sha256 == plain.values.sha256


@given(st.integers(1, 700), st.integers(1, 700), st.sampled_from([16, 32, 128]), st.integers(1, 5), st.integers(1, 5))
def test_shares_cover_each_element_once(m: int, n: int, base: int, rows: int, columns: int) -> None:
    seen = [[0] * n for _ in range(m)] if m * n < 20_000 else None
    found = shares(m, n, base, base, (rows, columns))
    assert sum(share.rows * share.cols for share in found) == m * n
    assert len({share.core for share in found}) == len(found)
    if seen is not None:
        for share in found:
            for row in seen[share.row : share.row + share.rows]:
                for column in range(share.col, share.col + share.cols):
                    row[column] += 1
        assert all(count == 1 for row in seen for count in row)


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("silicon/a3_gemm_1536", {}),
        ("silicon/a5_mxfp8_2048", {"problem.m": 1024}),
        ("silicon/a5_mxfp4_2040x8192x8100", {"problem.k": 1024}),  # uneven: four kinds of cores
    ],
)
def test_one_of_several_equal_cores_stands_for_all_within_2_percent(name: str, overrides: dict[str, Any]) -> None:
    from hwmodel.experiment import simulate
    from hwmodel.scenario import load

    both = [
        simulate(load(name, {"expect": {}, **overrides, "tiling.cores": cores}), values="skip", trace="off").cycles
        for cores in ("representative", "all")
    ]
    one, every = both
    assert one is not None
    assert every is not None
    assert abs(one / every - 1) < 0.02
