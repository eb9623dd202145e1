"""tune: bounds never discard the best, the same search for any number of jobs, and a best.yaml that is ready to run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hwmodel.errors import InputError
from hwmodel.experiment import prepare, simulate
from hwmodel.program.memory import Window
from hwmodel.program.neuron import Transfer
from hwmodel.scenario import Scenario, load
from hwmodel.study.journal import Journal
from hwmodel.study.measure import measure, task_of
from hwmodel.study.points import Override, Template
from hwmodel.study.pool import Workers
from hwmodel.study.spaces import BlockedSpace, space_of
from hwmodel.study.tune import best_file, check_best, tune
from hwmodel.units.neuron.dma import row_cycles

ALONE = Workers("local", 1)


def small(m: int, k: int, n: int, arch: str = "ascend_a3", dtype: str = "fp16", **more: Any) -> Scenario:
    problem = {"op": "matmul", "m": m, "k": k, "n": n, "a": dtype, "b": dtype, "out": "fp32"}
    fields = {"arch": arch, "problem": problem, "tiling": {"kind": "blocked"}, "expect": {}, "inputs": {}}
    return load("hif4_64x64x64", {**fields, **more})


def exhaustive(scenario: Scenario, max_cores: int | None = None) -> int:
    """Cycles of the best of all candidates, each simulated."""
    space = space_of(scenario, max_cores=max_cores)
    template = Template.of(scenario)
    best = None
    for family in space.families():
        for _, candidate in space.members(family):
            record = measure(task_of(template.scenario(Override(("tiling",), candidate)), "skip"))
            if record.cycles is not None:
                best = record.cycles if best is None else min(best, record.cycles)
    assert best is not None
    return best


@pytest.mark.parametrize(
    ("scenario", "cores"),
    [
        (small(48, 64, 40), 1),
        (small(40, 80, 24), 1),
        (small(64, 64, 64, "ascend_a6", "hif4"), 1),
        (small(20, 128, 64, "ascend_a5", "mxfp8_e4m3"), 2),
    ],
)
def test_the_search_finds_what_trying_everything_finds(scenario: Scenario, cores: int) -> None:
    found = tune(scenario, max_cores=cores, workers=ALONE)
    assert found.method == "bounds"
    assert found.proven
    assert found.best["cycles"] == exhaustive(scenario, cores)


def test_few_are_simulated_and_the_order_is_best_first() -> None:
    found = tune(small(256, 256, 256), max_cores=4, workers=ALONE)
    assert len(found.rows) < found.considered / 10
    cycles = [row["cycles"] for row in found.rows]
    assert cycles == sorted(cycles)
    assert all(row["bound_cycles"] <= row["cycles"] for row in found.rows)


def test_bounds_hold_at_every_level() -> None:
    """family <= member <= counted <= simulated."""
    scenario = small(100, 130, 90)
    space = space_of(scenario, max_cores=4)
    template = Template.of(scenario)
    families = list(space.families())
    for family in families[:: max(1, len(families) // 25)]:
        members = list(space.members(family))
        for quick, candidate in members[:: max(1, len(members) // 4)]:
            exact = space.bound(candidate)
            record = measure(task_of(template.scenario(Override(("tiling",), candidate)), "skip"))
            assert record.cycles is not None
            assert family.bound <= quick <= exact <= record.cycles, candidate


@pytest.mark.parametrize("odd", [96, 100, 257])
def test_quick_bounds_hold_where_rows_of_the_output_are_not_aligned(odd: int) -> None:
    scenario = small(64, 64, odd, **{"arch.units.fixpipe.partial_granule_factor": 8})
    space = space_of(scenario, max_cores=2)
    for family in list(space.families())[::9]:
        for quick, candidate in list(space.members(family))[::40]:
            assert quick <= space.bound(candidate), candidate


def test_any_number_of_jobs_simulates_the_same() -> None:
    scenario = small(64, 96, 64)
    alone = tune(scenario, max_cores=2, workers=ALONE)
    two = tune(scenario, max_cores=2, workers=Workers("local", 2))
    assert two.table().equals(alone.table())


def test_n_split_is_searched_through_widths_and_halves() -> None:
    found = tune(load("hif4_512x128x512"), workers=ALONE)
    assert found.best["tiling.tile_n"] == 128
    assert {row["tiling.buffers.l0c"] for row in found.rows} == {1, 2}
    assert found.proven


def test_sampling_is_seeded_and_never_worse_than_auto() -> None:
    pytest.importorskip("optuna")
    scenario = small(256, 256, 256)
    first = tune(scenario, max_cores=4, search="optuna", trials=20, workers=ALONE)
    assert first.method == "optuna"
    assert tune(scenario, max_cores=4, search="optuna", trials=20, workers=ALONE).table().equals(first.table())
    auto = simulate(load("hif4_64x64x64", _fields(scenario, {"kind": "auto", "max_cores": 4})), values="skip")
    assert auto.cycles is not None
    assert first.best["cycles"] <= auto.cycles
    best = tune(scenario, max_cores=4, workers=ALONE)
    assert first.open_bound is not None
    assert first.open_bound <= best.best["cycles"] <= first.best["cycles"]


def _fields(scenario: Scenario, tiling: dict[str, Any]) -> dict[str, Any]:
    assert scenario.problem is not None
    problem = scenario.problem.model_dump()
    return {"arch": scenario.arch.name, "problem": problem, "tiling": tiling, "expect": {}, "inputs": {}}


def test_trials_end_a_search_that_then_says_what_is_open() -> None:
    scenario = small(200, 256, 200)
    found = tune(scenario, max_cores=2, search="bounds", trials=1, workers=ALONE)
    assert len(found.rows) <= 3
    assert not found.proven
    assert found.open_bound is not None
    whole = tune(scenario, max_cores=2, workers=ALONE)
    assert found.open_bound <= whole.best["cycles"] <= found.best["cycles"]


def test_a_journal_spares_what_was_done(tmp_path: Path) -> None:
    scenario = small(64, 64, 64)
    with Journal(tmp_path / "j", fresh=True) as journal:
        first = tune(scenario, max_cores=1, workers=ALONE, journal=journal)
    size = (tmp_path / "j").stat().st_size
    with Journal(tmp_path / "j", fresh=False) as journal:
        assert tune(scenario, max_cores=1, workers=ALONE, journal=journal).table().equals(first.table())
    assert (tmp_path / "j").stat().st_size == size


@pytest.mark.parametrize("own_arch", [False, True])
def test_best_yaml_is_ready_to_run(tmp_path: Path, own_arch: bool) -> None:
    overrides = {"tiling.kind": "blocked", **({"arch.clock_mhz": 1000} if own_arch else {})}
    found = tune(load("hif4_128x128x128", overrides), max_cores=1, workers=ALONE)
    assert check_best(found) == ((), None)
    hazards, verdict = check_best(found, "check")
    assert (hazards, verdict and verdict.status) == ((), "bit_exact")
    text = best_file(found, Template.read("hif4_128x128x128", overrides), {"values": "bit_exact"}, tmp_path)
    (tmp_path / "best.yaml").write_text(text)
    assert ("arch: ascend_a6" in text) is not own_arch
    result = simulate(load(tmp_path / "best.yaml"))
    assert result.expect.status == "met"
    assert result.cycles == found.best["cycles"]


def test_what_cannot_be_tuned() -> None:
    with pytest.raises(InputError, match="expected a scenario with a matmul problem"):
        tune(load("quantize_hif4"))
    with pytest.raises(InputError, match=r"no matmul of|legal pairs|no tiling"):
        tune(small(64, 64, 64, "ascend_a3", "hif4"), workers=ALONE)


def test_neuron_loops_are_searched_by_their_parameters() -> None:
    scenario = load("hif4_64x64x64", {
        "arch": "neuron_trn2", "expect": {}, "inputs": {}, "tiling": {"kind": "tiled"},
        "problem": {"op": "matmul", "m": 256, "k": 256, "n": 1024, "a": "bf16", "b": "bf16", "out": "bf16"},
    })  # fmt: skip
    space = space_of(scenario)
    kinds = [family.key[0] for family in space.families()]
    assert kinds == ["tiled", "hoisted", "blocked_free", "fully_blocked"]
    found = tune(scenario, workers=ALONE)
    assert {row["tiling.kind"] for row in found.rows} >= {"tiled", "hoisted"}
    assert found.best["cycles"] == min(row["cycles"] for row in found.rows)


@pytest.mark.parametrize(
    ("arch", "dtype", "extents"),
    [
        ("neuron_trn2", "bf16", (300, 500, 1300)),
        ("neuron_trn1", "fp32", (513, 260, 700)),
        ("neuron_trn3", "mxfp8_e4m3", (260, 600, 1100)),
    ],
)
def test_the_bound_of_a_neuron_loop_is_what_its_rings_must_move(
    arch: str, dtype: str, extents: tuple[int, int, int]
) -> None:
    """No more than the run takes, and as much as the transfers of the unrolled loop, but the scales, add up to."""
    m, k, n = extents
    problem = {"op": "matmul", "m": m, "k": k, "n": n, "a": dtype, "b": dtype, "out": "bf16"}
    scenario = load(
        "hif4_64x64x64", {"arch": arch, "problem": problem, "inputs": {}, "tiling": {"kind": "tiled"}, "expect": {}}
    )
    space, template = space_of(scenario), Template.of(scenario)
    spec = scenario.arch.unit("dma")
    slower = scenario.arch.spec.clock_mhz / (spec.clock_mhz or scenario.arch.spec.clock_mhz)
    lead = scenario.arch.spec.launch_cycles + slower * (spec.startup_cycles + spec.completion_cycles)
    kinds, cycles = set(), {}
    for family in space.families():
        for quick, candidate in list(space.members(family))[::5]:
            try:
                bound = space.bound(candidate)
            except InputError:
                continue
            found = template.scenario(Override(("tiling",), candidate))
            program = prepare(found).program
            assert program is not None
            moved = sum(
                each.params.rows * row_cycles(spec, each.params.row_bytes)
                for each in program.cores[0].instructions
                if isinstance(each.params, Transfer) and not any("scale" in tensor_of(part) for part in each.reads)
            )
            assert bound == pytest.approx(float(lead + slower * moved / spec.rings), abs=float(slower) + 1)
            record = measure(task_of(found, "skip"))
            assert record.cycles is not None
            assert quick <= bound <= record.cycles, candidate
            cycles[str(candidate)] = record.cycles
            kinds.add(candidate["kind"])
    assert kinds == {"tiled", "hoisted", "blocked_free", "fully_blocked"}
    best = tune(scenario, workers=ALONE)
    assert best.best["cycles"] <= min(cycles.values())
    assert len(best.rows) < best.considered


def tensor_of(part: Any) -> str:
    """Name of the tensor in HBM that is read; empty for what lies in a buffer."""
    return part.tensor if isinstance(part, Window) else ""


def test_a_tiling_with_its_defaults_written_out_is_tried_once() -> None:
    """The scenario's own, with every field that it does not name, is a member of the space, too."""
    fields = {"expect": {}, "problem.m": 256, "problem.k": 256, "tiling.block": [2, 2, 2]}
    found = tune(load("neuron_gemm_fully_blocked", fields), workers=ALONE)
    assert len({row["plan"] for row in found.rows}) == len(found.rows)


def test_blocked_space_lists_single_and_double_buffers() -> None:
    space = space_of(small(64, 64, 64))
    assert isinstance(space, BlockedSpace)
    assert len(space.buffers) == 8


def test_the_space_has_the_smallest_tile_that_covers_the_problem() -> None:
    space = space_of(small(48, 72, 40))
    assert isinstance(space, BlockedSpace)
    assert space.space.bases_m() == [16, 32, 48]
    assert space.space.bases_n() == [16, 32, 48]
    assert space.space.bases_k() == [16, 32, 64, 80]
    wide = space_of(small(5000, 16, 16))
    assert isinstance(wide, BlockedSpace)
    assert max(wide.space.bases_m()) <= 4095


@pytest.mark.parametrize("name", ["hif4_128x128x256", "neuron_gemm_fully_blocked", "neuron_gemm_mx"])
def test_the_best_of_one_trial_is_no_worse_than_the_scenario(name: str) -> None:
    scenario = load(name, {"expect": {}})
    start = simulate(scenario, values="skip").cycles
    found = tune(scenario, trials=1, workers=ALONE)
    assert start is not None
    assert found.best["cycles"] <= start


@pytest.mark.parametrize("search", ["bounds", "optuna"])
@pytest.mark.parametrize("trials", [1, 2, 5, 20])
def test_trials_are_all_that_is_simulated(search: Any, trials: int) -> None:
    pytest.importorskip("optuna")
    counts: list[int] = []
    found = tune(
        small(200, 256, 200),
        max_cores=2,
        search=search,
        trials=trials,
        workers=ALONE,
        progress=lambda done, _best, _open: counts.append(done),
    )
    assert len(found.rows) <= counts[-1] <= trials
    assert search == "optuna" or counts[-1] == trials or found.proven  # samples that cannot win are not simulated


@pytest.mark.parametrize(
    ("name", "searched", "not_searched"),
    [
        ("hif4_64x64x64", ("n_split",), ["blocked"]),
        ("blocked_remainders", ("blocked",), ["n_split"]),
        ("neuron_gemm_tiled", ("tiled", "hoisted", "blocked_free", "fully_blocked"), []),
    ],
)
def test_what_was_not_searched_is_known(name: str, searched: tuple[str, ...], not_searched: list[str]) -> None:
    found = tune(load(name, {"expect": {}}), trials=1, workers=ALONE)
    assert (found.kinds, found.not_searched) == (searched, not_searched)
