"""What is worth saying about a run, as (name, text, tone) lines: shared by the terminal and the Markdown page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hwmodel.analysis.statistics import Statistics, UnitStatistics
from hwmodel.result import Result
from hwmodel.writers import view

ALMOST_ALWAYS = 0.9
SHORT_HASH = 12


class Fact(NamedTuple):
    """One line: ``tone`` is ``good``, ``bad``, ``careful`` or empty."""

    name: str
    text: str
    tone: str = ""


def percent(part: float, whole: float) -> str:
    """``72.4 %``."""
    return f"{100 * part / whole:.1f} %" if whole else "0.0 %"


def head(result: Result) -> Iterator[Fact]:
    """What was run, and whether the values are right."""
    stats, spec = result.stats, result.arch.spec
    yield Fact("problem", view.problem_text(result))
    if stats is None:
        yield Fact("machine", result.arch.name)
        yield Fact("time", "no timing model for this operation")
    else:
        means = " (figures below: means over them)" if stats.cores > 1 else ""
        cores = f"{stats.cores} of {spec.cores} cores{means}"
        machine = f"{result.arch.name}, {cores}, {float(spec.clock_mhz):,g} MHz"
        if result.arch.calibrated:
            known = result.arch.known_error
            worst = f": worst error of {known.measurements} kernels {known.worst_percent:.1f} %" if known else ""
            yield Fact("machine", f"{machine}, calibrated{worst}")
        else:
            yield Fact("machine", f"{machine}, not calibrated against silicon: times are estimates", "careful")
        yield Fact("tiling", view.tiling_text(result))
        yield Fact("time", f"{stats.cycles:,} cycles = {stats.time_us:,.3f} us")
    yield _values(result)
    yield _expected(result)
    if stats is not None:
        yield _hazards(result)


def _values(result: Result) -> Fact:
    values = result.values
    if values.status == "skipped":
        return Fact("values", "skipped: not computed, not compared")
    way = "rule" if result.stats is None else "order"
    if values.status == "mismatch":
        first = f", first {values.first}" if values.first else ""
        text = f"DIFFER: {values.mismatches:,} of {values.elements:,} elements are not those of the reference"
        return Fact("values", f"{text} ({way} {values.order}){first}", "bad")
    digest = f", sha256 {values.sha256[:SHORT_HASH]}" if values.sha256 else ""
    return Fact(
        "values",
        f"bit-exact: all {values.elements:,} elements are those of the reference ({way} {values.order}{digest})",
        "good",
    )


def _expected(result: Result) -> Fact:
    expect = result.expect
    if expect.failures:
        return Fact("expected", "FAILED: " + "; ".join(expect.failures), "bad")
    return Fact("expected", "met", "good") if expect.stated else Fact("expected", "nothing stated")


def _hazards(result: Result) -> Fact:
    if not result.hazards_checked:
        why = "as values are skipped" if result.values.status == "skipped" else "in a run this long"
        return Fact("hazards", f"not looked for {why} (hwmodel check does)")
    if result.hazards:
        more = f" (and {len(result.hazards) - 1} more)" if len(result.hazards) > 1 else ""
        return Fact("hazards", f"{result.hazards[0]}{more}", "bad")
    return Fact("hazards", "none")


def tail(result: Result) -> Iterator[Fact]:
    """What was moved and done, and what limits."""
    stats = result.stats
    assert stats is not None
    moved = stats.gm_read_bytes + stats.gm_write_bytes
    intensity = f"; arithmetic intensity {2 * stats.macs / moved:,.1f} op/byte of both" if moved and stats.macs else ""
    read, written = view.size_text(stats.gm_read_bytes), view.size_text(stats.gm_write_bytes)
    yield Fact("traffic", f"{read} read from {view.memory_name(result.arch)}, {written} written{intensity}")
    yield Fact("work", f"{stats.macs:,} multiply-adds, {stats.tflops:,.2f} Tflop/s{_of_peak(result)}")
    if peaks := ", ".join(peak_texts(result)):
        yield Fact("buffers", f"most in use: {peaks}")
    if result.trace_level == "summary":
        yield Fact(
            "trace", f"summary: {instructions(result):,} instructions merged (--trace full keeps all)", "careful"
        )
    yield Fact("limit", limit_text(stats))


def _of_peak(result: Result) -> str:
    """Share of the peak, and while the array is busy: the rest of that goes to start-ups, padding and latency."""
    stats = result.stats
    if stats is None or not stats.peak_macs_per_cycle:
        return ""
    text = f", {100 * stats.peak_fraction:.1f} % of the peak of {_count(stats.cores, 'core')}"
    arrays = {unit.name for unit in result.arch.units.values() if unit.kind.peak_macs is not None}
    for name in arrays & stats.units.keys():
        busy = stats.units[name].utilization
        if busy:
            text += f", {100 * stats.peak_fraction / busy:.1f} % while the {name} is busy"
    return text


def instructions(result: Result) -> int:
    """Instructions of all simulated cores."""
    return result.program.count if result.program is not None else 0


def peak_texts(result: Result) -> list[str]:
    """``L0C 100 %`` for each buffer of the first core."""
    tracks = view.tracks(result)
    first = [track for track in tracks if track.core == tracks[0].core]
    return [f"{track.buffer.upper()} {whole_percent(track.peak_bytes, track.capacity_bytes)}" for track in first]


def whole_percent(part: float, whole: int) -> str:
    """``12 %``; what is there but rounds to nothing is ``< 1 %``."""
    return "< 1 %" if 0 < part < 0.01 * whole else f"{100 * part / whole:.0f} %"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"


def limit_text(stats: Statistics) -> str:
    """One or two sentences: which unit limits, and what keeps it from working all the time."""
    if not stats.cycles or not stats.bound:
        return "nothing ran"
    unit = stats.units[stats.bound]
    share = percent(unit.alone_cycles, stats.cycles)
    text = f"{stats.bound}: its work alone takes {share} of the time"
    if unit.busy_cycles >= ALMOST_ALWAYS * stats.cycles:
        return f"{text}; it is busy {percent(unit.busy_cycles, stats.cycles)}"
    return f"{text}; otherwise {_rest(unit, stats.cycles)}"


def _rest(unit: UnitStatistics, cycles: int) -> str:
    kinds = [
        (unit.idle_cycles, "idle while the pipeline fills and drains"),
        (unit.wait_input_cycles, "waiting for input"),
        (unit.wait_space_cycles, "waiting for space"),
    ]
    ranked = sorted(((value, what) for value, what in kinds if value), key=lambda pair: -pair[0])
    return ", ".join(f"{percent(value, cycles)} {what}" for value, what in ranked) or "never waiting"
