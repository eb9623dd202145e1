"""spans.csv: one line for each span of each row, so that anybody's tools can ask their own questions.

Times are cycles of the reference clock, rounded up as in the statistics, so the spans of a row that is not parallel
follow each other without gap and their lengths sum to the cycles of the run.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from hwmodel.program.instructions import Instruction, label_text
from hwmodel.result import Result
from hwmodel.trace import BUSY, Row, Span
from hwmodel.writers import view

COLUMNS = (
    "core", "engine", "unit", "kind", "start_cycle", "end_cycle", "cycles", "instruction", "op", "tile", "cause",
    "by_engine", "by_instruction", "shape", "bytes", "gm_read_bytes", "gm_write_bytes", "macs",
)  # fmt: skip


def write(result: Result, path: Path) -> None:
    """Write the table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(records(result))


def records(result: Result) -> Iterator[tuple[object, ...]]:
    """Lines of the table, row by row in data-flow order, each row in the order of time."""
    trace = result.trace
    assert trace is not None
    rows = view.by_engine(trace)
    for row in view.pipeline(result.arch, trace.rows):
        kind = result.arch.units[row.engine].kind
        for span in view.row_spans(row, trace.end):
            start, end = view.cycle(trace, span.start), view.cycle(trace, span.end)
            if start == end:
                continue
            instruction = row.instructions[span.position] if span.position >= 0 else None
            moved: tuple[object, ...] = ("", "", "", "", "")
            if instruction is not None and span.kind == BUSY:
                gm_bytes = kind.gm_bytes(instruction.params)
                size = view.moved_bytes(instruction, gm_bytes)
                moved = (view.shape(instruction), size, *gm_bytes, kind.macs(instruction.params))
            yield (
                row.core, row.engine, row.unit, span.kind, start, end, end - start, *_names(instruction), span.cause,
                *_by(rows, row, span), *moved,
            )  # fmt: skip


def _names(instruction: Instruction | None) -> tuple[object, object, object]:
    if instruction is None:
        return "", "", ""
    return instruction.number, instruction.op, label_text(instruction.label)


def _by(rows: dict[tuple[int, str], Row], row: Row, span: Span) -> tuple[object, object]:
    by = view.ended_by(rows, row.core, span)
    return ("", "") if by is None else (by.engine, by.number)
