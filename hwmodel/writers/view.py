"""What writers share: phases, names for people, order of rows, and what a result's buffers held."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hwmodel.analysis.flow import Lives, lives, times
from hwmodel.analysis.occupancy import Track, core_tracks
from hwmodel.arch import Arch
from hwmodel.program.instructions import Instruction, Matmul, label_text
from hwmodel.program.memory import Part, Window
from hwmodel.program.program import CoreProgram
from hwmodel.quantities import ceil_div
from hwmodel.result import Result
from hwmodel.trace import BUSY, IDLE, Row, Span, Stall, Trace, spans

PHASES = ("load", "extract", "multiply", "drain", "store")
"""Phases of a matmul in pipeline order; a unit's operations say which of them they belong to."""


def stage(arch: Arch, engine: str, op: str = "") -> int:
    """Place in the pipeline of an operation, or of an engine by its first operation."""
    operations = arch.units[engine].kind.operations
    return operations.get(op, min(operations.values()))


def phase(arch: Arch, engine: str, op: str = "") -> str:
    """Phase of an operation or engine."""
    return PHASES[min(stage(arch, engine, op), len(PHASES) - 1)]


def row_phase(arch: Arch, row: Row) -> str:
    """Phase of a row, that of its first instruction that takes time: an engine may serve several."""
    positions = (i for i in range(len(row.starts)) if row.ends[i] > row.starts[i])
    op = next((row.instructions[position].op for position in positions), "")
    return phase(arch, row.engine, op)


def pipeline(arch: Arch, rows: Iterable[Row]) -> list[Row]:
    """Rows core by core, in data-flow order."""
    return sorted(rows, key=lambda row: (row.core, stage(arch, row.engine)))


def title(instruction: Instruction) -> str:
    """``tmatmul_mx n3``, ``tload b_scale``, ``textract L0A``: operation, and tile or what it moves."""
    what = label_text(instruction.label) or moved(instruction)
    return f"{instruction.op} {what}" if what else instruction.op


def moved(instruction: Instruction) -> str:
    """The tensor in GM that an instruction reads, else the on-chip buffer it fills, else the tensor it writes."""
    read = next((operand.tensor for operand in instruction.reads if isinstance(operand, Window)), "")
    return (
        read
        or written_buffer(instruction).upper()
        or next((operand.tensor for operand in instruction.writes if isinstance(operand, Window)), "")
    )


def written_buffer(instruction: Instruction) -> str:
    """The on-chip buffer an instruction writes; empty for GM."""
    for operand in instruction.writes:
        if not isinstance(operand, Window):
            return operand.tile.space if isinstance(operand, Part) else operand.space
    return ""


def moved_bytes(instruction: Instruction, gm_bytes: tuple[int, int]) -> int:
    """Bytes that an instruction moves to or from GM, else those of the tiles it writes, padding included."""
    on_chip = sum(operand.size for operand in instruction.writes if not isinstance(operand, Window))
    return sum(gm_bytes) or on_chip


def shape(instruction: Instruction) -> str:
    """``512 x 128``: rows and columns of what it writes; ``m x k x n`` for a product."""
    params = instruction.params
    if isinstance(params, Matmul):
        return f"{params.m} x {params.k} x {params.n}"
    return next((f"{operand.rows} x {operand.cols}" for operand in instruction.writes), "")


def memory_name(arch: Arch) -> str:
    """What the memory outside the cores is called: HBM on Neuron machines, GM (global memory) on Ascend ones."""
    return "HBM" if arch.spec.family == "neuron" else "GM"


def by_engine(trace: Trace) -> dict[tuple[int, str], Row]:
    """Rows by core and engine."""
    return {(row.core, row.engine): row for row in trace.rows}


def ended_by(rows: dict[tuple[int, str], Row], core: int, stall: Stall | Span) -> Instruction | None:
    """The instruction that ended a wait, where one did."""
    row = rows.get((core, stall.by))
    return row.instructions[stall.by_position] if row is not None and stall.by_position >= 0 else None


def row_spans(row: Row, end: int) -> Iterator[Span]:
    """Spans of any row; those of a parallel one overlap and come in the order of their starts.

    As in the statistics, waits for the first instruction that takes time are idle, and those after the last are none.
    """
    if not row.parallel:
        yield from spans(row, end)
        return
    found = [
        Span(start, stop, BUSY, position, "")
        for position, (start, stop) in enumerate(zip(row.starts, row.ends, strict=True))
        if stop > start
    ]
    first, last = (found[0].position, found[-1].position) if found else (0, -1)
    found += [
        Span(s.start, s.end, s.kind if s.position > first else IDLE, s.position, s.cause, s.by, s.by_position)
        for s in row.stalls
        if s.position <= last
    ]
    yield from sorted(found, key=lambda span: (span.start, span.position, span.kind == BUSY))


def cycle(trace: Trace, tick: int) -> int:
    """The cycle of a tick, rounded up as in the statistics."""
    return ceil_div(tick, trace.ticks_per_cycle)


@dataclass
class _Known:
    """What was worked out about one result, for the next writer that asks."""

    result: weakref.ref[Result]
    lives: dict[int, Lives] = field(default_factory=dict)
    tracks: list[Track] | None = None


_known: _Known | None = None


def _known_of(result: Result) -> _Known:
    global _known
    if _known is None or _known.result() is not result:
        _known = _Known(weakref.ref(result))
    return _known


def core_lives(result: Result, core: CoreProgram) -> Lives:
    """What lived in the buffers of a core; remembered for the last result asked for, cores share instructions."""
    known = _known_of(result).lives
    key = id(core.instructions)
    if key not in known:
        known[key] = lives(core.instructions)
    return known[key]


def tracks(result: Result) -> list[Track]:
    """Occupancy of all buffers of the first two simulated cores; remembered for the last result asked for."""
    known = _known_of(result)
    if known.tracks is None:
        assert result.trace is not None
        assert result.program is not None
        known.tracks = []
        for core in result.program.cores[:2]:
            found = core_lives(result, core)
            known.tracks += core_tracks(core.core, found, *times(core, result.trace), result.arch)
    return known.tracks


def size_text(size: float) -> str:
    """``68 KiB``: bytes for people."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            digits = 0 if unit == "bytes" or size >= 100 or size == int(size) else 1
            return f"{size:,.{digits}f} {unit}"
        size /= 1024
    raise AssertionError


def problem_text(result: Result) -> str:
    """One line: extents and dtypes."""
    problem = result.problem
    if problem.get("op") == "quantize":
        return f"quantize {problem['rows']} x {problem['cols']} {problem['source']} -> {problem['to']}"
    if "m" not in problem:
        return "a program of its own"
    extents = f"{problem['m']} x {problem['k']} x {problem['n']} (M x K x N)"
    return f"{extents}, {problem['a']} x {problem['b']} -> {problem['out']}"


def tiling_text(result: Result) -> str:
    """One line: kind and parameters of the tiling."""
    tiling = result.tiling
    parts = [(name, _plain(value)) for name, value in tiling.items() if name != "kind" and value is not None]
    rest = ", ".join(f"{name} {text}" for name, text in parts if text)
    kind = str(tiling.get("kind", "none"))
    return f"{kind}: {rest}" if rest else kind


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}:{_plain(inner)}" for name, inner in value.items() if inner is not None)
    if isinstance(value, list | tuple):
        return " x ".join(_plain(inner) for inner in value)
    return str(value)
