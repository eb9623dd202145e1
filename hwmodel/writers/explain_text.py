"""``explain`` on one screen: path, stalls, phases, roofs and what-if. Every figure is of the trace or was simulated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hwmodel.analysis.critical_path import Link
from hwmodel.analysis.stalls import FILL, INPUT, Share
from hwmodel.analysis.whatif import CLOCK, DOUBLE, FIXED, LIMIT, Outcome, WhatIf
from hwmodel.explain import Explanation
from hwmodel.trace import IDLE, WAIT_INPUT, WAIT_SPACE
from hwmodel.writers import view
from hwmodel.writers.facts import percent
from hwmodel.writers.text import BOLD, DIM, GREEN, YELLOW, Paint

WIDTH = 118
"""Columns of a line, where the terminal does not have fewer."""
MOST_CELL = 24
COLOR = re.compile(r"(\x1b\[\d*m)")
MOST_WAITS, MOST_LINKS, MOST_OTHERS = 5, 7, 3
WORTH_SAYING = 0.0005
"""Changes that gain or cost less than this share have no effect worth a line."""
LEAD = {INPUT: "waits for", FILL: "fill:"}
KINDS = {WAIT_INPUT: "for input", WAIT_SPACE: "for space", IDLE: "idle"}
Group = tuple[tuple[Link, ...], int]


def screen(explanation: Explanation, width: int = WIDTH, *, color: bool = False) -> str:
    """One screen of text, no line longer than ``width`` (80 or more: fewer cut figures off)."""
    return "\n".join(_cut(line, width) for line in _lines(explanation, width, Paint(color))) + "\n"


def _lines(explanation: Explanation, width: int, paint: Paint) -> Iterator[str]:
    yield from _head(explanation, paint)
    yield ""
    yield from _path(explanation, width, paint)
    yield ""
    yield from _stalls(explanation, width, paint)
    yield ""
    yield from _phases(explanation, paint)
    if explanation.roofline is not None:
        yield ""
        yield from _roofs(explanation, width, paint)
    if explanation.whatif is not None:
        yield ""
        yield from _what_if(explanation.whatif, width, paint)


def _head(explanation: Explanation, paint: Paint) -> Iterator[str]:
    result = explanation.result
    stats = result.stats
    assert stats is not None
    yield paint(result.name, BOLD) + (f"  {result.question}" if result.question else "")
    yield f"  {view.problem_text(result)}; {view.tiling_text(result)}"
    sure = "" if result.to_dict()["calibrated"] else paint(", not calibrated: times are estimates", YELLOW)
    cores = f", means over {stats.cores} cores" if stats.cores > 1 else ""
    yield f"  {stats.cycles:,} cycles = {stats.time_us:,.3f} us on {result.arch.name}{cores}{sure}"


# -- path --------------------------------------------------------------------------------------------------------------


def _path(explanation: Explanation, width: int, paint: Paint) -> Iterator[str]:
    path = explanation.path
    by_unit = path.by_unit()
    total = sum(by_unit.values())
    core = f" of core {path.core}" if len(explanation.cores) > 1 else ""
    yield paint(f"critical path{core}", BOLD) + f": what the run waited for, {total:,} cycles in all"
    ranked = sorted(by_unit.items(), key=lambda pair: -pair[1])
    yield from _wrapped([f"{unit} {cycles:,} = {percent(cycles, total)}" for unit, cycles in ranked], "   ", width)
    yield from _wrapped([_group_text(group) for group in _shortened(fold(path.chain()))], " > ", width)
    spare = [(unit, figures["median_cycles"]) for unit, figures in explanation.slack.items()]
    some = [f"{unit} {cycles:,.0f}" for unit, cycles in spare if cycles]
    rest = [] if len(some) == len(spare) else ["others 0"] if some else ["0 in every unit"]
    text = ", ".join([*some, *rest])
    yield paint(f"  median slack of a unit's instructions, in cycles: {text}", DIM)


def fold(links: Sequence[Link]) -> list[Group]:
    """Links with repetitions of up to six of them taken together."""
    names = [(link.unit, link.what) for link in links]
    result: list[Group] = []
    at = 0
    while at < len(links):
        best, times = 1, 1
        for length in range(1, 7):
            count = 1
            while names[at : at + length] == names[at + count * length : at + (count + 1) * length]:
                count += 1
            if count > 1 and count * length > best * times:
                best, times = length, count
        stretch = links[at : at + best * times]
        merged = tuple(
            same[0]._replace(
                times=sum(link.times for link in same), cycles=sum(link.cycles for link in same), last=same[-1].last
            )
            for same in (stretch[place::best] for place in range(best))
        )
        result.append((merged, times))
        at += best * times
    return result


def _shortened(groups: list[Group]) -> list[Group | str]:
    if len(groups) <= MOST_LINKS:
        return list(groups)
    left, right = groups[: MOST_LINKS - 3], groups[-2:]
    between = groups[MOST_LINKS - 3 : -2]
    cycles = sum(link.cycles for group, _ in between for link in group)
    count = sum(link.times for group, _ in between for link in group)
    return [*left, f"... {count:,} more, {cycles:,} ...", *right]


def _group_text(group: Group | str) -> str:
    if isinstance(group, str):
        return group
    links, times = group
    if times == 1:
        link = links[0]
        tile = link.first if link.first == link.last else f"{link.first} .. {link.last}"
        return " ".join(part for part in (link.what, tile, f"{link.cycles:,}") if part)
    inner = " > ".join(f"{link.what} {link.cycles:,}" for link in links)
    return f"{times} x ({inner})"


def _cut(line: str, width: int) -> str:
    """The line, or its beginning with dots where it is longer; colours take no room."""
    if len(COLOR.sub("", line)) <= width:
        return line
    kept, room = "", width - 3
    for piece in COLOR.split(line):
        kept += piece if COLOR.fullmatch(piece) else piece[: max(room, 0)]
        room -= 0 if COLOR.fullmatch(piece) else len(piece)
    return kept.rstrip() + "..."


def _wrapped(parts: Sequence[str], separator: str, width: int) -> Iterator[str]:
    room = width - 2 - len(separator.rstrip())
    line = ""
    for part in parts:
        if line and len(line) + len(part) + len(separator) > room:
            yield f"  {line}{separator.rstrip()}"
            line = ""
        line += (separator if line else "") + part
    if line:
        yield f"  {line}"


# -- stalls ------------------------------------------------------------------------------------------------------------


def _stalls(explanation: Explanation, width: int, paint: Paint) -> Iterator[str]:
    stalls = explanation.stalls
    yield paint("stalls", BOLD) + ": every cycle of every unit has one cause; each line sums to 100 %"
    margin = max(len(unit) for unit in stalls.busy)
    for unit, busy in stalls.busy.items():
        causes = stalls.of(unit)
        named = [f"{_short(share)} {percent(share.cycles, stalls.cycles)}" for share in causes[:3]]
        rest = sum(share.cycles for share in causes[3:])
        named += [f"other {percent(rest, stalls.cycles)}"] if rest else []
        slow = stalls.slowdown.get(unit)
        inside = f" ({percent(slow.cycles, busy)} of that lost: {slow.shared})" if slow and slow.inside else ""
        yield f"  {unit:{margin}s}  busy {percent(busy, stalls.cycles):>7s}{inside}   {', '.join(named)}"
    waits = [share for share in stalls.shares if share.cause.kind != IDLE][:MOST_WAITS]
    for share in waits:
        cause = share.cause
        line = (
            f"  {share.cycles:>11,.0f} {percent(share.cycles, stalls.cycles):>7s}  {cause.unit:{margin}s} "
            f"{KINDS[cause.kind]:9s}  {_short(share)}: "
        )
        yield line + _longest(share, width - len(line))


def _longest(share: Share, room: int) -> str:
    """How often, and the longest ones with their tiles, as many as there is room for."""
    text = "once" if share.waits == 1 else f"{share.waits:,} times, longest"
    if not share.worst:
        return text
    text += f" {share.worst[0].cycles:,}"
    separator = " at "
    for place in dict.fromkeys(worst.tile or f"#{worst.instruction}" for worst in share.worst):
        if len(text) + len(separator) + len(place) > room:
            break
        text += separator + place
        separator = ", "
    return text


def _short(share: Share) -> str:
    cause = share.cause
    return cause.text if cause.category not in LEAD else f"{LEAD[cause.category]} {cause.text}"


def _phases(explanation: Explanation, paint: Paint) -> Iterator[str]:
    found = explanation.phases
    steady = found.steady
    text = "no steady state: nothing repeats"
    if steady is not None:
        text = f"the steady state is {steady.periods} periods of {found.period_cycles:,.0f} cycles"
        text += f" ({steady.instructions} {steady.unit} instruction{'s' if steady.instructions > 1 else ''} each)"
    yield paint("phases", BOLD) + f": {text}; busy in each:"
    for phase in found.phases:
        shares = "   ".join(f"{unit} {100 * phase.share(unit, 'busy'):.0f} %" for unit in phase.units)
        busiest = max(phase.units, key=lambda unit: phase.units[unit]["busy"], default="")
        text, cycles = phase.top.get(busiest, ("", 0.0))
        rest = f"   {busiest} else: {text} {percent(cycles, phase.cycles)}" if cycles else ""
        yield f"  {phase.name:13s} {phase.cycles:>10,} cycles   {shares}{rest}"


def _roofs(explanation: Explanation, width: int, paint: Paint) -> Iterator[str]:
    roofline = explanation.roofline
    assert roofline is not None
    peak = percent(roofline.flops_per_cycle, roofline.peak_flops_per_cycle)
    yield paint("roofs", BOLD) + (
        f": {roofline.tflops(roofline.flops_per_cycle):,.2f} Tflop/s, {peak} of the peak "
        f"{roofline.tflops(roofline.peak_flops_per_cycle):,.1f}"
    )
    texts = []
    for level in roofline.levels:
        text = f"{level.name} {level.intensity:,.1f} op/B"
        if level.attainable < roofline.peak_flops_per_cycle:
            allowed = f"{roofline.tflops(level.attainable):,.1f}, reached {percent(level.reached, 1)}"
            text += f" x {level.bytes_per_cycle:,.0f} B/cycle ({level.by}) allows {allowed}"
        else:
            text += " allows the peak"
        texts.append(text)
    yield from _wrapped(texts, "; ", width)


# -- what if -----------------------------------------------------------------------------------------------------------


def _what_if(whatif: WhatIf, width: int, paint: Paint) -> Iterator[str]:
    if not whatif.reproduced:
        yield paint("what if", BOLD) + (
            f": left out, the scenario gives {whatif.baseline_cycles:,} cycles when simulated again"
        )
        return
    yield paint("what if", BOLD) + f": each simulated; the run itself came out again, {whatif.baseline_cycles:,} cycles"
    if not whatif.outcomes:
        yield "  nothing: the run is too long to be simulated again within the budget"
        return
    yield from _table(whatif, width, paint)
    others = [one for one in whatif.outcomes if one.change.kind not in (DOUBLE, FIXED, LIMIT)]
    telling = [one for one in others if abs(one.gain) >= WORTH_SAYING]
    for one in sorted(telling, key=lambda one: -abs(one.gain))[:MOST_OTHERS]:
        yield f"  {one.change.target:9s} {one.change.text}: {_outcome(one)}"
    told = {one.change.target for one in telling}
    none = dict.fromkeys(one.change.target for one in others if one.change.target not in told)
    if none:
        yield paint("  size or tiles make no difference: ", DIM) + ", ".join(none)
    if whatif.left_out:
        yield paint(f"  not asked, the run is long: {len(whatif.left_out)} more changes (--json names them)", YELLOW)
    best = whatif.best
    if best is None:
        yield paint("  worth most: no single change gains anything", BOLD)
    else:
        yield paint(
            f"  worth most of what can be built: {best.change.target} {best.change.text}: {_outcome(best)}", GREEN
        )


def _table(whatif: WhatIf, width: int, paint: Paint) -> Iterator[str]:
    """One line a unit or link, one column each for twice as fast, no start-up, unlimited."""
    rows: dict[str, dict[str, Outcome]] = {}
    for one in whatif.outcomes:
        if one.change.kind in (DOUBLE, FIXED, LIMIT):
            rows.setdefault(one.change.target, {})[one.change.kind] = one
    cell = min(MOST_CELL, (width - 12) // 3 - 1)
    yield paint(f"  {'':9s} {'twice as fast':>{cell}s} {'no start-up':>{cell}s} {'unlimited':>{cell}s}", DIM)
    for target, cells in rows.items():
        texts = (f"{_outcome(cells[kind]) if kind in cells else '-':>{cell}s}" for kind in (DOUBLE, FIXED, LIMIT))
        yield f"  {target:9s} {' '.join(texts)}"


def _outcome(outcome: Outcome) -> str:
    if outcome.change.kind == CLOCK:
        return f"{outcome.time_us:,.3f} us {_gain(outcome)}"
    return f"{outcome.cycles:,} {_gain(outcome)}"


def _gain(outcome: Outcome) -> str:
    share = -100 * outcome.gain
    return "(same)" if abs(outcome.gain) < WORTH_SAYING / 10 else f"({share:+.1f} %)"


__all__ = ["fold", "screen"]
