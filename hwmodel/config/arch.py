"""Machines from files: ``base:`` variants, overrides, sources, and checks across units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hwmodel import numerics as nm
from hwmodel.arch import Arch, ArchSpec, Source
from hwmodel.config.overrides import Override, apply, in_order
from hwmodel.config.paths import FieldPath, format_path
from hwmodel.config.positions import NOWHERE, FileLayer, Positions
from hwmodel.config.reader import read_file
from hwmodel.config.resources import find_arch, shown_path
from hwmodel.config.sourced import DEFAULT, OVERRIDE, UNSTATED, merge, numbers, state, take_apart
from hwmodel.config.validate import show, validate
from hwmodel.errors import ConfigError, InputError, unknown_name
from hwmodel.units import UNITS
from hwmodel.units.cube import CubeSpec
from hwmodel.units.neuron.evacuate import WORK, EvacuateSpec
from hwmodel.units.textract import TExtractSpec

ARCH: FieldPath = ("arch",)
MAX_BASES = 50
NEEDS: dict[str, dict[str, tuple[str, ...]]] = {
    "ascend": {
        "units": ("tload", "textract", "cube", "fixpipe"),
        "buffers": ("l1", "l0a", "l0b", "l0c"),
        "links": ("hbm",),
    },
}
"""What every machine of a family has: its programs take that for granted."""


def load_arch(
    reference: Any, base: Path = Path(), *, positions: Positions = NOWHERE, overrides: Iterable[Override] = ()
) -> Arch:
    """Read a machine: the name of one that ships, a path relative to ``base``, or the mapping itself.

    ``positions`` are those of the file that refers to it, under ``arch``; ``overrides`` have paths that begin so.
    """
    data, places = _read(reference, base, positions, ())
    for override in in_order(overrides):
        stated = override._replace(value=state(override.value, OVERRIDE))
        data, places = apply(ArchSpec, data, stated, places, inside=ARCH)
    values, sources = take_apart(data, places)
    spec = validate(ArchSpec, values, places, beside=("base",))
    _check(spec, places)
    return Arch(spec, _all_sources(spec, sources))


def _read(reference: Any, base: Path, positions: Positions, seen: tuple[Path, ...]) -> tuple[Any, Positions]:
    """(data with a source for every number, its positions), bases merged in."""
    if isinstance(reference, dict):
        return _over_base(reference, base, positions.below(ARCH), seen)
    if not isinstance(reference, str):
        found = "but it is missing" if reference is None else f"not {show(reference)}"
        raise positions.error(ARCH, f"expected a name, a path or a mapping, {found}")
    return _read_file(reference, base, positions, ARCH, seen)


def _read_file(
    name: str, base: Path, positions: Positions, field: FieldPath, seen: tuple[Path, ...]
) -> tuple[Any, Positions]:
    try:
        path = find_arch(name, Path.cwd() if positions.is_set(field) and (Path.cwd() / name).is_file() else base)
    except InputError as error:
        raise positions.error(field, str(error)) from None
    if not path.is_file():
        raise positions.error(field, f"expected an arch file, but there is none at {shown_path(path)}")
    path = path.resolve()
    if path in seen:
        chain = " -> ".join(each.name for each in (*seen[seen.index(path) :], path))
        raise positions.error(field, f"expected a base that does not come back to itself, not {chain}")
    if len(seen) == MAX_BASES:
        raise positions.error(field, f"expected at most {MAX_BASES} bases, each on top of the next")
    document = read_file(path, shown_path(path))
    places = Positions((FileLayer(document),))
    if not isinstance(document.data, dict):
        raise ConfigError(document.file, "", f"expected a mapping that describes a machine, not {show(document.data)}")
    data = document.data
    if "base" in data and "name" not in data:
        data = {**data, "name": path.stem}
    return _over_base(data, path.parent, places, (*seen, path))


def _over_base(
    data: dict[str, Any], folder: Path, positions: Positions, seen: tuple[Path, ...]
) -> tuple[Any, Positions]:
    if "base" not in data:
        absent = [key for key, field in ArchSpec.model_fields.items() if field.is_required() and key not in data]
        if len(absent) > 1:
            problem = f"expected the machine that this one changes, or a whole one, not one without {', '.join(absent)}"
            raise positions.error(("base",), problem, missing=True)
        return state(data, UNSTATED), positions
    name = data["base"]
    if not isinstance(name, str):
        raise positions.error(("base",), f"expected the name or path of a machine, not {show(name)}")
    under, places = _read_file(name, folder, positions, ("base",), seen)
    own = {key: value for key, value in data.items() if key != "base"}
    return merge(under, state(own, OVERRIDE)), places.over(*positions.layers)


def _all_sources(spec: ArchSpec, stated: dict[FieldPath, Source]) -> dict[str, Source]:
    """Sources by dotted path, in the order of the specification, with those that only a default gives."""
    found: dict[str, Source] = {}
    for path, _ in numbers(spec):
        near = next((path[:cut] for cut in range(len(path), 0, -1) if path[:cut] in stated), None)
        found[format_path(near or path)] = stated[near] if near else DEFAULT
    for path, source in stated.items():
        found.setdefault(format_path(path), source)
    return found


def _check(spec: ArchSpec, positions: Positions) -> None:
    for path, problem in _faults(spec):
        raise positions.error(path, problem)


def _faults(spec: ArchSpec) -> Iterator[tuple[FieldPath, str]]:
    """What no single field can tell: names that must exist elsewhere in the machine."""
    for part, names in NEEDS.get(spec.family, {}).items():
        for name in names:
            if name not in getattr(spec, part):
                needed = ", ".join(names)
                yield (part,), f"expected {needed} in a machine of family {spec.family}, but {name} is missing"
    for name, unit in spec.units.items():
        path: FieldPath = ("units", name)
        if name != unit.kind:
            yield path, f"expected the name of its kind, {unit.kind}, not {name}"
        if isinstance(unit, TExtractSpec):
            for buffer in unit.bytes_per_cycle:
                if buffer not in spec.buffers:
                    yield (*path, "bytes_per_cycle", buffer), unknown_name("buffer", buffer, spec.buffers)
            for buffer in sorted(spec.buffers.keys() & UNITS[unit.kind].spaces - {"l1"}):
                if buffer not in unit.bytes_per_cycle:
                    yield (*path, "bytes_per_cycle"), f"expected a rate for {buffer}, but it is missing"
        if isinstance(unit, EvacuateSpec):
            for work in WORK:
                if work not in unit.elements_per_cycle:
                    yield (*path, "elements_per_cycle"), f"expected a rate for {work}, but it is missing"
        if isinstance(unit, CubeSpec):
            for dtype in unit.fractals:
                if dtype not in nm.DTYPES:
                    yield (*path, "fractals", dtype), unknown_name("dtype", dtype, nm.DTYPES)
    engines = [engine for unit in spec.units.values() for engine in UNITS[unit.kind].engines_of(unit)]
    for name, shared in spec.buffers.items():
        for index, engine in enumerate(shared.one_at_a_time):
            if engine not in engines:
                yield ("buffers", name, "one_at_a_time", index), unknown_name("engine", engine, engines)
    for group in ("mx", "plain"):
        for index, pair in enumerate(getattr(spec.operand_pairs, group)):
            for side, dtype in enumerate(pair):
                if dtype not in nm.DTYPES:
                    yield ("operand_pairs", group, index, side), unknown_name("dtype", dtype, nm.DTYPES)
