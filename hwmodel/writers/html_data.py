"""What the page knows about a run: plain facts as JSON, and columns of numbers packed as bytes.

A lane is what is drawn as one row of spans: an engine, or one queue of an engine whose instructions overlap. Columns
are little-endian; those that grow are stored as differences, which compress to a fraction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hwmodel.analysis.constraints import HOW
from hwmodel.analysis.contention import alone_ticks
from hwmodel.analysis.naming import subject
from hwmodel.analysis.occupancy import core_tracks
from hwmodel.analysis.stalls import CATEGORIES, CoreFacts, pieces
from hwmodel.explain import Explanation
from hwmodel.program.instructions import Instruction, label_text
from hwmodel.program.memory import describe
from hwmodel.trace import Row
from hwmodel.writers import view
from hwmodel.writers.explain_text import fold
from hwmodel.writers.lanes import queues

MOST_SPANS = 400_000
"""Cores beyond the first are left out where the page would hold more instructions than this."""
MOST_LINKS = 60
MOST_HOPS = 64
_TYPES = {"u1": np.uint8, "u2": np.uint16, "u4": np.uint32, "i4": np.int32, "f8": np.float64}


@dataclass
class Columns:
    """Columns one after the other; `entries` says of each its type, length and whether it holds differences."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)

    def add(self, values: npt.ArrayLike, *, grows: bool = False) -> int:
        """Append a column of whole numbers; returns its number. Negative ones are only -1."""
        array = np.asarray(values, np.int64).reshape(-1)
        stored = np.diff(array, prepend=0) if grows else array
        low, high = (int(stored.min()), int(stored.max())) if stored.size else (0, 0)
        if low < 0:
            kind = "i4" if low >= -(2**31) and high < 2**31 else "f8"
        else:
            kind = next((name for name, bits in (("u1", 8), ("u2", 16), ("u4", 32)) if high < 2**bits), "f8")
        return self._put(kind, array.size, stored.astype(np.dtype(_TYPES[kind]).newbyteorder("<")).tobytes(), grows)

    def add_json(self, value: Any) -> int:
        """Append a table of texts."""
        return self._put("json", 0, encode(value).encode(), False)

    def _put(self, kind: str, count: int, data: bytes, grows: bool) -> int:
        self.entries.append({"type": kind, "count": count, "bytes": len(data), "grows": grows})
        self.parts.append(data)
        return len(self.entries) - 1


def encode(value: Any) -> str:
    """Compact JSON text that may stand inside a page."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")


def page_run(explanation: Explanation, columns: Columns) -> dict[str, Any]:
    """One run for the page."""
    result = explanation.result
    trace, stats = result.trace, result.stats
    assert trace is not None
    assert stats is not None
    tables = _Tables(explanation)
    lanes: list[dict[str, Any]] = []
    tracks: list[dict[str, Any]] = []
    shown = shown_cores(explanation)
    for facts in shown:
        base = tables.begin(facts)
        lanes += tables.lanes(facts, base, columns)
        for track in core_tracks(facts.core.core, facts.lives, facts.starts, facts.ends, result.arch):
            tracks.append(
                {
                    "core": track.core,
                    "buffer": track.buffer,
                    "capacity": track.capacity_bytes,
                    "partitions": result.arch.spec.buffers[track.buffer].partitions,
                    "peak": track.peak_bytes,
                    "ticks": columns.add(track.ticks, grows=True),
                    "used": columns.add(track.used_bytes),
                }
            )
    document = explanation.to_dict()
    document["critical_path"].pop("steps")
    return {
        "result": result.to_dict(),
        "question": result.question,
        "problem": view.problem_text(result),
        "tiling": view.tiling_text(result),
        "memory": view.memory_name(result.arch),
        "clock_mhz": float(result.arch.spec.clock_mhz),
        "ticks_per_cycle": trace.ticks_per_cycle,
        "end": trace.end,
        "launch": trace.launch,
        "cores": stats.cores,
        "folded": {str(facts.core.core): facts.core.stands_for for facts in explanation.cores},
        "cores_left_out": len(explanation.cores) - len(shown),
        "units": tables.unit_phases(),
        "lanes": lanes,
        "tracks": tracks,
        "details": columns.add_json(tables.details),
        "labels": columns.add_json(list(tables.labels)),
        "reasons": columns.add_json([[*key, CATEGORIES[key[1]]] for key in tables.reasons]),
        "path": tables.path(columns),
        "chain": [
            {"times": times, "links": [link._asdict() for link in links]}
            for links, times in fold(explanation.path.chain())[:MOST_LINKS]
        ],
        "explanation": document,
    }


def shown_cores(explanation: Explanation) -> list[CoreFacts]:
    """The cores that the page shows, that of the critical path among them."""
    budget = MOST_SPANS
    result: list[CoreFacts] = []
    ordered = sorted(explanation.cores, key=lambda facts: facts.core.core != explanation.path.core)
    for facts in ordered:
        if result and facts.graph.count > budget:
            break
        budget -= facts.graph.count
        result.append(facts)
    return sorted(result, key=lambda facts: facts.core.core)


class _Tables:
    """Texts that many spans share, numbered; nodes are numbered over all cores."""

    def __init__(self, explanation: Explanation) -> None:
        self.explanation = explanation
        self.arch = explanation.result.arch
        self.details: list[list[Any]] = []
        self.labels: dict[str, int] = {}
        self.reasons: dict[tuple[str, str, str], int] = {}
        self._known: dict[Any, int] = {}
        self._count = 0
        self._path_base = 0

    def unit_phases(self) -> dict[str, str]:
        """By unit, in data-flow order: the phase of its engine that is busy longest."""
        trace = self.explanation.result.trace
        assert trace is not None
        longest: dict[str, tuple[int, str]] = {}
        for row in view.pipeline(self.arch, trace.rows):
            busy = sum(row.ends) - sum(row.starts)
            if row.unit not in longest or busy > longest[row.unit][0]:
                longest[row.unit] = busy, view.row_phase(self.arch, row)
        return {unit: phase for unit, (_, phase) in longest.items()}

    def begin(self, facts: CoreFacts) -> int:
        """The number of a core's first node."""
        base = self._count
        self._count += facts.graph.count
        if facts.core.core == self.explanation.path.core:
            self._path_base = base
        return base

    def lanes(self, facts: CoreFacts, base: int, columns: Columns) -> list[dict[str, Any]]:
        """The lanes of a core, in data-flow order."""
        trace = self.explanation.result.trace
        assert trace is not None
        slack = facts.graph.slack(trace.end)
        causes, how = _causes(facts)
        found: list[dict[str, Any]] = []
        ordered = view.pipeline(self.arch, facts.rows)
        several = [row for row in ordered if len(row.starts)] or ordered
        for row in several:
            index = facts.rows.index(row)
            found += self._row(facts, index, base, slack, causes, how, columns)
        return found

    def _row(
        self,
        facts: CoreFacts,
        index: int,
        base: int,
        slack: npt.NDArray[np.int64],
        causes: npt.NDArray[np.int64],
        how: npt.NDArray[np.int8],
        columns: Columns,
    ) -> Iterable[dict[str, Any]]:
        row = facts.rows[index]
        first = facts.graph.first[index] if facts.graph.first else 0
        ran = len(row.starts)
        starts, ends = np.array(row.starts, np.int64), np.array(row.ends, np.int64)
        detail, label, number = self._instructions(row)
        queue = np.array(queues(row)[:ran], np.int64) if row.parallel else np.zeros(ran, np.int64)
        waits = [
            (piece.start, piece.end, self._reason(piece.cause.kind, piece.cause.category, piece.cause.text),
             piece.position, piece.by_row, piece.by_position)
            for piece in pieces(facts, index)
        ]  # fmt: skip
        table = np.array(waits, np.int64).reshape(-1, 6)
        first_of = np.array([*facts.graph.first, -1], np.int64)
        by = np.where(table[:, 4] >= 0, base + first_of[table[:, 4]] + table[:, 5], -1)
        count = int(queue.max(initial=0)) + 1
        for which in range(count):
            own = np.flatnonzero((ends > starts) & (queue == which))
            own = own[np.argsort(starts[own], kind="stable")]
            mine = np.flatnonzero(queue[table[:, 3]] == which) if len(table) else np.zeros(0, np.int64)
            mine = mine[np.argsort(table[mine, 0], kind="stable")]
            nodes = first + own
            yield {
                "core": row.core,
                "engine": row.engine,
                "unit": row.unit,
                "phase": view.row_phase(self.arch, row),
                "queue": which,
                "queues": count,
                "start": columns.add(starts[own], grows=True),
                "length": columns.add((ends - starts)[own]),
                "node": columns.add(base + nodes, grows=True),
                "detail": columns.add(detail[own]),
                "label": columns.add(label[own]),
                "number": columns.add(number[own], grows=True),
                "slack": columns.add(np.minimum(slack[nodes], 2**31)),
                "cause": columns.add(np.where(causes[nodes] >= 0, nodes - causes[nodes], 0)),
                "how": columns.add(how[nodes]),
                "wait_start": columns.add(table[mine, 0], grows=True),
                "wait_length": columns.add(table[mine, 1] - table[mine, 0]),
                "wait_reason": columns.add(table[mine, 2]),
                "wait_for": columns.add(base + first + table[mine, 3], grows=True),
                "wait_by": columns.add(by[mine]),
            }

    def _instructions(self, row: Row) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(number of its details, of its label, its own number) of each instruction that ran."""
        detail, label, number = [], [], []
        alone = alone_ticks(row, self.arch).tolist()
        for position in range(len(row.starts)):
            instruction = row.instructions[position]
            key = (instruction.op, instruction.engine, *instruction[3:8])
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = len(self.details)
                self.details.append(self._detail(instruction, alone[position]))
            detail.append(known)
            text = label_text(instruction.label)
            label.append(self.labels.setdefault(text, len(self.labels)))
            number.append(instruction.number)
        return np.array(detail, np.int64), np.array(label, np.int64), np.array(number, np.int64)

    def _detail(self, instruction: Instruction, alone: int) -> list[Any]:
        kind = self.arch.units[instruction.engine].kind
        waits = [w.signal if not w.at_least else f"{w.signal} >= {w.at_least}" for w in instruction.waits]
        return [
            instruction.op,
            view.phase(self.arch, instruction.engine, instruction.op),
            subject(instruction),
            view.shape(instruction),
            view.moved_bytes(instruction, kind.gm_bytes(instruction.params)) if instruction.writes else 0,
            kind.macs(instruction.params) if instruction.writes else 0,
            ", ".join(describe(operand) for operand in instruction.reads),
            ", ".join(describe(operand) for operand in instruction.writes),
            ", ".join(waits),
            ", ".join(signal.signal for signal in (*instruction.sets, *instruction.frees)),
            alone,
        ]

    def _reason(self, kind: str, category: str, text: str) -> int:
        return self.reasons.setdefault((kind, category, text), len(self.reasons))

    def path(self, columns: Columns) -> dict[str, int]:
        """Steps of the critical path: start, length and node (-1 for launch and gaps)."""
        steps = [step for step in self.explanation.path.steps if step.end > step.start]
        nodes = [self._path_base + step.node if step.node >= 0 else -1 for step in steps]
        return {
            "start": columns.add([step.start for step in steps], grows=True),
            "length": columns.add([step.end - step.start for step in steps]),
            "node": columns.add(nodes),
        }


def _causes(facts: CoreFacts) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    """(node, how) of what let each instruction start; instructions without length stand for what let them go."""
    graph = facts.graph
    node, how = graph.binding
    node = node.copy()
    empty = graph.ends == graph.starts
    for _ in range(MOST_HOPS):
        through = np.flatnonzero((node >= 0) & empty[node])
        if not through.size:
            break
        node[through] = node[node[through]]
    return node, how


def how_names() -> Sequence[str]:
    """Names of the numbers in a lane's column ``how``."""
    return HOW
