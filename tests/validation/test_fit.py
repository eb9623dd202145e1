"""Fitting numbers of a machine: what is found again, what is refused, what is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hwmodel.config.arch import load_arch
from hwmodel.errors import InputError
from hwmodel.validation.compare import compare_row
from hwmodel.validation.fit import fit, fitted_fields, free_fields, left_out_error, left_out_tasks
from hwmodel.validation.table import Measurement, read_table

pytest.importorskip("scipy")


def made_up(launch: int, rate: int) -> list[Measurement]:
    """Rows whose times come from the model with other numbers: a fit must find these again."""
    (row,) = [row for row in read_table() if row.id == "a3_gemm_1536"]
    rows = []
    for extent in (512, 1024, 1536):
        other = replace(row, id=f"n{extent}", m=extent, k=extent, n=extent, ratios={})
        found = compare_row(other, {"arch.launch_cycles": launch, "arch.units.tload.bytes_per_cycle": rate})
        assert found.modelled_ms is not None
        rows.append(replace(other, time_ms=found.modelled_ms))
    return rows


def test_finds_the_numbers_that_made_the_table() -> None:
    found = fit(made_up(9000, 90), ["launch_cycles", "arch.units.tload.bytes_per_cycle"])
    assert found.error_before > 5
    assert found.error_after < 0.2
    assert found.after["launch_cycles"] == pytest.approx(9000, rel=0.02)
    assert found.after["units.tload.bytes_per_cycle"] == pytest.approx(90, rel=0.02)


def test_writes_a_variant_that_loads_and_says_what_it_is(tmp_path: Path) -> None:
    found = fit(made_up(9000, 121), ["launch_cycles"])
    file = tmp_path / "mine.yaml"
    file.write_text(found.variant("mine", "table.csv"), encoding="utf-8")
    arch = load_arch("mine.yaml", tmp_path)
    assert arch.name == "mine"
    assert arch.spec.launch_cycles == pytest.approx(9000, rel=0.02)
    source = arch.sources["launch_cycles"]
    assert source.confidence == "fit"
    assert source.source == "fit to 3 measurements of table.csv, from 14500"
    assert arch.spec.units["cube"] == load_arch("ascend_a3").spec.units["cube"]
    assert arch.known_error is not None, "the errors of this fit, not those of the machine it began with"
    assert arch.known_error.measurements == 3
    assert arch.known_error.worst_percent == pytest.approx(found.worst_after, abs=0.01)
    assert found.worst_after >= found.error_after


def test_refuses_what_cannot_be_fitted() -> None:
    rows = read_table()
    a3 = [row for row in rows if row.arch == "ascend_a3"]
    with pytest.raises(InputError, match=r"expected rows of one machine to fit, not of ascend_a3, ascend_a5"):
        fit(rows[:3], ["launch_cycles"])
    with pytest.raises(InputError, match=r"unknown number 'lunch_cycles', did you mean 'launch_cycles'"):
        fit(a3, ["lunch_cycles"])
    with pytest.raises(InputError, match="cannot be fitted to 1 measured figures"):
        fit([replace(a3[0], ratios={})], ["launch_cycles", "units.tload.bytes_per_cycle"])
    with pytest.raises(InputError, match=r"units\.cube\.fractals\.int8\.k_per_fractal has no effect"):
        fit([a3[0]], ["units.cube.fractals.int8.k_per_fractal"])
    with pytest.raises(InputError, match="expected at least one field"):
        fit(a3, [])
    with pytest.raises(InputError, match="n0 cannot be simulated"):
        fit([replace(a3[0], id="n0", fields={**a3[0].fields, "base_k": "7"})], ["launch_cycles"])


def test_an_unknown_number_names_those_it_is_part_of() -> None:
    with pytest.raises(InputError, match=r"unknown number 'fixpipe' \(in units.fixpipe.startup_cycles,") as found:
        free_fields(load_arch("ascend_a6"), ["fixpipe"])
    assert "tload" not in str(found.value)
    assert "hwmodel list arch ascend_a6 prints all" in str(found.value)


def two_small_rows(**times: float) -> list[Measurement]:
    cells = {"dtype_a": "hif4", "dtype_b": "hif4", "dtype_out": "bf16", "core_grid": "1x1"}
    sizes = {"wide": (512, 128, 512, "256", "128", "256"), "small": (128, 128, 128, "128", "64", "128")}
    return [
        Measurement(
            name, "ascend_a6", "mine", *sizes[name][:3], time, {},
            {**cells, **dict(zip(("base_m", "base_k", "base_n"), sizes[name][3:], strict=True)), "panel_slices": "1"},
            f"own.csv:{place}",
        )
        for place, (name, time) in enumerate(times.items(), start=2)
    ]  # fmt: skip


@pytest.mark.parametrize("field", ["units.fixpipe.bytes_per_cycle", "units.fixpipe.startup_cycles"])
def test_a_number_may_lose_its_effect_where_the_fit_ends(field: str) -> None:
    """A drain rate beyond the floor of a row, a start-up whose steps round to nothing: both do tell at the start."""
    found = fit(two_small_rows(wide=0.02, small=0.002), [field])
    assert found.after[field] != found.before[field]


def test_small_whole_numbers_are_varied_by_one() -> None:
    """A hundredth of 14 cycles rounds to none."""
    rows = two_small_rows(wide=0.0062)
    slower = compare_row(rows[0], {"arch.units.cube.startup_cycles": 60})
    assert slower.modelled_ms is not None
    found = fit([replace(rows[0], time_ms=slower.modelled_ms)], ["units.cube.startup_cycles"])
    assert found.after["units.cube.startup_cycles"] == 60


def test_numbers_of_zero_have_no_start() -> None:
    with pytest.raises(InputError, match="expected a number above 0 to start from"):
        free_fields(load_arch("ascend_a6"), ["launch_cycles"])


def test_what_was_fitted_is_read_from_the_sources() -> None:
    assert fitted_fields(load_arch("ascend_a5")) == ["launch_cycles", "units.tload.bytes_per_cycle"]
    assert fitted_fields(load_arch("ascend_a6")) == []


def test_leaves_one_out_only_where_the_others_tell() -> None:
    rows = made_up(9000, 121)
    tasks = left_out_tasks(rows, ["launch_cycles"])
    assert [task.row.id for task in tasks] == ["n512", "n1024", "n1536"]
    assert [other.id for other in tasks[0].others] == ["n1024", "n1536"]
    assert left_out_error(tasks[0]) == pytest.approx(0, abs=0.5)
    assert left_out_tasks(rows[:1], ["launch_cycles"]) == []
    assert left_out_tasks(rows, []) == []


def test_a_number_that_a_kernel_overrides_is_not_the_machines() -> None:
    """The MXFP4 kernel states its own TEXTRACT rate: fitting the machine's from its rows alone moves nothing."""
    rows = [row for row in read_table() if row.id == "a5_mxfp4_2048x4096x4096"]
    with pytest.raises(InputError, match="has no effect"):
        fit(rows, ["units.textract.bytes_per_cycle.l0a"])
