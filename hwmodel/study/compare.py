"""Scenarios and earlier runs side by side: the first is the baseline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwmodel.config.runfolder import is_run
from hwmodel.errors import HwmodelError, InputError
from hwmodel.result import Result
from hwmodel.scenario import Scenario, load
from hwmodel.study.entry import Entry, entry_of, inputs_of, record_of, restored
from hwmodel.study.journal import Journal
from hwmodel.study.measure import Record, ValueMode, without_positions
from hwmodel.study.pool import Workers, run_tasks
from hwmodel.study.table import data_frame

if TYPE_CHECKING:
    import polars as pl

UNIT_KINDS = ("busy", "wait_input", "wait_space", "idle")


@dataclass(frozen=True)
class Job:
    """One side of a comparison, before it runs: a scenario, and the summary of its run where there is one already."""

    label: str
    scenario: Scenario
    values: ValueMode
    summary: dict[str, Any] | None = None
    note: str = ""

    @cached_property
    def key(self) -> str:
        """Names all that decides the entry but its label."""
        return f"{self.scenario.hash()}-{self.values}-{_hash([self.summary, self.note])}"


def job_of(name: str | Path, values: ValueMode, overrides: Any = None) -> Job:
    """A job from a scenario (path or name) or a run folder. Raises InputError."""
    path = Path(name)
    if not is_run(path):
        scenario = load(name, overrides)
        return Job(scenario.name, scenario, values)
    from hwmodel.runs import lacking, load_scenario, read_summary

    if overrides:
        raise InputError(f"{name}: expected a scenario with --set, not a run folder")
    if not (path / "result.json").is_file():
        scenario = load_scenario(path, None)
        return Job(scenario.name, scenario, values, note=lacking(path))
    summary = read_summary(path)
    scenario = load_scenario(path, summary)
    return Job(scenario.name, scenario, values, summary)


def check_job(job: Job) -> None:
    """Plan a scenario that is to be simulated. Raises InputError for one that does not fit, or lacks a file."""
    from hwmodel.experiment import prepare

    if job.summary is not None:
        return
    try:
        prepare(job.scenario)
    except InputError as error:
        raise job.scenario.locate(error, "tiling") from error


def run_job(job: Job) -> Entry:
    """Simulate; an earlier run's figures come from its summary, its timeline from simulating without values."""
    from hwmodel.experiment import simulate

    inputs = inputs_of(job.scenario)
    if job.summary is None:
        return replace(entry_of(simulate(job.scenario, values=job.values), job.label, inputs), note=job.note)
    try:
        entry = entry_of(simulate(job.scenario, values="skip"), job.label, inputs)
    except HwmodelError as error:
        return Entry(job.label, job.summary, inputs=inputs, note=f"no timeline: {error}")
    if entry.cycles != job.summary["cycles"]:
        note = f"no timeline: this version gives {entry.cycles} cycles, the run had {job.summary['cycles']}"
        return Entry(job.label, job.summary, inputs=inputs, note=note)
    return Entry(job.label, job.summary, entry.peaks, entry.capacity, entry.shape, inputs)


@dataclass(frozen=True)
class Comparison:
    """Runs side by side; the first is the baseline."""

    entries: tuple[Entry, ...]

    @property
    def base(self) -> Entry:
        """The baseline."""
        return self.entries[0]

    @cached_property
    def one_clock(self) -> bool:
        """Whether cycles of all runs are equally long."""
        clocks = {round(e.cycles / e.time_us, 6) for e in self.entries if e.cycles and e.time_us}
        return len(clocks) < 2

    def ratio(self, entry: Entry) -> float | None:
        """Time of an entry, of the baseline's; None where either has none."""
        mine, base = (entry.cycles, self.base.cycles) if self.one_clock else (entry.time_us, self.base.time_us)
        return mine / base if mine is not None and base else None

    def slower_than(self, percent: float) -> list[Entry]:
        """Entries that take more than ``percent`` % longer than the baseline."""
        limit = 1 + percent / 100
        return [entry for entry in self.entries[1:] if (self.ratio(entry) or 0) > limit * (1 + 1e-12)]

    def bits(self, entry: Entry) -> str:
        """Whether the output has the bits of the baseline's."""
        mine, base = entry.document["values"]["sha256"], self.base.document["values"]["sha256"]
        if entry is self.base:
            return "baseline" if mine else "not computed"
        if mine is None or base is None:
            return "not computed"
        if mine == base:
            return "equal"
        same = entry.document["problem"] == self.base.document["problem"] and entry.inputs == self.base.inputs
        return "DIFFER" if same else "n/a (another problem)"

    def change(self, entry: Entry) -> str:
        """The difference to the baseline, split by what its limiting unit did: the parts add up to the whole."""
        ratio, base = self.ratio(entry), self.base
        if entry is base or ratio is None or entry.cycles is None or base.cycles is None:
            return ""
        head = f"{entry.label}: {entry.cycles - base.cycles:+,} cycles ({100 * (ratio - 1):+.1f} %)"
        unit = str(base.document["bound"])
        if not self.one_clock:
            return f"{entry.label}: {100 * (ratio - 1):+.1f} % of the time (another clock)"
        if unit not in entry.units or unit not in base.units or entry.cycles == base.cycles:
            return head
        words = {"busy": "busy", "wait_input": "waiting for input", "wait_space": "waiting for space", "idle": "idle"}
        parts = []
        for kind in UNIT_KINDS:
            difference = entry.units[unit][f"{kind}_cycles"] - base.units[unit][f"{kind}_cycles"]
            if round(difference):
                parts.append(f"{difference:+,.0f} {words[kind]}")
        other = str(entry.document["bound"])
        moved = f"; now {other} limits" if other != unit else ""
        return f"{head}: {unit} {', '.join(parts)}{moved}"

    @cached_property
    def units(self) -> list[str]:
        """All units, in the order in which they first appear."""
        return list(dict.fromkeys(name for entry in self.entries for name in entry.units))

    @cached_property
    def buffers(self) -> list[str]:
        """All buffers."""
        return list(dict.fromkeys(name for entry in self.entries for name in entry.peaks))

    def rows(self) -> list[dict[str, Any]]:
        """One flat row a run, for tables and ``--json``."""
        found = []
        for entry in self.entries:
            document = entry.document
            read, written = document["traffic"]["gm_read_bytes"], document["traffic"]["gm_write_bytes"]
            found.append(
                {
                    "name": entry.label,
                    "arch": document["arch"],
                    "cycles": entry.cycles,
                    "ratio": self.ratio(entry),
                    "time_us": entry.time_us,
                    "bound": document["bound"],
                    "tflops": document["work"]["tflops"],
                    "peak_fraction": document["work"]["peak_fraction"],
                    **{
                        f"{name}_utilization": entry.units[name]["utilization"] if name in entry.units else None
                        for name in self.units
                    },
                    "gm_read_bytes": read,
                    "gm_write_bytes": written,
                    **{f"{name}_peak_bytes": entry.peaks.get(name) for name in self.buffers},
                    "values": document["values"]["status"],
                    "sha256": document["values"]["sha256"],
                    "bits": self.bits(entry),
                }
            )
        return found

    def document(self) -> dict[str, Any]:
        """For ``--json`` and ``compare.json``."""
        changes = [self.change(entry) for entry in self.entries[1:]]
        return {
            "schema_version": 1,
            "baseline": self.base.label,
            "runs": self.rows(),
            "changes": changes,
            "notes": [f"{entry.label}: {entry.note}" for entry in self.entries if entry.note],
        }

    def table(self) -> pl.DataFrame:
        """One row a run, as a polars table."""
        rows = self.rows()
        return data_frame(rows, list(rows[0]))


def comparison(entries: Sequence[Entry]) -> Comparison:
    """Entries with labels that tell them apart."""
    if not entries:
        raise InputError("compare: expected at least one run")
    labels = [entry.label for entry in entries]
    seen: dict[str, int] = {}
    found = []
    for entry in entries:
        label = entry.label
        if labels.count(label) > 1:
            seen[label] = seen.get(label, 0) + 1
            label = f"{label} #{seen[entry.label]}"
        found.append(replace(entry, label=label))
    return Comparison(tuple(found))


def compare(
    jobs: Sequence[Job],
    workers: Workers = Workers(),  # noqa: B008  frozen
    journal: Journal | None = None,
    progress: Callable[[int], None] = lambda _done: None,
) -> Comparison:
    """Run all jobs, equal ones once, and set them side by side. Raises what a simulation raises.

    Those in the journal are not run again; the others are added to it as they are done.
    """
    sent = {job.key: replace(job, scenario=without_positions(job.scenario)) for job in jobs}
    done: dict[str, Record] = {}
    for job, record in run_tasks(sent.values(), _recorded, workers, journal):
        done[job.key] = record
        progress(len(done))
    return comparison([restored(done[job.key], job.label) for job in jobs])


def _recorded(job: Job) -> Record:
    return record_of(run_job(job))


def compare_table(runs: Sequence[Any]) -> pl.DataFrame:
    """``hwmodel.compare``: results, scenarios, paths of either or run folders, as a polars table; first is baseline."""
    entries = []
    for run in runs:
        if isinstance(run, Result):
            entries.append(entry_of(run))
        elif isinstance(run, Scenario):
            entries.append(run_job(Job(run.name, run, "check")))
        else:
            entries.append(run_job(job_of(run, "check")))
    return comparison(entries).table()


def digest(jobs: Sequence[Job]) -> str:
    """Names a comparison of these jobs."""
    return _hash([(job.label, job.scenario.hash(), job.values) for job in jobs])


def _hash(whole: Any) -> str:
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:12]
