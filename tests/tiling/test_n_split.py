"""n_split: the rule of the requirement, padding, what is refused and what the refusal says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import prepared, program_of, scenario, simulated

from hwmodel.errors import CapacityError, InputError
from hwmodel.experiment import prepare
from hwmodel.program import Extract, Instruction, Load, Matmul, Program, Store, Tile, Window
from hwmodel.tiling.n_split import NSplitPlan


def plan_of(*extents: int, **fields: Any) -> NSplitPlan:
    plan = prepared(*extents, **fields).plan
    assert isinstance(plan, NSplitPlan)
    return plan


def by_op(program: Program, op: str) -> list[Instruction]:
    return [instruction for instruction in program.cores[0].instructions if instruction.op == op]


# -- the width of a slice ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "n", "tile_n", "n_tiles"),
    [
        (256, 256, 256, 1),  # 256 x 256 x 4 = 262,144: exactly full, stays whole
        (256, 320, 256, 2),  # 262,144 / 1024 = 256
        (256, 257, 256, 2),
        (512, 512, 128, 4),  # 262,144 / 2048
        (320, 512, 192, 3),  # 262,144 / 1280 = 204.8 -> 192
        (200, 512, 256, 2),  # 208 rows: 262,144 / 832 = 315.07 -> 256; with 200 it would be 327 -> 320
        (208, 512, 256, 2),
        (1024, 128, 64, 2),  # 262,144 / 4096
        (1008, 128, 64, 2),
        (1, 1024, 1024, 1),  # 16 rows x 1024 x 4 = 65,536
        (16, 960, 960, 1),
        (512, 448, 128, 4),  # the last slice has 64
        (512, 500, 128, 4),  # the last slice has 116
        (512, 128, 128, 1),
        (512, 129, 128, 2),
    ],
)
def test_tile_n_is_the_floor_of_l0c_by_4m_down_to_64_a18_a19(m: int, n: int, tile_n: int, n_tiles: int) -> None:
    plan = plan_of(m, 64, n)
    assert (plan.tile_n, plan.n_tiles) == (tile_n, n_tiles)
    assert plan.summary() == {
        "kind": "n_split", "tile_n": tile_n, "n_tiles": n_tiles, "buffers": {"l0": 1, "l0c": 1},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("m", "n", "tile_n"),
    [
        (256, 128, 128),  # 131,072: half of L0C exactly full
        (256, 192, 128),  # 131,072 / 1024 = 128
        (512, 512, 64),
        (320, 512, 64),  # 131,072 / 1280 = 102.4 -> 64
        (160, 512, 192),  # 131,072 / 640 = 204.8 -> 192
    ],
)
def test_two_halves_halve_the_test_and_the_formula_a19(m: int, n: int, tile_n: int) -> None:
    assert plan_of(m, 64, n, tiling={"kind": "n_split", "buffers": {"l0c": 2}}).tile_n == tile_n


def test_no_slice_fits_a20() -> None:
    assert plan_of(1024, 64, 128).tile_n == 64
    with pytest.raises(CapacityError) as caught:
        plan_of(1040, 64, 128)
    error = caught.value
    assert (error.buffer, error.needed_bytes, error.there_bytes) == ("l0c", 1040 * 64 * 4, 262144)
    assert str(error) == "l0c: the smallest slice, 1040 x 64 sums, needs 266,240 bytes, 262,144 bytes are there"
    with pytest.raises(CapacityError, match=r"l0c \(one of 2 parts\): the smallest slice, 528 x 64"):
        plan_of(528, 64, 128, tiling={"kind": "n_split", "buffers": {"l0c": 2}})
    assert plan_of(1040, 64, 32, "mxfp4_e2m1", "mxfp4_e2m1").tile_n == 32  # 1040 x 32 sums fit without a slice


@pytest.mark.parametrize("out", ["fp32", "bf16", "fp16", "fp8_e4m3"])
def test_the_output_dtype_does_not_change_what_l0c_needs_a02_a26(out: str) -> None:
    plan = plan_of(256, 64, 320, out=out)
    assert plan.tile_n == 256
    (first, _) = by_op(plan.program(), "tmatmul_mx")
    (tile,) = first.writes
    assert isinstance(tile, Tile)
    assert (tile.dtype, tile.size) == ("fp32", 256 * 256 * 4)


def test_the_output_is_bf16_when_asked_for_a02() -> None:
    result = simulated(64, 64, 64, out="bf16")
    assert str(result.out.dtype) == "bfloat16"  # type: ignore[union-attr]
    assert result.outputs["out"].nbytes == 64 * 64 * 2


def test_the_accumulator_of_floats_is_never_an_integer_a26() -> None:
    with pytest.raises(InputError, match=r"^problem.out: int32 is the output of integer operands"):
        plan_of(64, 64, 64, out="int32")


def test_rows_by_columns_by_4_must_fit_l0c_a27() -> None:
    """Checked before the run, for a slice the user asked for: buffer, needed, there, largest tile_n."""
    assert plan_of(512, 64, 512, tiling={"kind": "n_split", "tile_n": 128}).n_tiles == 4
    with pytest.raises(CapacityError) as caught:
        plan_of(512, 64, 512, tiling={"kind": "n_split", "tile_n": 192})
    assert str(caught.value) == (
        "l0c: a slice of 512 x 192 sums needs 393,216 bytes, 262,144 bytes are there; "
        "the largest tile_n that fits is 128"
    )


def test_the_largest_tile_n_named_fits_everywhere() -> None:
    """L0C alone would take 256 columns; L0B_MX holds 4,096 / (16 cells x 64) x 16 = 64."""
    with pytest.raises(CapacityError, match=r"the largest tile_n that fits is 64$"):
        plan_of(256, 1024, 512, a="bf16", tiling={"kind": "n_split", "tile_n": 320})


# -- a slice the user asks for -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tile_n", "n", "n_tiles"), [(64, 512, 8), (128, 512, 4), (64, 100, 2), (448, 448, 1)])
def test_a_width_of_the_user(tile_n: int, n: int, n_tiles: int) -> None:
    plan = plan_of(64, 64, n, tiling={"kind": "n_split", "tile_n": tile_n})
    assert (plan.tile_n, plan.n_tiles) == (tile_n, n_tiles)


def test_a_width_beyond_n_is_n() -> None:
    plan = plan_of(64, 64, 100, tiling={"kind": "n_split", "tile_n": 4096})
    assert (plan.tile_n, plan.n_tiles) == (100, 1)


@pytest.mark.parametrize("tile_n", [1, 63, 65, 100])
def test_a_width_that_is_no_multiple_of_64_is_refused(tile_n: int) -> None:
    with pytest.raises(InputError, match=rf"^tiling.tile_n: expected a multiple of 64, not {tile_n}$"):
        plan_of(64, 64, 512, tiling={"kind": "n_split", "tile_n": tile_n})


# -- what does not fit -------------------------------------------------------------------------------------------------


def refused(*extents: int, **fields: Any) -> str:
    with pytest.raises(CapacityError) as caught:
        plan_of(*extents, **fields)
    error = caught.value
    assert error.needed_bytes > error.there_bytes
    assert error.exit_code == 2
    return str(error)


def test_l1_overflow_names_all_operands() -> None:
    # A 16 x 3072 (24,576 + 3,072 scale bytes) and B 3072 x 512 (786,432 + 98,304)
    assert refused(16, 3072, 512) == (
        "l1: A, 16 x 3072 hif4 + A scales + B, 3072 x 512 hif4 + B scales needs 912,384 bytes, 524,288 bytes are there"
    )


def test_l0a_overflow() -> None:
    # fp16: 256 x 256 x 2 = 131,072
    assert refused(256, 256, 64, "fp16", "mxfp4_e2m1") == (
        "l0a: A, 256 x 256 fp16, needs 131,072 bytes, 65,536 bytes are there"
    )


def test_a_scale_buffer_exactly_full_is_accepted_a31() -> None:
    for extents in ((128, 512, 128), (256, 256, 256), (512, 128, 512)):
        program = program_of(prepared(*extents))
        sizes = [i.params.size for i in by_op(program, "textract") if i.params.target == "l0a_mx"]  # type: ignore[attr-defined]
        assert sizes == [4096], extents


@pytest.mark.parametrize("extents", [(128, 576, 128), (256, 320, 256), (512, 192, 512)], ids=str)
def test_one_more_group_of_64_overruns_the_scale_buffer_a31(extents: tuple[int, int, int]) -> None:
    m, k, _ = extents
    needed = m // 16 * (k // 64) * 64
    assert refused(*extents) == (f"l0a_mx: scales of A, {m} x {k} hif4, needs {needed:,} bytes, 4,096 bytes are there")


def test_l0b_overflow_names_the_largest_tile_n() -> None:
    # fp16 x mxfp4: B 256 x 1024 x 0.5 = 131,072; 65,536 bytes hold 512 columns; its scales 4,096 / (4 x 32) x 16 = 512
    assert refused(16, 256, 1024, "fp16", "mxfp4_e2m1") == (
        "l0b: a slice of B, 256 x 1024 mxfp4_e2m1, needs 131,072 bytes, 65,536 bytes are there; "
        "the largest tile_n that fits is 512"
    )
    plan = plan_of(16, 256, 1024, "fp16", "mxfp4_e2m1", tiling={"kind": "n_split", "tile_n": 512})
    assert plan.n_tiles == 2


def test_l0b_scale_overflow_names_the_largest_tile_n_a31() -> None:
    # hif4 128 x 256: B data 256 x 512 / 2 = 65,536, exactly full; scales 32 x 4 x 64 = 8,192
    assert refused(16, 256, 512) == (
        "l0b_mx: scales of a slice of B, 256 x 512 hif4, needs 8,192 bytes, 4,096 bytes are there; "
        "the largest tile_n that fits is 256"
    )
    assert plan_of(16, 256, 512, tiling={"kind": "n_split", "tile_n": 256}).n_tiles == 2
    with pytest.raises(CapacityError, match="the largest tile_n that fits is 256"):
        plan_of(16, 256, 512, tiling={"kind": "n_split", "tile_n": 320})


def test_halves_of_l0b_halve_what_fits() -> None:
    message = refused(16, 256, 256, tiling={"kind": "n_split", "buffers": {"l0": 2}})
    assert message == (
        "l0b_mx (one of 2 parts): scales of a slice of B, 256 x 256 hif4, needs 4,096 bytes, 2,048 bytes are there; "
        "the largest tile_n that fits is 128"
    )


def test_not_even_64_columns_fit() -> None:
    # bf16 x hif4, K = 1088: scales of 64 columns take 4 x 17 x 64 = 4,352 bytes
    assert refused(16, 1088, 64, "bf16", "hif4").endswith("4,096 bytes are there; not even a slice of 64 columns fits")


@pytest.mark.parametrize(("name", "extents"), [("m", (4096, 64, 16)), ("k", (16, 4096, 16))])
def test_extents_beyond_one_instruction(name: str, extents: tuple[int, int, int]) -> None:
    expected = f"^{name} of one matmul instruction: expected at most 4095 on ascend_a6, not 4096$"
    with pytest.raises(InputError, match=expected):
        plan_of(*extents)


def test_n_beyond_one_instruction() -> None:
    with pytest.raises(InputError, match=r"^n of one matmul instruction: expected at most 4095 on ascend_a6, not 4096"):
        plan_of(16, 64, 4096, "bf16", "bf16", arch__buffers__l0b__capacity_bytes=1 << 20)


# -- operands ----------------------------------------------------------------------------------------------------------


def test_illegal_pairs_are_refused_with_the_legal_list() -> None:
    for pair in (("hif4", "mxfp4_e2m1"), ("hif4", "mxfp8_e4m3"), ("mxfp8_e5m2", "hif4"), ("hif4", "bf16")):
        with pytest.raises(InputError) as caught:
            plan_of(64, 64, 64, *pair)
        text = str(caught.value)
        assert f"ascend_a6 has no matmul of {pair[0]} x {pair[1]}" in text
        legal = text.split("legal pairs: ")[1].split(", ")
        assert {"hif4 x hif4", "bf16 x hif4", "mxfp8_e4m3 x mxfp4_e2m1", "mxfp4_e1m2 x mxfp4_e2m1"} <= set(legal)
        assert f"{pair[0]} x {pair[1]}" not in legal


def test_a_near_pair_is_named() -> None:
    with pytest.raises(InputError, match="ascend_a6 has no matmul of bf16 x hif8, did you mean 'bf16 x hif4'"):
        plan_of(64, 64, 64, "bf16", "hif8")


# -- the program -------------------------------------------------------------------------------------------------------


def test_operands_take_four_and_a_half_bits_an_element_a01() -> None:
    program = program_of(prepared(512, 128, 512))
    loads = {i.reads[0].tensor: i.params for i in by_op(program, "tload")}  # type: ignore[union-attr]
    assert {name: params.size for name, params in loads.items()} == {  # type: ignore[attr-defined]
        "a": 512 * 128 // 2, "a_scale": 512 * 128 // 16, "b": 128 * 512 // 2, "b_scale": 128 * 512 // 16,
    }  # fmt: skip
    result = simulated(512, 128, 512)
    assert result.stats is not None
    assert result.stats.gm_read_bytes == 2 * (512 * 128 * 9 // 16)
    assert result.stats.gm_write_bytes == 512 * 512 * 2


def test_a_is_loaded_and_extracted_once_whatever_the_number_of_slices_a21() -> None:
    for tile_n in (64, 128, 256, 512):
        program = program_of(prepared(64, 128, 512, tiling={"kind": "n_split", "tile_n": tile_n}))
        assert [i.reads[0].tensor for i in by_op(program, "tload")] == ["a", "a_scale", "b", "b_scale"]  # type: ignore[union-attr]
        targets = [i.params.target for i in by_op(program, "textract")]  # type: ignore[attr-defined]
        assert targets == ["l0a", "l0a_mx"] + ["l0b", "l0b_mx"] * (512 // tile_n)
        order = [i.op for i in program.cores[0].instructions]
        assert order[:6] == ["tload"] * 4 + ["textract"] * 2


def test_each_turn_extracts_multiplies_and_stores_a22() -> None:
    program = program_of(prepared(64, 128, 500, tiling={"kind": "n_split", "tile_n": 128}))
    turns = [i for i in program.cores[0].instructions if i.label]
    assert [(i.op, dict(i.label)["n"]) for i in turns] == [
        (op, j) for j in range(4) for op in ("textract", "textract", "tmatmul_mx", "tstore")
    ]
    columns: list[int] = []
    for instruction in by_op(program, "tstore"):
        (window,) = instruction.writes
        assert isinstance(window, Window)
        columns += range(window.col, window.col + window.cols)
        assert (window.row, window.rows) == (0, 64)
    assert columns == list(range(500))


@pytest.mark.parametrize(("n", "last"), [(448, 64), (500, 116)])
def test_slices_go_to_their_columns_and_the_last_is_narrower_a23_a24(n: int, last: int) -> None:
    program = program_of(prepared(512, 64, n))
    stores = [i.params for i in by_op(program, "tstore")]
    assert [p.cols for p in stores] == [128, 128, 128, last]  # type: ignore[attr-defined]
    assert {p.stride_bytes for p in stores} == {2 * n}  # type: ignore[attr-defined]
    # slice j starts j x 128 x 2 bytes into the row; counted from the last multiple of 512
    assert [p.start_bytes for p in stores] == [0, 256, 0, 256]  # type: ignore[attr-defined]
    matmuls = [i.params for i in by_op(program, "tmatmul_mx")]
    assert [p.n for p in matmuls] == [128, 128, 128, last]  # type: ignore[attr-defined]


def test_a_store_has_the_slices_own_width_and_b_its_padded_one() -> None:
    """N = 100: B takes 128 columns of 4 bits in L1 and L0B, the sums 112 in L0C, the store 100."""
    program = program_of(prepared(20, 70, 100))
    (load_b,) = [i for i in by_op(program, "tload") if i.reads[0].tensor == "b"]  # type: ignore[union-attr]
    assert load_b.params.size == 70 * 50  # type: ignore[attr-defined]
    assert (load_b.writes[0].padded, load_b.writes[0].size) == ((128, 128), 128 * 64)  # type: ignore[union-attr]
    (b,) = [i for i in by_op(program, "textract") if i.params.target == "l0b"]  # type: ignore[attr-defined]
    assert (b.writes[0].padded, b.params.size) == ((128, 128), 128 * 64)  # type: ignore[union-attr, attr-defined]
    (matmul,) = by_op(program, "tmatmul_mx")
    assert matmul.params == Matmul(20, 70, 100, "hif4", "hif4", False)
    assert (matmul.writes[0].padded, matmul.writes[0].size) == ((32, 112), 32 * 112 * 4)  # type: ignore[union-attr]
    (store,) = by_op(program, "tstore")
    assert store.params == Store(20, 100, 2, 200, 0)


def test_four_kinds_of_move_a07() -> None:
    program = program_of(prepared(64, 128, 192))
    moves = {i.params.target: i.params.size for i in by_op(program, "textract")}  # type: ignore[attr-defined]
    assert moves == {"l0a": 64 * 64, "l0a_mx": 4 * 2 * 64, "l0b": 128 * 96, "l0b_mx": 12 * 2 * 64}
    assert all(isinstance(i.params, Extract) for i in by_op(program, "textract"))
    assert all(isinstance(i.params, Load) for i in by_op(program, "tload"))
    layouts = {(o.space, o.layout) for i in program.cores[0].instructions for o in i.writes if isinstance(o, Tile)}
    assert layouts == {
        ("l1", "NZ"), ("l1", "ZZ"), ("l1", "NN"), ("l0a", "NZ"), ("l0b", "ZN"), ("l0a_mx", "ZZ"), ("l0b_mx", "NN"),
        ("l0c", "ACC"),
    }  # fmt: skip


def test_scales_lie_at_the_operands_address_by_16() -> None:
    program = program_of(prepared(64, 128, 256, tiling={"kind": "n_split", "tile_n": 64, "buffers": {"l0": 2}}))
    for instruction in by_op(program, "tmatmul_mx"):
        at = {part.tile.space: part.tile.offset for part in instruction.reads}  # type: ignore[union-attr]
        assert at["l0a_mx"] == at["l0a"] // 16
        assert at["l0b_mx"] == at["l0b"] // 16
    halves = [i.writes[0].offset for i in by_op(program, "textract") if i.params.target == "l0b"]  # type: ignore[union-attr, attr-defined]
    assert halves == [0, 32768, 0, 32768]


# -- bits --------------------------------------------------------------------------------------------------------------


def test_tiling_changes_no_bit_a25() -> None:
    """Tiled, untiled in a larger L0C, in halves, in slices of 64: the same bits, those of the whole matrix."""
    runs = [
        simulated(320, 128, 500, out="fp32", tiling=tiling, **arch)
        for tiling, arch in (
            ({"kind": "n_split"}, {}),
            ({"kind": "n_split"}, {"arch__buffers__l0c__capacity_bytes": 1 << 20}),
            ({"kind": "n_split", "buffers": {"l0c": 2}}, {}),
            ({"kind": "n_split", "tile_n": 64, "buffers": {"l0": 2, "l0c": 2}}, {}),
        )
    ]
    assert [result.tiling["n_tiles"] for result in runs] == [3, 1, 8, 8]
    assert {result.values.status for result in runs} == {"bit_exact"}
    assert len({result.values.sha256 for result in runs}) == 1


@pytest.mark.parametrize("extents", [(1, 64, 64), (1, 1, 1), (200, 128, 300), (17, 65, 33), (64, 62, 128), (5, 20, 7)])
def test_every_size_is_padded_and_right(extents: tuple[int, int, int]) -> None:
    """M = 1, K no multiple of 64 (PTOAS 831: 1 x 128 x 62 and K 20), M no multiple of 16."""
    assert simulated(*extents, out="fp32").values.status == "bit_exact"


@given(st.integers(1, 80), st.integers(1, 200), st.integers(1, 200), st.sampled_from(["hif4", "mxfp4_e2m1"]))
def test_any_small_shape_is_right(m: int, k: int, n: int, dtype: str) -> None:
    result = simulated(m, k, n, dtype, dtype, tiling={"kind": "n_split", "tile_n": 64})
    assert result.values.status == "bit_exact"
    assert result.hazards == ()
    assert result.out is not None
    assert result.out.shape == (m, n)


def test_nothing_beyond_the_output_is_written_a23() -> None:
    """The output array is exactly [M, N], and all of it is written: 0xFFFF (a NaN that no cast makes) is nowhere."""
    result = simulated(17, 64, 33)
    assert result.outputs["out"].shape == (17, 33)
    assert not (result.outputs["out"] == 0xFFFF).any()


def test_a_scenario_that_does_not_fit_names_its_line() -> None:
    each = scenario(512, 64, 512, tiling={"kind": "n_split", "tile_n": 192})
    with pytest.raises(CapacityError) as caught:
        prepare(each)
    assert re.match(r"scenario:\d+: tiling: l0c: ", str(each.locate(caught.value, "tiling")))


def test_every_column_lands_in_its_place_a23(tmp_path: Path) -> None:
    """A is 1 at k = 0, B one of five exact values there: out[m, n] is that value, wherever slices are cut."""
    a, b = np.zeros((3, 64), np.float32), np.zeros((64, 300), np.float32)
    a[:, 0] = 1
    b[0] = np.array([1, 2, 3, 4, 6], np.float32)[np.arange(300) % 5]
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    inputs = {name: {"kind": "npy", "path": f"{name}.npy"} for name in "ab"}
    result = simulated(
        3, 64, 300, "fp16", "mxfp4_e2m1", out="fp32", base=tmp_path, inputs=inputs,
        tiling={"kind": "n_split", "tile_n": 64},
    )  # fmt: skip
    assert np.array_equal(result.out, np.tile(b[0], (3, 1)))  # type: ignore[arg-type]
