"""What fields a model has below a path, given the data: for checking paths, hints, and changing a ``kind``."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

TAGS = ("kind", "op")
"""Fields that choose between models."""


def branches(annotation: Any) -> Iterator[Any]:
    """The plain types that an annotation allows: unions flattened, metadata and None dropped."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from branches(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from branches(part)
    elif annotation not in (None, type(None)):
        yield annotation


def models(annotation: Any, data: Any = None) -> list[type[BaseModel]]:
    """The models that an annotation allows, only those with the right tag where the data has one that is known."""
    found = [part for part in branches(annotation) if isinstance(part, type) and issubclass(part, BaseModel)]
    chosen = [model for model in found if _tagged(model, data)] if isinstance(data, dict) and len(found) > 1 else []
    return chosen or found


def tag_values(annotation: Any, tag: str) -> list[str]:
    """Values of the field ``tag`` over all models that an annotation allows."""
    return [value for model in models(annotation) for value in _literals(model, tag)]


def child(annotation: Any, step: str | int, data: Any = None) -> Any:
    """Annotation of the field or item ``step``; None where the model has no such field."""
    for part in branches(annotation):
        origin, arguments = get_origin(part), get_args(part)
        if part is Any:
            return Any
        if isinstance(step, str) and origin is dict:
            return arguments[1]
        if isinstance(step, int) and origin in (tuple, list):
            alike = origin is list or arguments[-1] is Ellipsis
            return arguments[0 if alike else min(step, len(arguments) - 1)]
    for model in models(annotation, data):
        if step in model.model_fields:
            return model.model_fields[step].annotation
    return None


def is_open(annotation: Any) -> bool:
    """True where keys are free: a mapping by name, or raw data."""
    return any(part is Any or get_origin(part) is dict for part in branches(annotation))


def names(annotation: Any, data: Any = None) -> list[str]:
    """Fields that the models of an annotation have."""
    return list(dict.fromkeys(name for model in models(annotation, data) for name in model.model_fields))


def prune(data: Any, before: Any, after: Any) -> Any:
    """``data`` of the type ``before`` without what the type ``after`` does not have or understands differently."""
    old, new = models(before, data), models(after)
    if not isinstance(data, dict) or len(new) != 1:
        return data
    kept = {}
    for name, value in data.items():
        target = new[0].model_fields.get(name)
        if target is None:
            continue
        known = [model.model_fields[name].annotation for model in old if name in model.model_fields]
        if not known or known[0] == target.annotation:
            kept[name] = value
        elif models(known[0]) and models(target.annotation):
            kept[name] = prune(value, known[0], target.annotation)
    return kept


def model_of(annotation: Any, tag: str, value: Any) -> type[BaseModel] | None:
    """The model whose field ``tag`` is ``value``."""
    return next((model for model in models(annotation) if value in _literals(model, tag)), None)


def _literals(model: type[BaseModel], tag: str) -> tuple[Any, ...]:
    field = model.model_fields.get(tag)
    return get_args(field.annotation) if field is not None and get_origin(field.annotation) is Literal else ()


def _tagged(model: type[BaseModel], data: dict[str, Any]) -> bool:
    return any(tag in data and data[tag] in _literals(model, tag) for tag in TAGS)
