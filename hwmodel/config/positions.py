"""Where each field of merged data came from: a file and line, or the ``--set`` that replaced it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from hwmodel.config.paths import FieldPath, format_path
from hwmodel.config.reader import Document
from hwmodel.errors import ConfigError

SET = "--set "


class Layer(Protocol):
    """One source of merged data; later layers win over earlier ones."""

    def locate(self, path: FieldPath) -> str | None:
        """``file:line`` or ``--set PATH`` of the field at exactly this path; None where this layer has no such."""

    def name(self, path: FieldPath) -> str:
        """The field as somebody who edits this source knows it."""


@dataclass(frozen=True)
class FileLayer:
    """A file."""

    document: Document

    def locate(self, path: FieldPath) -> str | None:
        """``file:line`` of a field."""
        line = self.document.line(path)
        return None if line is None else f"{self.document.file}:{line}"

    def name(self, path: FieldPath) -> str:
        """Path from the root of the file."""
        return format_path(path)


@dataclass(frozen=True)
class SetLayer:
    """One override."""

    path: FieldPath
    value: Any

    def locate(self, path: FieldPath) -> str | None:
        """``--set PATH`` for the field itself and what is below it."""
        if path[: len(self.path)] != self.path or not _holds(self.value, path[len(self.path) :]):
            return None
        return SET + format_path(self.path)

    def name(self, path: FieldPath) -> str:
        """Path as the user would type it."""
        return format_path(path)


@dataclass(frozen=True)
class BelowLayer:
    """The part of another layer that lies below ``part``: a machine that stands inside a scenario."""

    layer: Layer
    part: FieldPath

    def locate(self, path: FieldPath) -> str | None:
        """Where the whole layer has the field."""
        return self.layer.locate((*self.part, *path))

    def name(self, path: FieldPath) -> str:
        """Path from the root of the whole layer."""
        return self.layer.name((*self.part, *path))


@dataclass(frozen=True)
class Positions:
    """The layers of merged data, from the lowest to the one that wins."""

    layers: tuple[Layer, ...] = ()

    def locate(self, path: FieldPath, *, missing: bool = False) -> tuple[str, str]:
        """Where a field was said (or the nearest one above it, if it is missing), and its name there."""
        for cut in range(len(path) - missing, -1, -1):
            for layer in reversed(self.layers):
                where = layer.locate(path[:cut])
                if where is not None:
                    return where, layer.name(path)
        return "", format_path(path)

    def is_set(self, path: FieldPath) -> bool:
        """True where the field comes from an override."""
        return self.locate(path)[0].startswith(SET)

    def error(self, path: FieldPath, problem: str, *, missing: bool = False) -> ConfigError:
        """The error to raise for a field; ``missing`` for one that is not in the merged data."""
        return ConfigError(*self.locate(path, missing=missing), problem)

    def over(self, *layers: Layer) -> Positions:
        """These positions with more layers on top."""
        return Positions((*self.layers, *layers))

    def below(self, part: FieldPath) -> Positions:
        """The positions of what lies below ``part``."""
        return Positions(tuple(BelowLayer(layer, part) for layer in self.layers))


NOWHERE = Positions()
"""For data that come from no file."""


def _holds(value: Any, path: FieldPath) -> bool:
    for step in path:
        if not has(value, step):
            return False
        value = value[step]
    return True


def has(value: Any, step: str | int) -> bool:
    """True where plain data have this field or item."""
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list | tuple) and isinstance(step, int) and 0 <= step < len(value)
