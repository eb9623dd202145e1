"""One side of a comparison: its figures and what it looks like over time, small enough to be sent and kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hwmodel.analysis.flow import Ticks
from hwmodel.analysis.occupancy import occupancy
from hwmodel.quantities import ceil_div
from hwmodel.result import Result
from hwmodel.scenario import Scenario
from hwmodel.study.measure import Record
from hwmodel.trace import WAIT_INPUT, WAIT_SPACE, Row


class Lane(NamedTuple):
    """One engine of the core that is drawn: sorted, disjoint stretches in ticks, [n, 2] each."""

    engine: str
    unit: str
    stage: int
    busy: Ticks
    wait_input: Ticks
    wait_space: Ticks


@dataclass(frozen=True)
class Shape:
    """What a run looks like over time, small enough to send between processes."""

    ticks_per_cycle: int
    end: int
    lanes: tuple[Lane, ...]

    @property
    def cycles(self) -> int:
        """Cycles of the run."""
        return ceil_div(self.end, self.ticks_per_cycle)


@dataclass(frozen=True)
class Entry:
    """One run of a comparison. ``document`` is its ``result.json``; ``peaks`` and ``capacity`` are bytes by buffer."""

    label: str
    document: dict[str, Any]
    peaks: dict[str, int] = field(default_factory=dict)
    capacity: dict[str, int] = field(default_factory=dict)
    shape: Shape | None = None
    inputs: str = ""
    note: str = ""

    @property
    def cycles(self) -> int | None:
        """Cycles; None for an operation without timing."""
        found: int | None = self.document["cycles"]
        return found

    @property
    def time_us(self) -> float | None:
        """Modelled time."""
        found: float | None = self.document["time_us"]
        return found

    @property
    def units(self) -> dict[str, dict[str, Any]]:
        """Units in pipeline order."""
        found: dict[str, dict[str, Any]] = self.document["units"]
        return found

    @property
    def failed(self) -> bool:
        """Whether values differ or an expectation was not met."""
        document = self.document
        return bool(document["values"]["status"] == "mismatch" or document["expect"]["status"] == "failed")


def entry_of(result: Result, label: str | None = None, inputs: str | None = None) -> Entry:
    """The entry of a result."""
    peaks: dict[str, int] = {}
    capacity: dict[str, int] = {}
    shape = None
    if result.trace is not None and result.program is not None:
        for track in occupancy(result.trace, result.program, result.arch):
            peaks[track.buffer] = max(peaks.get(track.buffer, 0), track.peak_bytes)
            capacity[track.buffer] = track.capacity_bytes
        trace = result.trace
        first = result.program.cores[0].core
        units = result.arch.units
        rows = [row for row in trace.rows if row.core == first]
        rows.sort(key=lambda row: min(units[row.engine].kind.operations.values()))
        lanes = [_lane(row, units[row.engine].kind.operations) for row in rows]
        shape = Shape(trace.ticks_per_cycle, trace.end, tuple(lane for lane in lanes if len(lane.busy)))
    if inputs is None:
        inputs = inputs_of(result.scenario) if result.scenario is not None else ""
    return Entry(label or result.name, result.to_dict(), peaks, capacity, shape, inputs)


def _lane(row: Row, stages: Mapping[str, int]) -> Lane:
    """``stages``: the place in the pipeline of each operation of the engine; the lane has that of its first one."""
    starts, ends = np.array(row.starts, np.int64), np.array(row.ends, np.int64)
    timed = np.flatnonzero(ends > starts)
    first, last = (int(timed[0]), int(timed[-1])) if timed.size else (0, -1)
    stage = stages.get(row.instructions[first].op if timed.size else "", min(stages.values()))
    busy = np.stack((starts[timed], ends[timed]), axis=1)
    waits = {
        kind: np.array(
            [(s.start, s.end) for s in row.stalls if s.kind == kind and first < s.position <= last], np.int64
        ).reshape(-1, 2)
        for kind in (WAIT_INPUT, WAIT_SPACE)
    }
    return Lane(
        row.engine, row.unit, stage, _disjoint(busy), _disjoint(waits[WAIT_INPUT]), _disjoint(waits[WAIT_SPACE])
    )


def _disjoint(spans: Ticks) -> Ticks:
    """Sorted spans, those that overlap put together; neighbours stay apart."""
    if len(spans) < 2:
        return spans
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(spans[:, 1])
    first = np.flatnonzero(np.concatenate(([True], spans[1:, 0] >= reach[:-1])))
    return np.stack((spans[first, 0], reach[np.append(first[1:] - 1, len(spans) - 1)]), axis=1)


def inputs_of(scenario: Scenario | None) -> str:
    """Tells apart what went in; empty where nobody knows."""
    return "" if scenario is None else scenario.inputs.model_dump_json()


def record_of(entry: Entry) -> Record:
    """An entry as plain data, to be sent and kept."""
    fields = {name: getattr(entry, name) for name in ("label", "document", "peaks", "capacity", "inputs", "note")}
    shape = entry.shape
    if shape is not None:
        lanes = [[*lane[:3], *(spans.tolist() for spans in lane[3:])] for lane in shape.lanes]
        fields["shape"] = [shape.ticks_per_cycle, shape.end, lanes]
    return Record(fields)


def restored(record: Record, label: str) -> Entry:
    """The entry of a record that `record_of` made, under this label."""
    fields = {**record.columns, "label": label}
    if "shape" in fields:
        ticks_per_cycle, end, lanes = fields["shape"]
        fields["shape"] = Shape(ticks_per_cycle, end, tuple(_lane_again(*lane) for lane in lanes))
    return Entry(**fields)


def _lane_again(engine: str, unit: str, stage: int, *spans: list[list[int]]) -> Lane:
    return Lane(engine, unit, stage, *(np.array(each, np.int64).reshape(-1, 2) for each in spans))
