"""Lower bounds: counted like the unrolled program, never above what the machine takes, and close to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import prepared, program_of

from hwmodel.analysis.statistics import alone_cycles
from hwmodel.experiment import Prepared
from hwmodel.machine import Machine
from hwmodel.program.instructions import Sync
from hwmodel.program.program import Program
from hwmodel.quantities import ceil_div
from hwmodel.tiling.blocked import BlockedPlan, tensors_of
from hwmodel.tiling.blocked_loop import CoreLoop
from hwmodel.tiling.bounds import bounds_of, census

PAIRS = (
    ("ascend_a3", "fp16", "fp32"),
    ("ascend_a3", "int8", "int32"),
    ("ascend_a5", "mxfp8_e4m3", "bf16"),
    ("ascend_a6", "hif4", "bf16"),
)


@st.composite
def blocked_scenarios(draw: Any) -> Prepared:
    arch, dtype, out = draw(st.sampled_from(PAIRS))
    m, k, n = (draw(st.integers(1, 300)) for _ in range(3))
    count = st.sampled_from([1, 2])
    tiling = {
        "kind": "blocked",
        "core_grid": [draw(st.integers(1, 3)), draw(st.integers(1, 3))],
        "base": [
            draw(st.sampled_from([16, 32, 64, 128])),
            draw(st.sampled_from([64, 128])),
            draw(st.sampled_from([64, 128])),
        ],
        "panel_slices": draw(st.integers(1, 4)),
        "scale_panels": draw(st.integers(1, 3)),
        "buffers": {"l1": draw(count), "l0": draw(count), "l0c": draw(count)},
        "loop_order": draw(st.sampled_from(["mn", "nm"])),
        "cores": draw(st.sampled_from(["representative", "all"])),
    }
    layout = {"layout": {"b": draw(st.sampled_from(["kn", "nk"]))}}
    granule = {"arch__units__fixpipe__partial_granule_factor": draw(st.sampled_from([1, 1.6, 10]))}
    hbm = {"arch__links__hbm__bytes_per_cycle": draw(st.sampled_from([40, 200, 2000]))}
    return prepared(
        m, k, n, dtype, dtype, out, tiling=tiling, problem=layout, arch=arch, shipped=True, inputs={}, **granule, **hbm
    )


def plan_of(ready: Prepared) -> BlockedPlan:
    assert isinstance(ready.plan, BlockedPlan)
    return ready.plan


def cycles(ready: Prepared, program: Program) -> int:
    trace = Machine(ready.scenario.arch, program).run()
    return ceil_div(trace.end, trace.ticks_per_cycle)


@settings(max_examples=60)
@given(blocked_scenarios())
def test_no_run_is_faster_than_the_bound(ready: Prepared) -> None:
    bounds = bounds_of(plan_of(ready))
    assert 0 < bounds.lower <= cycles(ready, program_of(ready)), bounds


@settings(max_examples=40)
@given(blocked_scenarios())
def test_counting_gives_the_instructions_of_the_unrolled_loop(ready: Prepared) -> None:
    plan = plan_of(ready)
    tensors = tensors_of(plan)
    for group, core in zip(plan.groups, program_of(ready).cores, strict=True):
        unrolled: dict[Any, int] = {}
        for instruction in core.instructions:
            if not isinstance(instruction.params, Sync):
                key = (instruction.engine, instruction.params)
                unrolled[key] = unrolled.get(key, 0) + 1
        assert dict(census(CoreLoop(plan, group, tensors))) == unrolled


@settings(max_examples=30)
@given(blocked_scenarios())
def test_the_sums_are_those_of_the_busiest_core(ready: Prepared) -> None:
    arch, program = ready.scenario.arch, program_of(ready)
    cores = [alone_cycles(Program(program.tensors, (core,)), arch) for core in program.cores]
    stands = [core.stands_for for core in program.cores]
    for name, found in bounds_of(plan_of(ready)).alone.items():
        assert found == max(ceil_div(each[name], count) for each, count in zip(cores, stands, strict=True))


def test_a_store_that_is_dear_on_one_core_is_not_charged_to_another() -> None:
    """The first core has the most matmuls, the last one, with rows cut off the granule, the dearest stores."""
    ready = prepared(
        64, 256, 160, "fp16", "fp16", "fp32", arch="ascend_a3", shipped=True, inputs={},
        tiling={"kind": "blocked", "core_grid": [1, 2], "base": [64, 64, 128], "buffers": {"l1": 2, "l0": 2, "l0c": 1}},
        arch__units__fixpipe__partial_granule_factor=50,
    )  # fmt: skip
    assert bounds_of(plan_of(ready)).lower <= cycles(ready, program_of(ready))


@pytest.mark.parametrize(
    ("buffers", "limit"),
    [
        ({"l1": 2, "l0": 2, "l0c": 1}, "cube+fixpipe"),
        ({"l1": 2, "l0": 1, "l0c": 2}, "textract+cube"),
        ({"l1": 1, "l0": 2, "l0c": 2}, "tload+textract"),
    ],
)
def test_engines_that_share_one_buffer_take_turns(buffers: dict[str, int], limit: str) -> None:
    tiling = {"kind": "blocked", "base": [64, 64, 64], "buffers": buffers}
    found = bounds_of(plan_of(prepared(256, 256, 256, "fp16", "fp16", arch="ascend_a3", tiling=tiling, inputs={})))
    assert limit in found.limits
    assert len([name for name in found.limits if "+" in name]) == 1


def test_bounds_are_close_for_the_usual_kernels() -> None:
    for name, least in (("silicon/a3_gemm_1536", 0.8), ("silicon/a5_mxfp8_2048", 0.85)):
        from hwmodel.experiment import prepare
        from hwmodel.scenario import load

        ready = prepare(load(name, {"expect": {}}))
        bounds = bounds_of(plan_of(ready))
        assert least < bounds.lower / cycles(ready, program_of(ready)) <= 1
        assert bounds.by in bounds.limits


# -- auto --------------------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 400), st.sampled_from(PAIRS), st.integers(1, 6))
def test_auto_fits_and_runs_bit_exact_or_says_why(
    m: int, k: int, n: int, pair: tuple[str, str, str], most: int
) -> None:
    arch, dtype, out = pair
    tiling = {"kind": "auto", "max_cores": most}
    ready = prepared(m, k, n, dtype, dtype, out, arch=arch, tiling=tiling, shipped=True, inputs={})
    plan = plan_of(ready)
    assert plan.active_cores <= most
    assert plan.summary()["picked_by"] == "auto"
    assert not ready.hazards()


def test_auto_is_within_a_tenth_of_the_usual_kernel_or_better() -> None:
    from hwmodel.experiment import simulate
    from hwmodel.scenario import load

    for name in ("silicon/a3_gemm_1536", "silicon/a5_mxfp8_2048"):
        usual = simulate(load(name), values="skip").cycles
        picked = simulate(load(name, {"tiling": {"kind": "auto"}, "expect": {}}), values="skip").cycles
        assert usual is not None
        assert picked is not None
        assert picked <= 1.1 * usual
