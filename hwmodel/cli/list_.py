"""``hwmodel list``: what there is, printed from the tables that the program itself uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple

import typer
from pydantic import BaseModel

from hwmodel.cli.options import Json, NoColor, Quiet, Verbose, configure
from hwmodel.errors import ConfigError, InputError, choice, unknown_name


class Listing(NamedTuple):
    """One topic: the columns of its table (the first is the name) and its rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class Topic(NamedTuple):
    """What can be listed. ``detail`` prints one entry; without it an entry is its row alone."""

    summary: str
    all: Callable[[], Listing]
    detail: Callable[[str], Listing] | None = None


def _archs() -> Listing:
    from hwmodel.config.arch import load_arch
    from hwmodel.config.resources import shipped_archs

    rows = []
    for name in shipped_archs():
        spec = load_arch(name).spec
        rows.append((name, spec.family, spec.calibrated, spec.cores, _mhz(spec), spec.description))
    return Listing(("arch", "family", "calibrated", "cores", "clock_mhz", "description"), rows)


def _mhz(spec: Any) -> int | float:
    clock = spec.clock_mhz
    return int(clock) if clock.denominator == 1 else float(clock)


def _arch(name: str) -> Listing:
    from hwmodel.config.arch import load_arch
    from hwmodel.config.paths import format_path, parse_path
    from hwmodel.config.plain import plain
    from hwmodel.config.sourced import numbers

    arch = load_arch(name)
    values = {format_path(path): value for path, value in numbers(plain(arch.spec))}
    rows = []
    for path, (source, confidence) in arch.sources.items():
        value = values[path] if path in values else _at(plain(arch.spec), parse_path(path) or ())
        rows.append((path, value, confidence, source))
    return Listing(("field", "value", "confidence", "source"), rows)


def _at(data: Any, path: Iterable[str | int]) -> Any:
    for step in path:
        data = data[step]
    return data


def _dtypes() -> Listing:
    from hwmodel import numerics as nm

    rows = []
    for name, dtype in nm.DTYPES.items():
        block = dtype.block
        rows.append((name, dtype.storage_bits, block.group if block else None, block and block.scales, dtype.summary))
    return Listing(("dtype", "bits", "group", "scales", "summary"), rows)


def _units() -> Listing:
    from hwmodel.units import UNITS

    rows = [(name, unit.engine, list(unit.operations), unit.summary) for name, unit in UNITS.items()]
    return Listing(("unit", "engine", "operations", "summary"), rows)


def _unit(name: str) -> Listing:
    from hwmodel.units import UNITS

    return _fields(_entry("unit", name, UNITS).spec)


def _tilings() -> Listing:
    from hwmodel.tiling import TILINGS

    rows = [(name, tiling.family, tiling.summary) for name, tiling in TILINGS.items()]
    return Listing(("tiling", "family", "summary"), rows)


def _tiling(name: str) -> Listing:
    from hwmodel.tiling import TILINGS

    return _fields(_entry("tiling", name, TILINGS).params)


def _rules() -> Listing:
    from hwmodel import numerics as nm

    rows = [(name, list(rule.dtypes), rule.summary) for name, rule in nm.RULES.items()]
    return Listing(("rule", "dtypes", "summary"), rows)


def _writers() -> Listing:
    from hwmodel.writers import DEFAULT, WRITERS

    rows = [(name, writer.filename, name in DEFAULT, writer.summary) for name, writer in WRITERS.items()]
    return Listing(("writer", "file", "by default", "summary"), rows)


def _scenarios() -> Listing:
    from hwmodel.config.reader import read_file
    from hwmodel.config.resources import shipped_scenarios, shown_path

    rows = []
    for name, path in shipped_scenarios().items():
        data = read_file(path, shown_path(path)).data
        rows.append((name, data.get("question", "") if isinstance(data, dict) else ""))
    return Listing(("scenario", "question"), rows)


TOPICS: dict[str, Topic] = {
    "arch": Topic("machines that ship; with a name or path every number of one", _archs, _arch),
    "dtypes": Topic("number formats", _dtypes),
    "units": Topic("kinds of hardware units; with a name the fields of one", _units, _unit),
    "tilings": Topic("tilings; with a name the parameters of one", _tilings, _tiling),
    "rules": Topic("quantiser rules", _rules),
    "writers": Topic("output formats", _writers),
    "scenarios": Topic("scenarios that ship", _scenarios),
}
"""All topics in the order of the help text."""


def command(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(metavar="|".join(TOPICS), help="What to list [all topics].")] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One entry; of a machine, unit or tiling its fields.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> int:
    """List what there is: machines, dtypes, tilings, scenarios, ..."""
    console = configure(context, quiet=quiet, verbose=verbose, as_json=as_json, no_color=no_color)
    listing = _list(topic, name)
    if as_json:
        console.json([dict(zip(listing.columns, row, strict=True)) for row in listing.rows])
    else:
        console.table(listing.columns, listing.rows)
    return 0


def _list(topic: str | None, name: str | None) -> Listing:
    if topic is None:
        return Listing(("topic", "what"), [(key, entry.summary) for key, entry in TOPICS.items()])
    entry = TOPICS[choice("list", topic, TOPICS)]
    if name is None:
        return entry.all()
    if entry.detail is not None:
        try:
            return entry.detail(name)
        except ConfigError as error:
            raise InputError(str(error).removeprefix("arch: ")) from error
    listing = entry.all()
    rows = [row for row in listing.rows if row[0] == name]
    if not rows:
        raise InputError(unknown_name(listing.columns[0], name, (row[0] for row in listing.rows)))
    return Listing(listing.columns, rows)


def _entry(kind: str, name: str, table: dict[str, Any]) -> Any:
    if name not in table:
        raise InputError(unknown_name(kind, name, table))
    return table[name]


def _fields(model: type[BaseModel], prefix: str = "") -> Listing:
    """The fields of a model with their defaults, those of models inside it too."""
    from hwmodel.config import fields

    rows: list[tuple[Any, ...]] = []
    for name, field in model.model_fields.items():
        inner = fields.models(field.annotation)
        if inner and not fields.is_open(field.annotation):
            rows += _fields(inner[0], f"{prefix}{name}.").rows
            continue
        default = "required" if field.is_required() else field.get_default(call_default_factory=True)
        rows.append((prefix + name, default, field.description or ""))
    return Listing(("field", "default", "description"), rows)
