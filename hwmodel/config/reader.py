"""Strict YAML: plain data and the line of every field, or one clear error.

PyYAML reads YAML 1.1, where ``1e3`` is text, ``off`` is false, ``010`` is 8, ``1:30`` is 90 and the last of two equal
keys wins. Here its C parser only builds the nodes; scalars are read by the core schema of YAML 1.2, and a key that
comes twice is an error. Keys are always text. There are no dates and no merge keys.
"""

from __future__ import annotations

import gc
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hwmodel.config.paths import FieldPath, format_path
from hwmodel.errors import ConfigError

Lines = dict[str | int, "tuple[int, Lines | None]"]
"""Line of each key or list item, with the lines of what is below it."""

MAX_NODES = 5_000_000
_PLAIN = "!plain"
_CORE = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + word: float("inf") for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **{"-" + word: float("-inf") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_NUMBER_STARTS = frozenset("0123456789+-.")


@dataclass(frozen=True)
class Document:
    """A file that was read: its data, the name it goes by in messages, and the lines of its fields."""

    data: Any
    file: str
    lines: Lines | None = None
    first_line: int = 1

    def line(self, path: FieldPath) -> int | None:
        """Line of the field at exactly this path; None where the file has no such field."""
        line, below = self.first_line, self.lines
        for step in path:
            if below is None or step not in below:
                return None
            line, below = below[step]
        return line


def read_file(path: Path, shown: str | None = None) -> Document:
    """Read a file; ``shown`` is its name in messages. ConfigError where it is missing or no strict YAML."""
    name = str(path) if shown is None else shown
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(name, "", "expected a file, but there is none of that name") from None
    except IsADirectoryError:
        raise ConfigError(name, "", "expected a file, not a folder") from None
    except OSError as error:
        raise ConfigError(name, "", f"expected a readable file, but {error.strerror or error}") from None
    return read_text(text, name)


def read_text(text: str | bytes, file: str) -> Document:
    """Read YAML text. ConfigError names ``file`` and the line."""
    collects = gc.isenabled()
    gc.disable()  # nodes and data are many objects that stay: three times faster without looking for garbage
    try:
        return _read(text, file)
    finally:
        if collects:
            gc.enable()


def _read(text: str | bytes, file: str) -> Document:
    import yaml

    try:
        root = yaml.compose(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigError(f"{file}:{mark.line + 1}" if mark else file, "", _syntax(error)) from None
    except yaml.YAMLError as error:
        raise ConfigError(file, "", f"expected YAML text, but {_one_line(getattr(error, 'reason', error))}") from None
    except (RecursionError, UnicodeError) as error:
        problem = "it is nested too deeply" if isinstance(error, RecursionError) else "it is not UTF-8"
        raise ConfigError(file, "", f"expected YAML text, but {problem}") from None
    if root is None:
        return Document(None, file)
    try:
        data, lines = _Builder(file).build(root)
    except RecursionError:
        raise ConfigError(file, "", "expected YAML text, but it is nested too deeply") from None
    return Document(data, file, lines, root.start_mark.line + 1)


def scalar(text: str) -> Any:
    """Value of an unquoted scalar by the core schema of YAML 1.2."""
    if text[:1] in _NUMBER_STARTS:
        if _INTEGER.fullmatch(text):
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        if _FLOAT.fullmatch(text):
            return float(text)
    return _WORDS.get(text, text)


@cache
def _loader() -> Any:
    """Loader without YAML 1.1's guesses: every unquoted scalar gets one tag of ours, explicit tags stay."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class PlainLoader(base):  # type: ignore[misc]
        count = 0

        def resolve(self, kind: type, _: str | None, implicit: Any) -> str:
            self.count += 1
            if self.count > MAX_NODES:
                raise yaml.YAMLError(f"it has more than {MAX_NODES:,} values")
            if kind is yaml.ScalarNode:
                return _PLAIN if implicit[0] else _CORE + "str"
            return _CORE + ("map" if kind is yaml.MappingNode else "seq")

        def descend_resolver(self, parent: Any, index: Any) -> None:
            """No tags by path."""

        def ascend_resolver(self) -> None:
            """No tags by path."""

    return PlainLoader


class _Builder:
    """Turns nodes into data. An alias is built again at each use, so the nodes are counted."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.count = 0
        self.open: set[int] = set()
        self.path: list[str | int] = []

    def build(self, node: Any) -> tuple[Any, Lines | None]:
        self.count += 1
        if self.count > MAX_NODES:
            raise self.error(node, f"expected at most {MAX_NODES:,} values, aliases included")
        kind = node.id
        if kind == "scalar":
            return self.scalar(node), None
        if id(node) in self.open:
            raise self.error(node, "expected a value, not an alias of what it is part of")
        self.open.add(id(node))
        built = self.mapping(node) if kind == "mapping" else self.sequence(node)
        self.open.discard(id(node))
        return built

    def mapping(self, node: Any) -> tuple[dict[str, Any], Lines]:
        self.expect_tag(node, "map")
        data: dict[str, Any] = {}
        lines: Lines = {}
        for key, value in node.value:
            if key.id != "scalar":
                raise self.error(key, f"expected a name as key, not a {key.id}")
            name = key.value
            self.path.append(name)
            if name in data:
                raise self.error(key, f"expected each key once, not again (first in line {lines[name][0]})")
            data[name], below = self.build(value)
            lines[name] = key.start_mark.line + 1, below
            self.path.pop()
        return data, lines

    def sequence(self, node: Any) -> tuple[list[Any], Lines]:
        self.expect_tag(node, "seq")
        data = []
        lines: Lines = {}
        for index, item in enumerate(node.value):
            self.path.append(index)
            value, below = self.build(item)
            data.append(value)
            lines[index] = item.start_mark.line + 1, below
            self.path.pop()
        return data, lines

    def scalar(self, node: Any) -> Any:
        text: str = node.value
        tag = node.tag
        if tag in (_CORE + "str", "!"):
            return text
        try:
            value = scalar(text)
        except ValueError:  # thousands of digits
            raise self.error(node, f"expected a number, not one of {len(text)} digits") from None
        if tag == _PLAIN:
            return value
        wanted: Any = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}.get(tag[len(_CORE) :])
        if wanted is None:
            raise self.error(node, f"expected plain data, not the tag {tag}")
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise self.error(node, f"expected what the tag {tag} says, not {text!r}")
        return float(value) if tag == _CORE + "float" else value

    def expect_tag(self, node: Any, name: str) -> None:
        if node.tag != _CORE + name:
            raise self.error(node, f"expected plain data, not the tag {node.tag}")

    def error(self, node: Any, problem: str) -> ConfigError:
        return ConfigError(f"{self.file}:{node.start_mark.line + 1}", format_path(tuple(self.path)), problem)


def _syntax(error: Any) -> str:
    context = f" {_one_line(error.context)}" if error.context else ""
    return f"expected YAML text, but {_one_line(error.problem).removeprefix('but ')}{context}"


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
