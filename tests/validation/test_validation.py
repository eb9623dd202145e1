"""The model against the measurements: the targets, other sizes of the same kernels, users' own tables."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hwmodel.config.arch import load_arch
from hwmodel.config.resources import shipped_archs
from hwmodel.errors import InputError
from hwmodel.validation.compare import Validation, compare_row, validate
from hwmodel.validation.kernels import scenario_of
from hwmodel.validation.report import EXPLANATIONS, misses, text
from hwmodel.validation.table import Measurement, read_table


@pytest.fixture(scope="module")
def shipped() -> Validation:
    return validate(read_table(), jobs=2)


def test_time_of_every_row_within_five_per_cent(shipped: Validation) -> None:
    assert not shipped.problems
    assert {row.measurement.id: row.error_percent for row in shipped.rows if abs(row.error_percent or 99) > 5} == {}


def test_mean_error_of_every_machine_within_three_per_cent(shipped: Validation) -> None:
    assert {machine.arch for machine in shipped.machines} == {"ascend_a3", "ascend_a5", "neuron_trn1", "neuron_trn2"}
    assert all(machine.mape_percent <= 3 for machine in shipped.machines)


def test_every_miss_is_explained_and_every_explanation_is_needed(shipped: Validation) -> None:
    """A gap that closes shall not stay in the report."""
    found = misses(shipped)
    assert {(miss.row, miss.what.split()[0]) for miss in found} == set(EXPLANATIONS)
    assert all(miss.why for miss in found)


def test_machines_state_the_errors_that_are_found(shipped: Validation) -> None:
    """``validation:`` in the arch files is what ``hwmodel validate`` prints."""
    for machine in shipped.machines:
        stated = load_arch(machine.arch).spec.validation
        assert stated is not None, machine.arch
        assert stated.measurements == machine.rows
        assert float(stated.mape_percent) == pytest.approx(machine.mape_percent, abs=0.02), machine.arch
        assert float(stated.worst_percent) == pytest.approx(machine.worst_percent, abs=0.02), machine.arch
    measured = {machine.arch for machine in shipped.machines}
    for name in set(shipped_archs()) - measured:
        arch = load_arch(name)
        assert not arch.calibrated
        assert arch.known_error is None


def test_the_report_says_what_was_found(shipped: Validation) -> None:
    lines = "\n".join(text(shipped, {"a3_gemm_1536": 12.5}))
    assert "| a3_gemm_1536 | ascend_a3 | 1536 x 1536 x 1536 | 0.0388 ms | 0.0" in lines
    assert "+12.5 %" in lines
    assert "ascend_a6 | **no**" in lines
    assert "a5_mxfp8_2048, tload share" in lines
    assert "| ascend_a3 | 3 | 10 | launch_cycles | 14500 |" in lines
    assert "|  |  | units.cube.startup_cycles | 12 | 524 cycles for 512 fractals in published profiles |" in lines
    assert "| matmul_mxfp4_performance | 4 |" in lines


def test_another_size_of_a_known_kernel_uses_its_scenario() -> None:
    """A row that does not ship takes the kernel's template: the MXFP4 kernel keeps its own TMATMUL."""
    known = {row.id: row for row in read_table()}
    other = replace(known["a5_mxfp4_2048x4096x4096"], id="other", m=1024, k=2048, n=2048, time_ms=0.05)
    scenario = scenario_of(other)
    assert (scenario.problem.m, scenario.problem.k, scenario.problem.n) == (1024, 2048, 2048)  # type: ignore[union-attr]
    assert float(scenario.arch.spec.units["cube"].fractals["mxfp4_e2m1"].passes) == 1.96
    assert compare_row(other).modelled_ms is not None


@pytest.mark.parametrize(
    ("template", "extent"),
    [("a3_gemm_1536", 3072), ("a3_gemm_1536", 7680), ("a5_mxfp8_2048", 4096), ("a5_mxfp8_2048", 8192)],
)
def test_other_sizes_lie_between_the_roof_and_the_launch(template: str, extent: int) -> None:
    """No size is faster than its Cube alone; none is slower than twice that and the launch."""
    row = next(row for row in read_table() if row.id == template)
    found = compare_row(replace(row, id="other", m=extent, k=extent, n=extent))
    arch = load_arch(row.arch)
    assert found.cycles is not None
    peak = arch.peak_macs_per_cycle(row.fields["dtype_a"], row.fields["dtype_b"]) * arch.spec.cores
    ideal = extent**3 / peak
    assert ideal < found.cycles < 2 * ideal + 2 * arch.spec.launch_cycles


def test_a_row_that_cannot_be_simulated_does_not_stop_the_others() -> None:
    good = read_table()[0]
    bad = replace(good, id="bad", fields={**good.fields, "base_m": "100"})
    found = validate([bad, good])
    assert [row.measurement.id for row in found.problems] == ["bad"]
    assert "base" in found.rows[0].problem
    assert found.rows[1].error_percent is not None
    assert [machine.rows for machine in found.machines] == [1]


def test_a_kernel_that_does_not_ship_is_made_of_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(
        "id,arch,kernel,dtype_a,dtype_b,dtype_out,m,k,n,core_grid,base_m,base_k,base_n,panel_slices,time_ms\n"
        "mine,ascend_a3,my_gemm,bf16,bf16,fp32,512,512,512,1x2,128,64,256,2,0.05\n"
        "loop,neuron_trn2,my_tiled,bf16,bf16,fp32,256,256,512,,,,,,0.05\n",
        encoding="utf-8",
    )
    mine, loop = read_table(file)
    scenario = scenario_of(mine)
    assert scenario.tiling.kind == "blocked"
    assert scenario.tiling.core_grid == (1, 2)
    assert scenario.tiling.base == (128, 64, 256)
    assert scenario_of(loop).tiling.kind == "tiled"
    assert all(compare_row(row).modelled_ms for row in (mine, loop))


@pytest.mark.parametrize(
    ("arch", "kernel", "cells", "kind"),
    [
        ("ascend_a6", "the_kernel_n_split", {}, "n_split"),
        ("ascend_a6", "my_auto", {}, "auto"),
        ("ascend_a6", "anything", {"core_grid": "2x2"}, "blocked"),
        ("neuron_trn2", "my_fully_blocked", {}, "fully_blocked"),
        ("mine.yaml", "my_hoisted", {}, "hoisted"),
    ],
)
def test_the_end_of_a_kernels_name_is_its_tiling(
    arch: str, kernel: str, cells: dict[str, str], kind: str, tmp_path: Path
) -> None:
    """A kernel of n_split was simulated as a blocked one, and a variant of a Neuron machine taken for an Ascend."""
    (tmp_path / "mine.yaml").write_text("base: neuron_trn2\n", encoding="utf-8")
    fields = {"dtype_a": "bf16", "dtype_b": "bf16", **cells}
    row = Measurement("one", arch, kernel, 256, 256, 512, 1.0, {}, fields, f"{tmp_path / 'table.csv'}:2")
    assert scenario_of(row).tiling is not None
    assert scenario_of(row).tiling.kind == kind


def test_columns_that_a_named_tiling_lacks_are_refused() -> None:
    fields = {"dtype_a": "bf16", "dtype_b": "bf16", "core_grid": "2x2"}
    row = Measurement("one", "ascend_a6", "my_n_split", 256, 256, 512, 1.0, {}, fields, "table.csv:2")
    with pytest.raises(InputError, match=r"tiling\.core_grid: expected one of kind, tile_n, buffers"):
        scenario_of(row)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"core_grid": "2x4"}, "core_grid: expected 1x1, as loop structures use one core, not 2x4"),
        ({"base_m": "64"}, "base_m: expected 128, the tile of neuron_trn1 for these operands, not 64"),
        ({"base_n": "256"}, "base_n: expected 512"),
        ({"panel_slices": "2"}, "panel_slices: expected none, as tiled has no panels, not 2"),
    ],
)
@pytest.mark.parametrize("kernel", ["nki_tutorial_tiled", "my_tiled"])
def test_columns_that_loop_structures_do_not_follow_are_refused(
    kernel: str, cells: dict[str, str], message: str
) -> None:
    """They were read and left out in silence: every grid gave the time of one core."""
    fields = {
        "dtype_a": "bf16",
        "dtype_b": "bf16",
        "core_grid": "1x1",
        "base_m": "128",
        "base_k": "128",
        "base_n": "512",
    }
    row = Measurement("one", "neuron_trn1", kernel, 4096, 1024, 1024, 1.0, {}, fields, "table.csv:2")
    assert scenario_of(row).tiling is not None
    with pytest.raises(InputError, match=re.escape(f"table.csv:2: {message}")):
        scenario_of(replace(row, fields={**fields, **cells}))


def test_a_row_may_name_a_scenario_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "name: x\narch: ascend_a6\nproblem: {op: matmul, m: 64, k: 64, n: 64, a: hif4, b: hif4, out: bf16}\n"
        "tiling: {kind: n_split}\n",
        encoding="utf-8",
    )
    file = tmp_path / "table.csv"
    file.write_text("id,arch,kernel,m,k,n,time_ms,scenario\nmine,ascend_a6,x,128,64,64,0.001,mine.yaml\n", "utf-8")
    (row,) = read_table(file)
    assert scenario_of(row).problem.m == 128  # type: ignore[union-attr]


def test_ratios_are_those_of_the_units_of_the_family(shipped: Validation) -> None:
    rows = {row.measurement.id: row for row in shipped.rows}
    assert [ratio.unit for ratio in rows["a3_gemm_1536"].ratios] == ["cube", "textract", "tload", "fixpipe"]
    assert [ratio.unit for ratio in rows["trn2_fp32_tiled"].ratios] == ["pe", "dma"]
    ratio = rows["a3_gemm_1536"].ratios[0]
    assert ratio.difference_points == pytest.approx(100 * (ratio.modelled - 0.545))


def test_documents_hold_what_was_measured_and_modelled(shipped: Validation) -> None:
    document = shipped.to_dict()
    assert document["schema_version"] == 1
    assert len(document["rows"]) == 11
    first = document["rows"][0]
    assert first["measured_ms"] == 0.0388
    assert first["error_percent"] == pytest.approx(100 * (first["modelled_ms"] / 0.0388 - 1))
    assert first["problem"] is None


def test_a_field_of_a_row_is_named_without_a_flag_that_nobody_typed() -> None:
    bad = replace(read_table()[0], fields={**read_table()[0].fields, "dtype_a": "fp17"})
    problem = validate([bad]).rows[0].problem
    assert problem.startswith("problem.a: unknown dtype 'fp17', did you mean 'fp16'?")
