"""Pydantic's errors as one line of ours: ``file:line: field: expected ..., not ...``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from hwmodel.config import fields
from hwmodel.config.paths import FieldPath
from hwmodel.config.positions import Positions, has
from hwmodel.errors import ConfigError, did_you_mean

Model = TypeVar("Model", bound=BaseModel)

_NAMED = re.compile(r"([a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*): (.*)", re.DOTALL)
_EXPECTED = {
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "int_parsing_size": "a smaller integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "none_required": "nothing",
    "is_instance_of": "a number",
}
_LIMITS = {
    "greater_than": ("a number greater than", "gt"),
    "greater_than_equal": ("a number of at least", "ge"),
    "less_than": ("a number less than", "lt"),
    "less_than_equal": ("a number of at most", "le"),
}


def validate(model: type[Model], data: Any, positions: Positions, beside: tuple[str, ...] = ()) -> Model:
    """Build a model from plain data, strictly (no text for numbers). ConfigError for the first thing that is wrong.

    ``beside`` are fields that the file has and the model has not, for the list of what may stand there.
    """
    try:
        built = model.model_validate(freeze(data), strict=True)
    except ValidationError as error:
        raise _translate(model, data, positions, beside, error) from None
    for path, found in _inexact(built, data, ()):
        raise positions.error(path, f"expected an integer, not {show(found)}")
    return built


def _inexact(built: Any, data: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    """Where pydantic took true or 1.0 for the 1 of a ``Literal``, strict or not."""
    if isinstance(built, BaseModel) and isinstance(data, dict):
        for name in type(built).model_fields.keys() & data.keys():
            yield from _inexact(getattr(built, name), data[name], (*path, name))
    elif isinstance(built, dict) and isinstance(data, dict):
        for name in built.keys() & data.keys():
            yield from _inexact(built[name], data[name], (*path, name))
    elif isinstance(built, tuple) and isinstance(data, list | tuple):
        for index, (one, other) in enumerate(zip(built, data, strict=False)):
            if not isinstance(one, int | str):
                yield from _inexact(one, other, (*path, index))
    elif type(built) is int and isinstance(data, bool | float):
        yield path, data


def freeze(data: Any) -> Any:
    """Lists as tuples, as frozen models hold them."""
    if isinstance(data, dict):
        return {name: freeze(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return tuple(freeze(item) for item in data)
    return data


def show(value: Any) -> str:
    """A value as it stands in a message, short."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        text = "[" + ", ".join(show(item) for item in value) + "]"
        return text if len(text) <= 60 else f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= 60 else text[:56] + "..." + text[0]


def _translate(
    model: type[BaseModel], data: Any, positions: Positions, beside: tuple[str, ...], error: ValidationError
) -> ConfigError:
    faults: dict[FieldPath, list[dict[str, Any]]] = {}
    for fault in error.errors(include_url=False):
        path = _path_in_data(fault["loc"], data, missing=fault["type"] == "missing")
        faults.setdefault(path, []).append(dict(fault))
    deepest = [path for path in faults if not any(path == other[: len(path)] for other in faults if other != path)]
    path = min(deepest, key=lambda path: all(fault["type"] != "extra_forbidden" for fault in faults[path]))
    where, problem = _describe(model, data, path, faults[path], beside if len(path) == 1 else ())
    absent = faults[path][0]["type"] in ("missing", "union_tag_not_found") and where[: len(path)] == path
    return positions.error(where, problem, missing=absent)


def _path_in_data(loc: tuple[str | int, ...], data: Any, *, missing: bool) -> FieldPath:
    """Pydantic's location without the names of union branches."""
    path: list[str | int] = []
    for index, step in enumerate(loc):
        if has(data, step):
            data = data[step]
        elif not (missing and index == len(loc) - 1):
            continue
        path.append(step)
    return tuple(path)


def _describe(
    model: type[BaseModel], root: Any, path: FieldPath, faults: list[dict[str, Any]], beside: tuple[str, ...]
) -> tuple[FieldPath, str]:
    fault = faults[0]
    kind, context, value = fault["type"], fault.get("ctx", {}), fault["input"]
    if kind == "extra_forbidden":
        known = [*fields.names(*_annotation(model, root, path[:-1])), *beside]
        return path, f"expected one of {', '.join(known)}, not {path[-1]!r}{did_you_mean(str(path[-1]), known)}"
    if kind == "missing" and isinstance(path[-1], int):
        length = len(get_args(_annotation(model, root, path[:-1])[0]))
        return path[:-1], f"expected {length or f'more than {path[-1]}'} items, not {path[-1]}"
    if kind == "missing":
        return path, _missing(_annotation(model, root, path)[0])
    if kind == "union_tag_not_found":
        tag = context["discriminator"].strip("'")
        return (*path, tag), f"expected {_one_of(_tags(model, root, path, tag))}, but it is missing"
    if kind == "union_tag_invalid":
        tag, known = context["discriminator"].strip("'"), _tags(model, root, path, context["discriminator"].strip("'"))
        found = show(value[tag]) if has(value, tag) else repr(context["tag"])
        return (*path, tag), f"expected {_one_of(known)}, not {found}{did_you_mean(context['tag'], known)}"
    if kind == "too_long":
        return path, f"expected at most {context['max_length']} items, not {context['actual_length']}"
    if kind == "too_short":
        return path, f"expected at least {context['min_length']} items, not {context['actual_length']}"
    if kind == "string_too_short":
        return path, f"expected text of at least {context['min_length']} characters, not {show(value)}"
    if kind in ("value_error", "assertion_error"):
        return _raised(path, str(context.get("error", fault["msg"])), value)
    wanted = list(dict.fromkeys(_expected(each) for each in faults))
    near = did_you_mean(value, _choices(faults)) if isinstance(value, str) else ""
    return path, f"expected {' or '.join(wanted)}, not {show(value)}{near}"


def _expected(fault: dict[str, Any]) -> str:
    kind, context = fault["type"], fault.get("ctx", {})
    if kind == "literal_error":
        return str(context["expected"]).replace("'", "")
    if kind in _LIMITS:
        text, name = _LIMITS[kind]
        return f"{text} {_limit(context[name])}"
    if kind in _EXPECTED:
        return _EXPECTED[kind]
    if kind in ("value_error", "assertion_error"):
        return "a number"
    message = str(fault["msg"]).removeprefix("Input should be ")
    return message[:1].lower() + message[1:]


def _limit(value: float) -> int | float:
    """0 rather than 0.0; a large float stays one."""
    return int(value) if abs(value) < 1e15 and value == int(value) else value


def _raised(path: FieldPath, text: str, value: Any) -> tuple[FieldPath, str]:
    """A validator's own message; ``field: problem`` names a field below the model it checks."""
    text = " ".join(text.split())
    if text.startswith("Invalid literal for Fraction"):
        return path, f"expected a number, not {show(value)}"
    named = _NAMED.match(text)
    if named and isinstance(value, dict) and named[1].split(".")[0] in value:
        return (*path, *named[1].split(".")), named[2]
    return path, text


def _missing(annotation: Any) -> str:
    kinds = list(fields.branches(annotation)) if annotation is not None else []
    what = {int: "an integer", float: "a number", str: "text", bool: "true or false"}
    texts = list(dict.fromkeys(what[kind] for kind in kinds if kind in what))
    return f"expected {' or '.join(texts) or 'a value'}, but it is missing"


def _choices(faults: list[dict[str, Any]]) -> list[str]:
    texts = [str(fault["ctx"]["expected"]) for fault in faults if fault["type"] == "literal_error"]
    return [name for text in texts for name in re.findall(r"'([^']*)'", text)]


def _one_of(known: list[str]) -> str:
    return f"one of {', '.join(known)}" if len(known) > 1 else " ".join(known) or "a known name"


def _tags(model: type[BaseModel], root: Any, path: FieldPath, tag: str) -> list[str]:
    return fields.tag_values(_annotation(model, root, path)[0], tag)


def _annotation(model: type[BaseModel], data: Any, path: FieldPath) -> tuple[Any, Any]:
    """Annotation and data at a path."""
    annotation: Any = model
    for step in path:
        annotation = fields.child(annotation, step, data)
        if annotation is None:
            return None, None
        data = data[step] if has(data, step) else None
    return annotation, data
