"""Plain data as YAML text that YAML 1.1 and 1.2 readers understand alike, ours included."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

WIDTH = 110
"""A mapping or list that fits a line of this width and holds only scalars stands on one line."""

_SAFE = re.compile(r"(?:\.{1,2}/)*[A-Za-z_][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./(-][A-Za-z0-9_./()-]*)*")
_WORDS = frozenset(["null", "true", "false", "yes", "no", "on", "off"])
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def dump(data: dict[str, Any]) -> str:
    """YAML text of a mapping, block style, short leaves in flow style."""
    return "".join(line + "\n" for line in _mapping(data, ""))


def _mapping(data: dict[str, Any], indent: str) -> Iterator[str]:
    for name, value in data.items():
        yield from _entry(f"{indent}{_text(name)}:", value, indent)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    flow = _flow(value)
    if len(head) + 1 + len(flow) <= WIDTH and _is_shallow(value):
        yield f"{head} {flow}"
    elif isinstance(value, dict):
        yield head
        yield from _mapping(value, indent + "  ")
    elif isinstance(value, list | tuple):
        yield head
        for item in value:
            yield from _item(item, indent) if isinstance(item, dict) else _entry(f"{indent}  -", item, indent + "  ")
    else:
        yield f"{head} {flow}"


def _item(item: dict[str, Any], indent: str) -> Iterator[str]:
    flow = f"{indent}  - {_flow(item)}"
    if len(flow) <= WIDTH or not item:
        yield flow
        return
    lines = list(_mapping(item, indent + "    "))
    yield f"{indent}  - {lines[0].lstrip()}"
    yield from lines[1:]


def _is_shallow(value: Any) -> bool:
    """True for scalars and for what holds only scalars, a level or two deep."""
    if isinstance(value, dict):
        return len(value) <= 4 and not any(isinstance(item, dict | list | tuple) and item for item in value.values())
    if isinstance(value, list | tuple):
        return not any(isinstance(item, dict | list | tuple) for item in value)
    return True


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(name)}: {_flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    return _text(str(value))


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    mantissa, e, exponent = repr(value).partition("e")
    if not e:
        return mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent if exponent[0] in '+-' else '+' + exponent}"


def _text(text: str) -> str:
    """Plain where every reader takes it for text, else in double quotes."""
    if _SAFE.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return '"' + "".join(_character(character) for character in text) + '"'


def _character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    if character.isprintable():
        return character
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
