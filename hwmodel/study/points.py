"""The points of a sweep: fields that vary, their values, and the scenario of each combination.

A scenario file is read once; a point replaces fields of what was read and is validated like a file.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from hwmodel.config.overrides import Override, Overrides, parse_overrides
from hwmodel.config.paths import FieldPath, format_path, parse_path
from hwmodel.config.reader import Document, read_file, read_text
from hwmodel.config.resources import find_scenario, shown_path
from hwmodel.errors import ConfigError, InputError
from hwmodel.scenario import Scenario, build

MOST_POINTS = 1_000_000
VERDICT = "problem"
"""Column of the table that says why a point is not valid, so no axis may have its name."""
_OPEN, _CLOSE = "[{(", "]})"


class Axis(NamedTuple):
    """A field that varies: its path as typed, and its values."""

    path: FieldPath
    values: tuple[Any, ...]

    @property
    def name(self) -> str:
        """Path for people and for the column of the table."""
        return format_path(self.path)


class Point(NamedTuple):
    """One combination: a value for each axis."""

    values: tuple[Any, ...]


def parse_axis(text: str) -> Axis:
    """Read ``PATH=V1,V2,...``: values are YAML, split at commas outside brackets and quotes."""
    name, equals, values = text.partition("=")
    path = parse_path(name.strip())
    if not equals or path is None:
        raise InputError(f"--vary: expected PATH=V1,V2,... with a path like problem.m, not {text!r}")
    where = f"--vary {name.strip()}"
    found = []
    for part in split_values(values, where):
        try:
            found.append(read_text(part, where).data)
        except ConfigError as error:
            raise ConfigError(where, error.field, error.problem) from None
    return make_axis(path, found)


def make_axis(path: FieldPath, values: Sequence[Any]) -> Axis:
    """An axis with each value once."""
    unique = {_key(value): value for value in values}
    if format_path(path) == VERDICT:
        raise InputError(f"--vary {VERDICT}: expected a field of the problem, such as problem.m, not the whole of it")
    if not unique:
        raise InputError(f"--vary {format_path(path)}: expected at least one value")
    return Axis(path, tuple(unique.values()))


def split_values(text: str, where: str = "--vary") -> list[str]:
    """Parts of a list separated by commas; those inside brackets or quotes do not separate."""
    parts, start, closing, quote = [], 0, [], ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _OPEN:
            closing.append(_CLOSE[_OPEN.index(character)])
        elif character in _CLOSE:
            if not closing or closing.pop() != character:
                raise InputError(f"{where}: expected balanced brackets, not {text!r}")
        elif character == "," and not closing:
            parts.append(text[start:position])
            start = position + 1
    if closing or quote:
        raise InputError(f"{where}: expected balanced brackets and quotes, not {text!r}")
    parts = [part.strip() for part in [*parts, text[start:]]]
    if not all(parts):
        raise InputError(f"{where}: expected values between the commas, not {text!r}")
    return parts


def parse_axes(given: Mapping[str, Sequence[Any]] | Sequence[str]) -> tuple[Axis, ...]:
    """Axes from ``{"problem.m": [128, 256]}`` or ``["problem.m=128,256"]``, each path once."""
    if isinstance(given, Mapping):
        axes = []
        for name, values in given.items():
            path = parse_path(name)
            if path is None or isinstance(values, str) or not isinstance(values, Sequence):
                raise InputError(f"{name}: expected a path like problem.m with a list of values")
            axes.append(make_axis(path, values))
    else:
        axes = [parse_axis(text) for text in given]
    names = [axis.name for axis in axes]
    if again := [name for name in names if names.count(name) > 1]:
        raise InputError(f"--vary {again[0]}: expected each path once")
    if not axes:
        raise InputError("--vary: expected at least one PATH=V1,V2,...")
    if (count := prod(len(axis.values) for axis in axes)) > MOST_POINTS:
        raise InputError(f"--vary: expected at most {MOST_POINTS:,} points, not {count:,}")
    return tuple(axes)


def grid(axes: Sequence[Axis]) -> Iterator[Point]:
    """All combinations, the last axis fastest."""
    return (Point(values) for values in itertools.product(*(axis.values for axis in axes)))


@dataclass
class Template:
    """A scenario file that was read once; ``scenario`` makes one with fields replaced.

    What it expects is left out: that was said of the file as it stands, not of its neighbours.
    """

    document: Document
    base: Path
    overrides: list[Override]
    name: str
    _archs: dict[tuple[Any, ...], Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: str | Path, overrides: Overrides = None) -> Template:
        """Read a scenario file, or one that ships by its name."""
        file = find_scenario(path)
        document = read_file(file, shown_path(file))
        data = document.data
        if isinstance(data, dict) and "expect" in data:
            document = Document(
                {name: value for name, value in data.items() if name != "expect"},
                document.file,
                document.lines,
                document.first_line,
            )
        given = [override for override in parse_overrides(overrides) if override.path[0] != "expect"]
        return cls(document, file.parent, given, _name(data, file))

    @classmethod
    def of(cls, scenario: Scenario) -> Template:
        """From a scenario that was loaded."""
        data = read_text(scenario.resolved(), scenario.origin).data
        data.pop("expect", None)
        return cls(Document(data, scenario.origin), scenario.base, [], scenario.name)

    def scenario(self, *overrides: Override) -> Scenario:
        """The scenario with these fields replaced. Raises ConfigError, as for a file."""
        return build(self.document, self.base, [*self.overrides, *overrides], self._archs)

    def digest(self, axes: Sequence[Axis], extra: str = "") -> str:
        """Names the study of this template over ``axes``; the same text gives the same digest."""
        whole = [
            self.document.data,
            [(format_path(override.path), override.value) for override in self.overrides],
            sorted((axis.name, sorted(_key(value) for value in axis.values)) for axis in axes),
            extra,
        ]
        return hashlib.sha256(json.dumps(whole, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _name(data: Any, file: Path) -> str:
    name = data.get("name") if isinstance(data, dict) else None
    return name if isinstance(name, str) and name else file.stem


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
