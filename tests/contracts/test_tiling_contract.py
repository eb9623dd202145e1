"""What every tiling promises: each product counted once, everything fits, no hazard, the bits of the reference.

A new tiling adds a strategy for its parameters to ``PARAMETERS``; everything else is found in the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import hazards_of, prepared, program_of

from hwmodel.analysis.occupancy import occupancy
from hwmodel.errors import CapacityError, InputError
from hwmodel.experiment import Prepared, run
from hwmodel.program import Instruction, Matmul, Part, Program, Tile, Window
from hwmodel.tiling import TILINGS
from hwmodel.trace import check_well_formed

MACHINES = {"ascend": "ascend_a6", "neuron": "neuron_trn2"}
HALVES = st.sampled_from([1, 2])

PARAMETERS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "n_split": st.fixed_dictionaries(
        {"tile_n": st.sampled_from([64, 128]), "buffers": st.fixed_dictionaries({"l0": HALVES, "l0c": HALVES})}
    ),
    "blocked": st.fixed_dictionaries(
        {
            "core_grid": st.sampled_from([[1, 1], [2, 1], [1, 3], [2, 2]]),
            "base": st.tuples(st.sampled_from([16, 32, 48]), st.sampled_from([64, 128]), st.sampled_from([64, 128])),
            "panel_slices": st.integers(1, 3),
            "scale_panels": st.integers(1, 3),
            "buffers": st.fixed_dictionaries({"l1": HALVES, "l0": HALVES, "l0c": HALVES}),
            "loop_order": st.sampled_from(["mn", "nm"]),
            "cores": st.sampled_from(["representative", "all"]),
        }
    ),
    "auto": st.fixed_dictionaries({"max_cores": st.integers(1, 4)}),
    "tiled": st.fixed_dictionaries({"in_flight": st.integers(1, 4), "evacuate": st.sampled_from(["vector", "scalar"])}),
    "hoisted": st.fixed_dictionaries({"in_flight": st.integers(1, 4), "lhs_buffers": HALVES}),
    "blocked_free": st.fixed_dictionaries({"block": st.tuples(st.integers(1, 2), st.integers(1, 2))}),
    "fully_blocked": st.fixed_dictionaries(
        {"block": st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 3))}
    ),
}

EXTENTS = {
    "ascend": st.tuples(st.integers(1, 70), st.integers(1, 330), st.integers(1, 200)),
    "neuron": st.tuples(st.integers(1, 300), st.integers(1, 300), st.integers(1, 1100)),
}
PAIRS = {
    "ascend": ["hif4 hif4", "mxfp8_e4m3 mxfp4_e2m1", "bf16 hif4", "bf16 bf16", "fp8_e4m3 fp8_e5m2"],
    "neuron": ["bf16 bf16", "fp8_e4m3 bf16"],
}
INTEGERS = {"a": {"kind": "integers", "low": -7, "high": 8}, "b": {"kind": "integers", "low": -7, "high": 8, "seed": 9}}


def attempt(kind: str, extents: tuple[int, ...], pair: str, params: dict[str, Any], **fields: Any) -> Prepared | None:
    """Plan and lower; None where it rightly does not fit."""
    family = TILINGS[kind].family
    try:
        return prepared(*extents, *pair.split(), tiling={"kind": kind, **params}, arch=MACHINES[family], **fields)
    except CapacityError:
        return None


def test_every_tiling_is_tried() -> None:
    assert set(PARAMETERS) == set(TILINGS)
    for name, tiling in TILINGS.items():
        assert tiling.kind == name
        assert tiling.summary
        assert tiling.family in MACHINES


@pytest.mark.parametrize("kind", TILINGS)
@settings(max_examples=50)
@given(data=st.data())
def test_any_shape_is_right_and_safe(kind: str, data: st.DataObject) -> None:
    family = TILINGS[kind].family
    extents = data.draw(EXTENTS[family], "extents")
    pair = data.draw(st.sampled_from(PAIRS[family]), "pair")
    ready = attempt(kind, extents, pair, data.draw(PARAMETERS[kind], "parameters"), out="fp32")
    if ready is None:
        return
    assert hazards_of(ready) == ()
    result = run(ready)
    assert result.values.status == "bit_exact", result.values.first
    assert result.trace is not None
    assert check_well_formed(result.trace) == []
    for track in occupancy(result.trace, program_of(ready), ready.scenario.arch):
        assert track.peak_bytes <= track.capacity_bytes, track.buffer
    assert result.stats is not None
    assert result.stats.macs == extents[0] * extents[1] * extents[2]
    bound = TILINGS[kind].bound
    assert bound is None or bound(ready.plan) <= result.stats.cycles
    for unit in result.stats.units.values():
        total = unit.busy_cycles + unit.wait_input_cycles + unit.wait_space_cycles + unit.idle_cycles
        assert total == result.cycles
    fast = run(ready, values="skip")
    assert fast.stats == result.stats


@pytest.mark.parametrize("kind", TILINGS)
@settings(max_examples=40)
@given(data=st.data())
def test_each_product_is_counted_once(kind: str, data: st.DataObject) -> None:
    """Random whole numbers, so that every sum is exact: any product left out or counted twice shows."""
    family = TILINGS[kind].family
    extents = data.draw(EXTENTS[family], "extents")
    params = data.draw(PARAMETERS[kind], "parameters")
    ready = attempt(kind, extents, "bf16 bf16", params, out="fp32", inputs=INTEGERS)
    if ready is None:
        return
    a, b = (ready.operands[name].decoded().astype(np.int64) for name in ("a", "b"))
    result = run(ready)
    assert result.out is not None
    assert np.array_equal(result.out, a @ b)


# -- Ascend: the coordinates of every matmul, followed through the operands of the program -----------------------------


def coordinates(program: Program) -> list[tuple[Matmul, dict[str, tuple[int, int, int, int]]]]:
    """For every matmul the rectangle of each tensor that its operands came from: (row, col, rows, cols)."""
    found = []
    for core in program.cores:
        for origins in (core.origins, *core.folded):
            found += _core_coordinates(core.instructions, origins)
    return found


def _core_coordinates(instructions: tuple[Instruction, ...], origins: dict[str, tuple[int, int]]) -> list[Any]:
    held: dict[tuple[str, int], tuple[str, int, int, int, int]] = {}
    found: list[Any] = []
    for instruction in instructions:
        if instruction.op == "tload":
            (window,), (tile,) = instruction.reads, instruction.writes
            assert isinstance(window, Window)
            assert isinstance(tile, Tile)
            row, col = origins.get(window.tensor, (0, 0))
            rectangle = (window.tensor, row + window.row, col + window.col, window.rows, window.cols)
            assert (tile.rows, tile.cols) == (window.rows, window.cols)
            held[tile.space, tile.offset] = rectangle
        elif instruction.op == "textract":
            (part,), (tile,) = instruction.reads, instruction.writes
            assert isinstance(part, Part)
            assert isinstance(tile, Tile)
            tensor, row, col, *_ = held["l1", part.tile.offset]
            assert (tile.rows, tile.cols) == (part.rows, part.cols)
            held[tile.space, tile.offset] = (tensor, row + part.row, col + part.col, part.rows, part.cols)
        elif isinstance(instruction.params, Matmul):
            found.append((instruction.params, _operands(instruction, held)))
        elif instruction.op == "tstore":
            (part,), (window,) = instruction.reads, instruction.writes
            assert isinstance(part, Part)
            assert isinstance(window, Window)
            row, col = origins.get("out", (0, 0))
            found.append((None, {"out": (row + window.row, col + window.col, window.rows, window.cols)}))
    return found


def _operands(instruction: Instruction, held: dict[tuple[str, int], Any]) -> dict[str, tuple[int, ...]]:
    parts = [part for part in instruction.reads if isinstance(part, Part)]
    return {held[p.tile.space, p.tile.offset][0]: held[p.tile.space, p.tile.offset][1:] for p in parts}


@pytest.mark.parametrize("kind", [name for name, tiling in TILINGS.items() if tiling.family == "ascend"])
@settings(max_examples=50)
@given(data=st.data())
def test_the_operands_of_the_program_cover_each_m_k_n_once(kind: str, data: st.DataObject) -> None:
    m, k, n = extents = data.draw(EXTENTS["ascend"], "extents")
    ready = attempt(kind, extents, "hif4 hif4", data.draw(PARAMETERS[kind], "parameters"))
    if ready is None:
        return
    count = np.zeros((m, -(-k // 64), n), np.int8)
    depth = np.zeros((m, -(-k // 64), n), np.int16)
    stored = np.zeros((m, n), np.int8)
    for params, operands in coordinates(program_of(ready)):
        if params is None:
            row, col, rows, cols = operands["out"]
            stored[row : row + rows, col : col + cols] += 1
            continue
        (a_row, a_col, a_rows, a_cols), (b_row, b_col, b_rows, b_cols) = operands["a"], operands["b"]
        assert (a_rows, a_cols, b_cols) == (params.m, params.k, params.n)
        assert (a_col, a_cols) == (b_row, b_rows)  # the same K on both sides
        assert operands["a_scale"] == operands["a"]  # and its scales
        assert operands["b_scale"] == (b_col, b_row, b_cols, b_rows)
        groups = slice(a_col // 64, -(-(a_col + a_cols) // 64))
        count[a_row : a_row + a_rows, groups, b_col : b_col + b_cols] += 1
        for group in range(groups.start, groups.stop):
            inside = min(a_col + a_cols, 64 * group + 64) - max(a_col, 64 * group)
            depth[a_row : a_row + a_rows, group, b_col : b_col + b_cols] += inside
    assert (count == 1).all()
    assert (depth == np.minimum(64, k - 64 * np.arange(-(-k // 64)))[None, :, None]).all()
    assert (stored == 1).all()


@settings(max_examples=20)
@given(EXTENTS["ascend"], st.sampled_from(PAIRS["ascend"]), st.data())
def test_all_tilings_give_the_same_bits_a25(extents: tuple[int, int, int], pair: str, data: st.DataObject) -> None:
    digests = set()
    kinds = [name for name, tiling in TILINGS.items() if tiling.family == "ascend"]
    for kind in [*kinds, "n_split", "blocked"]:
        ready = attempt(kind, extents, pair, data.draw(PARAMETERS[kind], kind))
        if ready is not None:
            digests.add(run(ready).values.sha256)
    assert len(digests) == 1


@pytest.mark.parametrize("kind", TILINGS)
def test_a_parameter_that_does_not_exist_is_refused(kind: str) -> None:
    family = TILINGS[kind].family
    with pytest.raises(InputError, match="no_such_parameter"):
        attempt(kind, (16, 64, 64), "bf16 bf16", {"no_such_parameter": 1})
    other = next(name for name in MACHINES if name != family)
    with pytest.raises(InputError, match=r"^tiling.kind: "):
        prepared(16, 64, 64, "bf16", "bf16", tiling={"kind": kind}, arch=MACHINES[other])


@pytest.mark.parametrize("kind", TILINGS)
def test_the_plan_says_what_it_does_and_lowers_to_the_same_again(kind: str) -> None:
    ready = attempt(kind, (40, 130, 200), "bf16 bf16", {})
    assert ready is not None
    assert ready.plan is not None
    assert ready.plan.summary()["kind"] in (kind, "blocked")
    assert ready.plan.program() == ready.plan.program()
    numbers = [instruction.number for instruction in program_of(ready).cores[0].instructions]
    assert numbers == list(range(len(numbers)))
