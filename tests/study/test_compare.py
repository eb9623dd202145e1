"""Comparison: the first is the baseline, parts of a difference add up, and a run folder is read where that suffices."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import hwmodel
from hwmodel.errors import InputError
from hwmodel.experiment import simulate
from hwmodel.scenario import load
from hwmodel.study.compare import Comparison, Job, compare, comparison, job_of, run_job
from hwmodel.study.entry import entry_of, record_of
from hwmodel.study.journal import Journal
from hwmodel.study.pool import Workers
from hwmodel.writers import comparison as writer
from hwmodel.writers import style
from hwmodel.writers.canvas import Text, pixels

ONE, TWO = "hif4_512x128x512", "hif4_512x128x512_l0c2"


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compare([job_of(name, "check") for name in (ONE, TWO)])


def test_the_first_is_the_baseline_c8(found: Comparison) -> None:
    base, other = found.entries
    assert found.ratio(base) == 1.0
    assert other.cycles is not None
    assert base.cycles is not None
    assert found.ratio(other) == other.cycles / base.cycles
    assert [found.bits(entry) for entry in found.entries] == ["baseline", "equal"]
    row = found.rows()[1]
    assert row["gm_write_bytes"] == 512 * 512 * 2
    assert row["l0c_peak_bytes"] == 256 * 1024
    assert row["fixpipe_utilization"] == other.units["fixpipe"]["utilization"]


def test_the_parts_of_a_difference_add_up(found: Comparison) -> None:
    text = found.change(found.entries[1])
    total, *parts = (
        int(part.replace(",", "")) for part in re.findall(r"[+-][\d,]+(?= )", re.sub(r"\(.*?\)", "", text))
    )
    assert total == sum(parts) != 0
    assert found.change(found.base) == ""


def test_what_a_journal_holds_is_not_run_again(found: Comparison, tmp_path: Path) -> None:
    """The second run of the pair is in the journal of a call that was killed, and comes out of it whole."""
    jobs = [job_of(name, "check") for name in (ONE, TWO)]
    path = tmp_path / "journal.jsonl"
    with Journal(path, fresh=True) as journal:
        journal.add(jobs[1].key, record_of(replace(found.entries[1], note="from the journal")))
    with path.open("a") as torn:
        torn.write('{"version":1,"key":"')
    with Journal(path, fresh=False) as journal:
        again = compare(jobs, Workers(), journal)
        assert set(journal.records) == {job.key for job in jobs}
    assert [entry.note for entry in again.entries] == ["", "from the journal"]
    assert again.rows() == found.rows()
    pairs = zip(again.entries, found.entries, strict=True)
    assert all(record_of(replace(a, note="")) == record_of(b) for a, b in pairs)
    for lane, expected in zip(again.entries[1].shape.lanes, found.entries[1].shape.lanes, strict=True):  # type: ignore[union-attr]
        assert all(np.array_equal(a, b) for a, b in zip(lane[3:], expected[3:], strict=True))


def test_the_lanes_cover_what_the_units_did(found: Comparison) -> None:
    for entry in found.entries:
        assert entry.shape is not None
        assert [lane.engine for lane in entry.shape.lanes] == ["MTE2", "MTE1", "M", "FIX"]
        for lane in entry.shape.lanes:
            assert int(np.diff(lane.busy, axis=1).sum()) == entry.units[lane.unit]["busy_cycles"]
            assert int(np.diff(lane.wait_space, axis=1).sum()) == entry.units[lane.unit]["wait_space_cycles"]


def test_shares_of_an_engine_with_queues_are_those_of_its_unit() -> None:
    """Its next load may wait while others are under way: that time is busy, and not both."""
    entry = entry_of(simulate(load("neuron_gemm_tiled", {"expect": {}}), values="skip"))
    assert entry.shape is not None
    for lane in entry.shape.lanes:
        busy, waits = (int(share) for share in re.findall(r"\d+", writer._shares(lane, entry.shape.end)))
        assert busy + waits <= 100


def test_slower_than_is_by_more_than_the_percentage(found: Comparison) -> None:
    ratio = found.ratio(found.entries[1])
    assert ratio is not None
    percent = 100 * (ratio - 1)
    assert found.slower_than(percent - 0.01) == [found.entries[1]]
    assert found.slower_than(percent) == []


def test_bits_are_compared_for_one_problem_only(found: Comparison) -> None:
    other = run_job(job_of("hif4_256x256x256", "check"))
    skipped = run_job(job_of(ONE, "skip"))
    both = comparison([found.base, other, skipped])
    assert [both.bits(entry) for entry in both.entries] == ["baseline", "n/a (another problem)", "not computed"]
    order = run_job(Job("x", load("bf16_hif4_1x256x64", {"expect": {}, "accumulate.order": "f64"}), "check"))
    seq = run_job(Job("x", load("bf16_hif4_1x256x64", {"expect": {}}), "check"))
    assert comparison([seq, order]).bits(order) in ("equal", "DIFFER")


def test_equal_names_are_told_apart(found: Comparison) -> None:
    labels = [entry.label for entry in comparison([found.base, found.base]).entries]
    assert labels == [f"{ONE} #1", f"{ONE} #2"]


def test_a_run_folder_is_read_from_its_result(found: Comparison, tmp_path: Path) -> None:
    folder = simulate(load(ONE)).save(tmp_path / "run", ("result",))
    entry = run_job(job_of(folder, "check"))
    assert replace(entry, shape=None, inputs="") == replace(found.base, shape=None, inputs="")
    assert entry.shape is not None
    assert comparison([found.base, entry]).bits(entry) == "equal"

    summary = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**summary, "cycles": summary["cycles"] + 1}))
    old = run_job(job_of(folder, "check"))
    assert old.cycles == summary["cycles"] + 1
    assert old.shape is None
    assert "this version gives" in old.note
    with pytest.raises(InputError, match="not a run folder"):
        job_of(folder, "check", ["problem.m=64"])


def test_jobs_change_nothing(found: Comparison) -> None:
    jobs = [job_of(name, "check") for name in (ONE, TWO)]
    again = compare(jobs, Workers("local", 2))
    assert again.rows() == found.rows()


def test_clocks_that_differ_are_compared_by_time() -> None:
    runs = [entry_of(simulate(load("hif4_64x64x64", {"arch.clock_mhz": mhz}), values="skip")) for mhz in (800, 1600)]
    both = comparison(runs)
    assert not both.one_clock
    assert both.ratio(both.entries[1]) == pytest.approx(0.5)
    assert "another clock" in both.change(both.entries[1])


def test_an_operation_without_timing_has_bits_and_no_ratio() -> None:
    both = compare([job_of("quantize_hif4", "check"), job_of("quantize_hif4", "check")])
    assert both.ratio(both.entries[1]) is None
    assert both.bits(both.entries[1]) == "equal"
    assert both.change(both.entries[1]) == ""
    assert writer.draw(both).height > 0


def test_the_page_has_the_figures_and_the_picture(found: Comparison, tmp_path: Path) -> None:
    page = "\n".join(writer.markdown(found, "compare.png"))
    assert "![time, traffic and timelines of the runs](compare.png)" in page
    assert f"| {TWO} | 38,250 | 1.743 |" in page
    writer.write(found, tmp_path / "a.png")
    writer.write(found, tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    writer.write(found, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert ONE in text
    assert "38,250" in text


def test_a_long_run_is_drawn_as_shares_of_time() -> None:
    scenario = load("silicon/a3_gemm_1536", {"expect": {}})
    both = comparison([entry_of(simulate(scenario, values="skip"))])
    canvas = writer.draw(both)
    assert len(canvas.shapes) < 400


def test_the_python_interface_takes_what_there_is(found: Comparison) -> None:
    result = simulate(load(ONE))
    table = hwmodel.compare([result, load(TWO), ONE])
    assert isinstance(table, pl.DataFrame)
    assert table["ratio"].to_list() == [1.0, found.ratio(found.entries[1]), 1.0]
    assert table["bits"].to_list() == ["baseline", "equal", "equal"]
    with pytest.raises(InputError, match="at least one run"):
        hwmodel.compare([])


def test_equal_runs_are_simulated_once_and_progress_is_told(tmp_path: Path) -> None:
    jobs = [job_of(ONE, "skip"), job_of(TWO, "skip"), replace(job_of(ONE, "skip"), label="again")]
    told: list[int] = []
    with Journal(tmp_path / "journal.jsonl", fresh=True) as journal:
        again = compare(jobs, Workers(), journal, told.append)
        assert len(journal.records) == 2
    assert told == [1, 2]
    assert [entry.label for entry in again.entries] == [jobs[0].label, jobs[1].label, "again"]
    assert again.ratio(again.entries[2]) == 1


def test_lanes_have_the_stage_of_what_they_do() -> None:
    """The PE array loads weights as well as it multiplies, a DMA queue stores as well as it loads."""
    shape = entry_of(simulate(load("neuron_gemm_tiled"), values="skip")).shape
    assert shape is not None
    stages = {lane.engine: lane.stage for lane in shape.lanes}
    assert stages == {"DMA0": 0, "DMA1": 0, "DMA2": 4, "PEW": 1, "PE": 2, "DVE": 3}


def test_the_legend_names_what_is_drawn() -> None:
    """Stores are drawn in a colour of their own where a machine has them, and nowhere else."""
    for name, phases in {"neuron_gemm_tiled": {"store"}, "hif4_64x64x64": set()}.items():
        entry = entry_of(simulate(load(name), values="skip"))
        shapes = [shape for shape in writer.draw(comparison([entry, entry])).shapes if isinstance(shape, Text)]
        texts = {shape.text for shape in shapes}
        note, idle = (next(one for one in shapes if one.text.startswith(text)) for text in ("one core of", "idle"))
        assert idle.x + 0.6 * pixels(style.TEXT) * len("idle") < note.x - 0.5 * pixels(style.SMALL) * len(note.text)
        assert {"load", "extract", "multiply", "drain"} < texts
        assert texts & {"store"} == phases
