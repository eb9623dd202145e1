"""``--set PATH=VALUE``: replace a field of a scenario or of its machine before it is validated."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from hwmodel.config import fields
from hwmodel.config.paths import FieldPath, format_path, parse_path
from hwmodel.config.positions import SET, Positions, SetLayer, has
from hwmodel.config.reader import read_text
from hwmodel.config.validate import show
from hwmodel.errors import ConfigError, InputError, did_you_mean


class Override(NamedTuple):
    """One override: the path as it was typed, and the plain value that replaces the node."""

    path: FieldPath
    value: Any


Overrides = Mapping[str, Any] | Iterable[str] | None
"""What callers may give: ``{"problem.m": 256}`` or ``["problem.m=256"]``."""


def parse_overrides(given: Overrides) -> list[Override]:
    """Read overrides. InputError for one that is no ``PATH=VALUE``, ConfigError for a VALUE that is no YAML."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [Override(_path(path, path), _plain(value)) for path, value in given.items()]
    return [parse_override(text) for text in given]


def parse_override(text: str) -> Override:
    """Read one ``PATH=VALUE``."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set: expected PATH=VALUE, not {text!r}")
    name = name.strip()
    try:
        return Override(_path(name, text), read_text(value, SET + name).data)
    except ConfigError as error:
        raise ConfigError(SET + name, error.field, error.problem) from None


def _plain(value: Any) -> Any:
    """A Python value as YAML would give it: numpy numbers and paths become plain ones."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value


def _path(name: str, text: str) -> FieldPath:
    path = parse_path(name)
    if path is None:
        raise InputError(f"--set: expected PATH=VALUE with a path like problem.m, not {text!r}")
    return path


def in_order(overrides: Iterable[Override]) -> list[Override]:
    """The order in which overrides act: those that choose between kinds first, else as given."""
    return sorted(overrides, key=lambda override: override.path[-1] not in fields.TAGS)


def apply(
    model: type[BaseModel], data: Any, override: Override, positions: Positions, inside: FieldPath = ()
) -> tuple[Any, Positions]:
    """(data, positions) with a node of ``data`` replaced. ConfigError for a path that ``model`` does not have.

    Changing a field that chooses between kinds drops what the new kind does not have. ``inside`` is what the user
    types before a path of this data (``arch``). ``data`` itself is not changed.
    """
    path, shown = override.path[len(inside) :], format_path(override.path)
    annotation: Any = model
    root: dict[str, Any] = {"": data}
    parent: Any = root
    key: str | int = ""
    done: list[str | int] = []
    for position, step in enumerate(path):
        node = _copy(parent, key)
        last = position == len(path) - 1
        if isinstance(node, list):
            step = _index(node, step, shown)
        elif isinstance(node, dict) and (fields.is_open(annotation) or fields.models(annotation)):
            step = str(step)
            _check_name(annotation, node, step, shown, may_add=last and isinstance(override.value, dict))
        else:
            where = format_path((*inside, *done))
            raise ConfigError(SET + shown, shown, f"expected a path, but {where} is {show(node)} and has no fields")
        if last and step in fields.TAGS and isinstance(node, dict) and isinstance(override.value, str):
            node = parent[key] = _change_kind(annotation, node, str(step), override.value)
        annotation = fields.child(annotation, step, node)
        parent, key = node, step
        done.append(step)
    parent[key] = override.value
    full = (*inside, *done)
    layer = SetLayer(full, override.value)
    return root[""], positions.over(*(Positions((layer,)).below(inside).layers if inside else (layer,)))


def _copy(parent: Any, key: str | int) -> Any:
    """The node below ``parent``, copied so that it may be changed; a mapping where there is nothing yet."""
    node = parent[key] if has(parent, key) else None
    if node is None:
        node = {}
    elif isinstance(node, dict | list):
        node = node.copy()
    parent[key] = node
    return node


def _index(node: list[Any], step: str | int, shown: str) -> int:
    text = str(step)
    if not text.isdecimal() or int(text) >= len(node):
        problem = f"expected an index from 0 to {len(node) - 1}, not {text}" if node else "expected a list with items"
        raise ConfigError(SET + shown, shown, problem)
    return int(text)


def _check_name(annotation: Any, node: dict[str, Any], step: str, shown: str, *, may_add: bool) -> None:
    """A name must be a field of the model, or be there already; only a whole mapping adds an entry to a table."""
    if step in node or annotation is Any:
        return
    known = fields.names(annotation, node)
    if step in known or (fields.is_open(annotation) and may_add):
        return
    known = list(dict.fromkeys([*known, *node]))
    problem = f"expected one of {', '.join(known)}, not {step!r}{did_you_mean(step, known)}"
    raise ConfigError(SET + shown, shown, problem)


def _change_kind(annotation: Any, node: dict[str, Any], tag: str, value: str) -> dict[str, Any]:
    before = fields.model_of(annotation, tag, node.get(tag))
    after = fields.model_of(annotation, tag, value)
    if after is None or before is after:
        return node
    kept: dict[str, Any] = fields.prune(node, before, after) if before else fields.prune(node, annotation, after)
    return kept
