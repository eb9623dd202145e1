"""Numbers with a source: ``{value, source, confidence}`` taken apart, and put together again."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from pydantic import BaseModel

from hwmodel.arch import CONFIDENCES, Source
from hwmodel.config.paths import FieldPath, format_path
from hwmodel.config.positions import Positions
from hwmodel.errors import did_you_mean

PARTS = ("value", "source", "confidence")
STRUCTURE = ("schema_version",)
"""Fields that are numbers but say nothing about the machine."""
OVERRIDE = Source("override", "assumed")
UNSTATED = Source("not stated", "assumed")
DEFAULT = Source("default of the model", "assumed")


def is_sourced(value: Any) -> bool:
    """True for a mapping that stands for a number."""
    return isinstance(value, dict) and not value.keys().isdisjoint(PARTS)


def merge(base: Any, over: Any) -> Any:
    """``over`` on top of ``base``: mappings field by field; all else, sourced numbers and other kinds replace."""
    if not isinstance(base, dict) or not isinstance(over, dict) or is_sourced(base) or is_sourced(over):
        return over
    if "kind" in over and over["kind"] != base.get("kind", over["kind"]):
        return over
    merged = dict(base)
    for name, value in over.items():
        merged[name] = merge(base[name], value) if name in base else value
    return merged


def state(data: Any, bare: Source, path: FieldPath = ()) -> Any:
    """``data`` with a source at every number; ``bare`` for those that state none."""
    if is_sourced(data):
        return state(data["value"], bare, path) if data.keys() == {"value"} else data
    if isinstance(data, dict):
        return {name: state(value, bare, (*path, name)) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [state(value, bare, (*path, index)) for index, value in enumerate(data)]
    if is_number(data) and not (path and path[0] in STRUCTURE):
        return {"value": data, **bare._asdict()}
    return data


def take_apart(data: Any, positions: Positions) -> tuple[Any, dict[FieldPath, Source]]:
    """(plain data, source of each number). ConfigError for one whose source is not stated as it should be."""
    sources: dict[FieldPath, Source] = {}

    def strip(value: Any, path: FieldPath) -> Any:
        if is_sourced(value):
            sources[path] = _source(value, positions, path)
            return value["value"]
        if isinstance(value, dict):
            return {name: strip(item, (*path, name)) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [strip(item, (*path, index)) for index, item in enumerate(value)]
        return value

    return strip(data, ()), sources


def _source(value: dict[str, Any], positions: Positions, path: FieldPath) -> Source:
    for name in value:
        if name not in PARTS:
            problem = f"expected value, source and confidence, not {name!r}{did_you_mean(name, PARTS)}"
            raise positions.error((*path, name), problem)
    for name in PARTS:
        if name not in value:
            raise positions.error(path, f"expected value, source and confidence, but {name} is missing")
    source, confidence = value["source"], value["confidence"]
    if not isinstance(source, str) or not source.strip():
        raise positions.error((*path, "source"), f"expected text, not {source!r}")
    known = (*CONFIDENCES,)
    if confidence not in known:
        problem = f"expected one of {', '.join(known)}, not {confidence!r}{did_you_mean(str(confidence), known)}"
        raise positions.error((*path, "confidence"), problem)
    if isinstance(value["value"], dict):
        raise positions.error((*path, "value"), "expected a number, not a mapping")
    return Source(source, confidence)


def is_number(value: Any) -> bool:
    """True for numbers (exact fractions included), not for true and false."""
    return isinstance(value, int | float | Fraction) and not isinstance(value, bool)


def numbers(data: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Every number in plain data or a model with its path, those that are structure left out."""
    if isinstance(data, BaseModel):
        data = data.__dict__
    if isinstance(data, dict):
        for name, value in data.items():
            if path or name not in STRUCTURE:
                yield from numbers(value, (*path, name))
    elif isinstance(data, list | tuple):
        for index, value in enumerate(data):
            yield from numbers(value, (*path, index))
    elif is_number(data):
        yield path, data


def put_together(data: Any, sources: dict[str, Source], path: FieldPath = ()) -> Any:
    """Plain data with ``{value, source, confidence}`` wherever a source is known."""
    stated = sources.get(format_path(path)) if path else None
    if stated is not None:
        return {"value": data, "source": stated.source, "confidence": stated.confidence}
    if isinstance(data, dict):
        return {name: put_together(value, sources, (*path, name)) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [put_together(value, sources, (*path, index)) for index, value in enumerate(data)]
    return data
