"""What would help: the changes to a machine and its kernel that are worth trying, and how the answers are ranked.

Here are only the questions; `hwmodel.explain` answers each by simulating it. A change is a set of overrides, the same
as ``--set`` takes, so anybody can run it again.

A unit is made faster through its clock: rates and start-ups alike. Links, the launch and the other units stay as they
are. Where the clock of the whole machine changes, shared links and the launch keep their times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from hwmodel.arch import Arch, BufferSpec, LinkSpec

UNLIMITED = 1024
"""So many times as fast, or as large, stands for no limit."""

DOUBLE, LIMIT, FIXED, MORE, LARGER, BOTH, ROOM, LAUNCH, CLOCK = (
    "double", "unlimited", "no start-up", "more", "larger", "both", "unlimited size", "launch", "clock",
)  # fmt: skip
ADVICE = (DOUBLE, MORE, LARGER, BOTH)
"""Kinds of changes that somebody could make; the others are bounds."""

FIXED_COSTS = ("startup_cycles", "issue_cycles", "completion_cycles", "latency_cycles", "swap_cycles")
GROUPS = {
    "l1": ("l1",),
    "l0": ("l0a", "l0b", "l0a_mx", "l0b_mx"),
    "l0c": ("l0c",),
    "sbuf": ("sbuf",),
    "psum": ("psum",),
}
"""Buffers that only make sense together, by the name that tilings give their tiles."""


class Change(NamedTuple):
    """One change: what it is about, what is done to it, and the overrides that do it."""

    target: str
    kind: str
    text: str
    overrides: Mapping[str, Any]

    @property
    def replans(self) -> bool:
        """Whether the tiling has to be worked out again: for buffers and their tiles."""
        return self.kind in (MORE, LARGER, BOTH, ROOM)

    @property
    def command(self) -> str:
        """The flags that make the change: ``--set arch.units.cube.clock_mhz=3300``."""
        return " ".join(f"--set {path}={value}" for path, value in self.overrides.items())


@dataclass(frozen=True)
class Outcome:
    """What came out of a change; ``problem`` says why nothing could."""

    change: Change
    cycles: int
    time_us: float
    gain_us: float
    gain: float
    """Share of the run's time that is saved; negative where it gets slower."""
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For ``explain --json``."""
        change = self.change
        record: dict[str, Any] = {"target": change.target, "kind": change.kind, "change": change.text}
        record["overrides"] = dict(change.overrides)
        if self.problem:
            return record | {"problem": self.problem}
        return record | {"cycles": self.cycles, "time_us": self.time_us, "gain": self.gain}


@dataclass(frozen=True)
class WhatIf:
    """All outcomes, the one worth most first. ``baseline_cycles`` is the run simulated once more."""

    baseline_cycles: int
    reproduced: bool
    outcomes: tuple[Outcome, ...]
    impossible: tuple[Outcome, ...]
    left_out: tuple[Change, ...]

    @property
    def best(self) -> Outcome | None:
        """The change worth most of those that somebody could make; None where none gains anything."""
        return next((one for one in self.outcomes if one.change.kind in ADVICE and one.gain > 0), None)

    def to_dict(self) -> dict[str, Any]:
        """For ``explain --json``."""
        return {
            "baseline_cycles": self.baseline_cycles,
            "baseline_reproduced": self.reproduced,
            "ranking": [outcome.to_dict() for outcome in self.outcomes],
            "impossible": [outcome.to_dict() for outcome in self.impossible],
            "left_out": [f"{change.target} {change.text}" for change in self.left_out],
            "worth_most": self.best.to_dict() if self.best else None,
        }


def ranked(outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Largest gain first; equal ones stay in the order they were asked in."""
    return tuple(sorted(outcomes, key=lambda outcome: -outcome.gain_us))


def changes(arch: Arch, tiling: Any, weight: Mapping[str, float], moved: Iterable[str]) -> list[Change]:
    """What to ask, the most promising first.

    ``weight`` says how much of the critical path belongs to a unit, ``moved`` names the links that carry anything.
    ``tiling`` are the parameters of the tiling, None where there is none.
    """
    found: list[tuple[float, Change]] = []
    names = {name: unit.name for name, unit in _units(arch)}

    def share(name: str) -> float:
        return weight.get(names.get(name, name), 0.0)

    for change in _unit_changes(arch):
        tier = {DOUBLE: 3.0, FIXED: 1.0, LIMIT: 2.0}[change.kind]
        found.append((tier + share(change.target), change))
    links = set(moved)
    found += [(1.5 + (change.kind == DOUBLE), change) for change in _link_changes(arch) if change.target in links]
    tiers = {MORE: 2.9, ROOM: 1.4}
    found += [(tiers.get(change.kind, 2.5), change) for change in _buffer_changes(arch, tiling)]
    found += [(1.3, change) for change in _single_buffers(arch)]
    if launch := arch.spec.launch_cycles:
        found.append((2.2, Change("launch", LAUNCH, "none", {"arch.launch_cycles": 0})))
    found.append(
        (1.2, Change("clock", CLOCK, "twice as fast, links and launch keep their times", _clock(arch, launch)))
    )
    found.sort(key=lambda pair: -pair[0])
    return [change for _, change in found]


def _units(arch: Arch) -> Iterator[tuple[str, Any]]:
    """(name in the arch file, unit) of all units."""
    by_spec = {id(unit.spec): unit for unit in arch.units.values()}
    for name, spec in arch.spec.units.items():
        yield name, by_spec[id(spec)]


def _plain(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)


def _unit_changes(arch: Arch) -> Iterator[Change]:
    for name, spec in arch.spec.units.items():
        path = f"arch.units.{name}"
        clock = Fraction(spec.clock_mhz or arch.spec.clock_mhz)
        for kind, factor, text in ((DOUBLE, 2, "twice as fast"), (LIMIT, UNLIMITED, "unlimited")):
            yield Change(name, kind, text, {f"{path}.clock_mhz": _plain(clock * factor)})
        fixed = {f"{path}.{field}": 0 for field in FIXED_COSTS if getattr(spec, field, 0)}
        if fixed:
            yield Change(name, FIXED, "no start-up", fixed)


def _link_changes(arch: Arch) -> Iterator[Change]:
    for name, link in arch.spec.links.items():
        for kind, factor, text in ((DOUBLE, 2, "twice as fast"), (LIMIT, UNLIMITED, "unlimited")):
            yield Change(name, kind, text, _link_rates(name, link, Fraction(factor)))


def _link_rates(name: str, link: LinkSpec, factor: Fraction) -> dict[str, Any]:
    rates = {"bytes_per_cycle": link.bytes_per_cycle, "core_bytes_per_cycle": link.core_bytes_per_cycle}
    return {f"arch.links.{name}.{field}": _plain(rate * factor) for field, rate in rates.items() if rate is not None}


def _buffer_changes(arch: Arch, tiling: Any) -> Iterator[Change]:
    counts = getattr(tiling, "buffers", None)
    for group, members in GROUPS.items():
        here = {name: arch.spec.buffers[name] for name in members if name in arch.spec.buffers}
        if not here:
            continue
        larger = _times(here, 2)
        yield Change(group, LARGER, "twice as large", larger)
        yield Change(group, ROOM, "unlimited", _times(here, UNLIMITED))
        if getattr(counts, group, 0) == 1:
            more = {f"tiling.buffers.{group}": 2}
            yield Change(group, MORE, "2 tiles in it, not 1", more)
            yield Change(group, BOTH, "twice as large, with 2 tiles in it", {**larger, **more})
    if arch.spec.l2 is not None:
        for kind, factor, text in ((LARGER, 2, "twice as large"), (ROOM, UNLIMITED, "unlimited")):
            yield Change("l2", kind, text, {"arch.l2.capacity_bytes": factor * arch.spec.l2.capacity_bytes})


def _single_buffers(arch: Arch) -> Iterator[Change]:
    """Each buffer of a group that has several, by itself."""
    for members in GROUPS.values():
        here = {name: arch.spec.buffers[name] for name in members if name in arch.spec.buffers}
        if len(here) > 1:
            for name, buffer in here.items():
                yield Change(name, LARGER, "twice as large", _times({name: buffer}, 2))


def _times(buffers: Mapping[str, BufferSpec], factor: int) -> dict[str, Any]:
    """Capacities, and banks where they are counted, times a factor."""
    found: dict[str, Any] = {}
    for name, buffer in buffers.items():
        found[f"arch.buffers.{name}.capacity_bytes"] = factor * buffer.capacity_bytes
        if isinstance(buffer.banks, int):
            found[f"arch.buffers.{name}.banks"] = factor * buffer.banks
    return found


def _clock(arch: Arch, launch: int) -> dict[str, Any]:
    spec = arch.spec
    overrides: dict[str, Any] = {"arch.clock_mhz": _plain(spec.clock_mhz * 2)}
    if launch:
        overrides["arch.launch_cycles"] = 2 * launch
    for name, link in spec.links.items():
        overrides.update(_link_rates(name, link, Fraction(1, 2)))
    return overrides
