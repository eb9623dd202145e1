"""blocked: who computes what, the canonical loop, what is refused, and how little folding changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support import machine, prepared, program_of, simulated

from hwmodel.errors import CapacityError, InputError
from hwmodel.experiment import run
from hwmodel.program import Instruction, Program, Window
from hwmodel.tiling.blocked import BlockedPlan
from hwmodel.tiling.blocked_loop import CoreLoop
from hwmodel.tiling.grid import Share, groups, shares, split
from hwmodel.tiling.l2 import first_use_misses, reuse_misses

BASE: dict[str, Any] = {"kind": "blocked", "base": [32, 64, 64], "panel_slices": 2}


def plan_of(*extents: Any, **fields: Any) -> BlockedPlan:
    plan = prepared(*extents, **fields).plan
    assert isinstance(plan, BlockedPlan)
    return plan


# -- the grid ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extent", "base", "parts", "expected"),
    [
        (6144, 128, 4, [(0, 1536), (1536, 1536), (3072, 1536), (4608, 1536)]),  # A3, 6144 over R = 4
        (2040, 128, 4, [(0, 512), (512, 512), (1024, 512), (1536, 504)]),  # ceil(16 / 4) x 128; the last one the rest
        (8100, 256, 8, [(i * 1024, 1024) for i in range(7)] + [(7168, 932)]),  # ceil(32 / 8) x 256
        (100, 64, 4, [(0, 64), (64, 36)]),  # two tiles: two cores stay idle
        (64, 64, 1, [(0, 64)]),
        (1, 16, 8, [(0, 1)]),
        (300, 64, 2, [(0, 192), (192, 108)]),  # 5 tiles over 2: 3 and 2
    ],
)
def test_what_a_core_gets(extent: int, base: int, parts: int, expected: list[tuple[int, int]]) -> None:
    assert split(extent, base, parts) == expected


def test_the_block_index_runs_over_m_first() -> None:
    found = shares(100, 200, 50, 100, (2, 2))
    assert found == [
        Share(0, 0, 0, 50, 100), Share(1, 50, 0, 50, 100), Share(2, 0, 100, 50, 100), Share(3, 50, 100, 50, 100),
    ]  # fmt: skip


def test_equal_shares_are_folded_into_groups() -> None:
    found = groups(shares(2040, 8100, 128, 256, (4, 8)), 16200, 2, 512, fold=True)
    assert sorted((g.rows, g.cols, len(g.shares)) for g in found) == [
        (504, 932, 1), (504, 1024, 7), (512, 932, 3), (512, 1024, 21),
    ]  # fmt: skip
    assert len(groups(shares(2040, 8100, 128, 256, (4, 8)), 16200, 2, 512, fold=False)) == 32


def test_cores_whose_rows_start_elsewhere_in_a_line_are_not_alike() -> None:
    """Columns 0, 64 and 128 of bf16 rows of 1024 bytes start at bytes 0, 128 and 256 of a line of 512."""
    everyone = shares(16, 192, 16, 64, (1, 3))
    assert [(g.start_bytes, len(g.shares)) for g in groups(everyone, 1024, 2, 512, fold=True)] == [
        (0, 1), (128, 1), (256, 1),
    ]  # fmt: skip
    assert [(g.start_bytes, len(g.shares)) for g in groups(everyone, 1024, 2, 128, fold=True)] == [(0, 3)]
    assert [(g.start_bytes, len(g.shares)) for g in groups(everyone, 1000, 2, 512, fold=True)] == [(0, 3)]


def test_the_drain_of_a_core_knows_where_its_rows_start() -> None:
    """192 bf16 columns a core, rows of 1536 bytes: 3 lines of 512. Core c starts 384 c bytes in: 0, 384, 256, 128."""
    tiling = {"kind": "blocked", "core_grid": [1, 4], "base": [16, 64, 192], "panel_slices": 1}
    program = program_of(prepared(16, 64, 768, tiling=tiling))
    starts = {
        core.origins["out"][1]: [i.params.start_bytes for i in core.instructions if i.op == "tstore"]  # type: ignore[attr-defined]
        for core in program.cores
    }
    assert starts == {0: [0], 192: [384], 384: [256], 576: [128]}


# -- the loop ----------------------------------------------------------------------------------------------------------


def numbers_of(program: Program) -> Counter[str]:
    return Counter(instruction.op for instruction in program.cores[0].instructions)


def test_the_loop_of_the_public_a3_gemm() -> None:
    """256 x 1024 x 512 fp16 on two blocks, base 128 x 64 x 256, four slices a panel: the vendor's trace has, of both
    blocks, 32 TLOAD, 128 TEXTRACT, 4 TMATMUL, 60 TMATMUL_ACC, 4 TSTORE, and 192 set_flag and 192 wait_flag."""
    tiling = {"kind": "blocked", "core_grid": [2, 1], "base": [128, 64, 256], "panel_slices": 4, "cores": "all"}
    program = program_of(prepared(256, 1024, 512, "fp16", "fp16", out="fp32", tiling=tiling))
    assert len(program.cores) == 2
    ops = Counter(i.op for core in program.cores for i in core.instructions)
    assert (ops["tload"], ops["textract"], ops["tstore"], ops["tmatmul"]) == (32, 128, 4, 64)
    first = [i for core in program.cores for i in core.instructions if i.op == "tmatmul" and not i.params.accumulate]  # type: ignore[attr-defined]
    assert len(first) == 4
    flags = [
        (sum(len(i.sets) for i in core.instructions), sum(len(i.waits) for i in core.instructions))
        for core in program.cores
    ]
    # ours pairs every store with a flag in each direction, and primes L1, L0 and L0C
    assert all(sets == waits for sets, waits in flags)


def test_order_of_loads_and_flags_in_a_panel() -> None:
    program = program_of(prepared(32, 256, 64, tiling=BASE))
    loads = [i for i in program.cores[0].instructions if i.op == "tload"]
    assert [i.reads[0].tensor for i in loads] == ["a", "a_scale", "b", "b_scale"] * 2  # type: ignore[union-attr]
    assert [[s.signal for s in i.sets] for i in loads[:4]] == [[], ["MTE2>MTE1:0"], [], ["MTE2>MTE1:1"]]
    assert [[w.signal for w in i.waits] for i in loads[:5]] == [["MTE1>MTE2:0"], [], [], [], ["MTE1>MTE2:1"]]
    extracts = [i for i in program.cores[0].instructions if i.op == "textract"]
    assert [i.params.target for i in extracts[:4]] == ["l0a", "l0a_mx", "l0b", "l0b_mx"]  # type: ignore[attr-defined]
    assert [[w.signal for w in i.waits] for i in extracts[:4]] == [
        ["M>MTE1:0", "MTE2>MTE1:0"], [], ["MTE2>MTE1:1"], [],
    ]  # fmt: skip


def test_scales_are_loaded_every_so_many_panels() -> None:
    """K = 1024, slices of 64, 2 a panel: 8 panels; one scale load serves 3 panels, clipped to K: 3."""
    program = program_of(prepared(32, 1024, 64, tiling={**BASE, "scale_panels": 3}))
    loads = [i for i in program.cores[0].instructions if i.op == "tload"]
    scales = [i for i in loads if i.reads[0].tensor == "a_scale"]  # type: ignore[union-attr]
    assert [(i.reads[0].col, i.reads[0].cols) for i in scales] == [(0, 384), (384, 384), (768, 256)]  # type: ignore[union-attr]
    assert len([i for i in loads if i.reads[0].tensor == "a"]) == 8  # type: ignore[union-attr]


def test_loop_order_says_what_is_reloaded() -> None:
    def misses(order: str) -> dict[str, int]:
        """TLOADs of each tensor, and the tiles in the order in which they are stored."""
        program = program_of(prepared(64, 128, 128, tiling={**BASE, "loop_order": order}))
        stores = [dict(i.label) for i in program.cores[0].instructions if i.op == "tstore"]
        return {f"{s['m']}{s['n']}": index for index, s in enumerate(stores)}

    assert list(misses("mn")) == ["00", "01", "10", "11"]
    assert list(misses("nm")) == ["00", "10", "01", "11"]


def test_k_accumulates_in_l0c() -> None:
    program = program_of(prepared(32, 200, 64, tiling=BASE))
    found = [i.params for i in program.cores[0].instructions if i.op == "tmatmul_mx"]
    assert [(p.k, p.accumulate) for p in found] == [(64, False), (64, True), (64, True), (8, True)]  # type: ignore[attr-defined]


def test_every_output_element_is_stored_once() -> None:
    tiling = {**BASE, "core_grid": [2, 3], "cores": "all"}
    program = program_of(prepared(100, 128, 300, tiling=tiling))
    count: Counter[tuple[int, int]] = Counter()
    for core in program.cores:
        row0, col0 = core.origins["out"]
        for instruction in core.instructions:
            for window in instruction.writes:
                if isinstance(window, Window):
                    for row in range(window.row, window.row + window.rows):
                        count.update((row0 + row, col0 + col) for col in range(window.col, window.col + window.cols))
    assert set(count.values()) == {1}
    assert len(count) == 100 * 300


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ([30, 64, 64], r"tiling.base\[0\] \(m\): expected a positive multiple of 16, not 30"),
        ([32, 32, 64], r"tiling.base\[1\] \(k\): expected a positive multiple of 64, not 32"),
        ([32, 64, 32], r"tiling.base\[2\] \(n\): expected a positive multiple of 64, not 32"),
        ([0, 64, 64], r"tiling.base\[0\] \(m\): expected a positive multiple of 16, not 0"),
        ([4096, 64, 64], r"m of one matmul instruction: expected at most 4095 on ascend_a6, not 4096"),
    ],
)
def test_base_tiles_that_no_instruction_takes(base: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of(64, 64, 64, tiling={**BASE, "base": base})


@pytest.mark.parametrize("grid", [[0, 1], [1, 0], [4, 9], [33, 1]])
def test_grids_beyond_the_machine(grid: list[int]) -> None:
    with pytest.raises(InputError, match=rf"expected R x C from 1 to 32 cores of ascend_a6, not {grid[0]} x {grid[1]}"):
        plan_of(64, 64, 64, tiling={**BASE, "core_grid": grid})


@pytest.mark.parametrize(
    ("fields", "buffer", "needed", "there"),
    [
        ({"base": [512, 64, 256]}, "l0c", 524288, 262144),  # 512 x 256 x 4
        ({"base": [256, 64, 256], "buffers": {"l0c": 2}}, "l0c (one of 2 parts)", 262144, 131072),
        ({"base": [128, 512, 64]}, "l0a_mx (one of 2 parts)", 4096, 2048),  # 32 KiB of data fit, scales do not
        ({"base": [256, 512, 64]}, "l0a (one of 2 parts)", 65536, 32768),
        ({"base": [64, 512, 128]}, "l0b_mx (one of 2 parts)", 4096, 2048),
        ({"base": [64, 512, 256]}, "l0b (one of 2 parts)", 65536, 32768),
        # 8 slices: A 64 x 2048 x 9/16 = 73,728 and B 128 x 2048 x 9/16 = 147,456, twice: 442,368. 16 slices: twice that
        ({"base": [64, 256, 128], "panel_slices": 16}, "l1", 884736, 524288),
    ],
)
def test_a_base_that_does_not_fit_names_the_buffer_a31(
    fields: dict[str, Any], buffer: str, needed: int, there: int
) -> None:
    with pytest.raises(CapacityError) as caught:
        plan_of(512, 8192, 512, tiling={**BASE, **fields})
    assert (caught.value.buffer, caught.value.needed_bytes, caught.value.there_bytes) == (buffer, needed, there)


# -- folding -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extents", "grid", "link"),
    [
        ((256, 1024, 512), [2, 2], 640),  # every core at its cap
        ((256, 1024, 512), [2, 2], 100),  # the link is the limit
        ((512, 1024, 512), [4, 4], 200),
        ((500, 512, 700), [3, 3], 200),  # uneven shares
    ],
)
def test_folding_equal_cores_changes_nothing(extents: tuple[int, int, int], grid: list[int], link: int) -> None:
    tiling = {"kind": "blocked", "core_grid": grid, "base": [64, 128, 128], "panel_slices": 2}
    runs = [
        simulated(*extents, tiling={**tiling, "cores": cores}, arch__links__hbm__bytes_per_cycle=link)
        for cores in ("representative", "all")
    ]
    assert runs[0].tiling["simulated_cores"] < runs[1].tiling["simulated_cores"] == runs[1].tiling["active_cores"]
    assert [result.values.status for result in runs] == ["bit_exact", "bit_exact"]
    assert runs[0].values.sha256 == runs[1].values.sha256
    assert runs[0].stats == runs[1].stats
    assert runs[0].stats is not None
    assert runs[0].stats.macs == extents[0] * extents[1] * extents[2]


# -- L2 ----------------------------------------------------------------------------------------------------------------


def test_the_first_use_misses_once_for_the_whole_chip() -> None:
    arch = machine({"l2.capacity_bytes": 1 << 20, "l2.line_bytes": 512})
    assert first_use_misses(arch, 8192, 1) == 8192
    assert first_use_misses(arch, 8192, 4) == 2048
    assert first_use_misses(arch, 8192, 3) == 3072  # 2730.67 -> 6 lines of 512
    assert first_use_misses(arch, 100, 4) == 100  # never more than the load


def test_later_uses_miss_what_has_been_replaced() -> None:
    arch = machine({"l2.capacity_bytes": 1 << 20, "l2.line_bytes": 512})
    assert reuse_misses(arch, 8192, 1, 1 << 20) == 0  # all of it still there
    assert reuse_misses(arch, 8192, 1, 1 << 21) == 4096  # half
    assert reuse_misses(arch, 8192, 1, 1 << 22) == 6144  # three quarters
    assert reuse_misses(arch, 8192, 2, 1 << 21) == 2048


def test_a_larger_l2_never_takes_longer() -> None:
    """A miss comes at 16 B/cycle, a hit at 64: where the L2 is small, B comes from HBM for each row of tiles."""
    cycles = [_cycles_with_l2(size) for size in (1 << 14, 1 << 17, 1 << 18, 1 << 27)]
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[0] > cycles[2] > cycles[3]


@pytest.mark.parametrize("order", ["mn", "nm"])
def test_what_comes_back_after_a_sweep_misses_once_a_and_b_together_exceed_the_l2(order: str) -> None:
    """A and B of 128 x 512 fp16 take 128 KiB each; the bytes between two uses of one are fewer than both."""
    missed = [_missed_again(order, kib << 10) for kib in (256, 255, 192)]
    near, far = ("a", "b") if order == "mn" else ("b", "a")
    assert [found[far] for found in missed] == [0, 512, 16384]  # of 64 KiB: none, 1/256 in whole lines, a quarter
    assert [found[near] for found in missed] == [0, 0, 0]


def _missed_again(order: str, capacity: int) -> dict[str, int]:
    """Bytes that a second load of 64 KiB misses, for both operands."""
    plan = plan_of(
        128, 512, 128, "fp16", "fp16", "fp32", tiling={**BASE, "base": [64, 64, 64], "loop_order": order},
        arch="ascend_a3", arch__l2__capacity_bytes=capacity,
    )  # fmt: skip
    loop = CoreLoop(plan, plan.groups[0], {})
    return {side: reuse_misses(plan.arch, 1 << 16, 1, bytes_) for side, bytes_ in loop.reuse_distances().items()}


def test_labels_name_the_tile_of_every_instruction() -> None:
    program = program_of(prepared(64, 128, 128, tiling=BASE))
    moving: list[Instruction] = [i for i in program.cores[0].instructions if i.reads]
    assert all(dict(i.label).keys() >= {"m", "n"} for i in moving)


def _cycles_with_l2(size: int) -> int:
    ready = prepared(
        256, 1024, 512, tiling={**BASE, "base": [64, 128, 64]}, arch__l2__capacity_bytes=size,
        arch__links__hbm__core_bytes_per_cycle=16,
    )  # fmt: skip
    cycles = run(ready, values="skip").cycles
    assert cycles is not None
    return cycles
