"""The files that a scenario names: where they lie, and what they hold."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hwmodel.config.paths import FieldPath
from hwmodel.config.positions import Positions
from hwmodel.config.resources import normal

FILE_FIELDS: tuple[FieldPath, ...] = (
    ("inputs", "a", "path"),
    ("inputs", "a", "data"),
    ("inputs", "a", "scales"),
    ("inputs", "b", "path"),
    ("inputs", "b", "data"),
    ("inputs", "b", "scales"),
    ("expect", "out", "path"),
    ("expect", "scales", "path"),
)


def file_names(data: dict[str, Any]) -> list[tuple[FieldPath, str]]:
    """Every file name in the data of a scenario, with its field."""
    fields = (*FILE_FIELDS, *_of_program(data.get("program")))
    return [(path, name) for path in fields for name in _names_at(data, path)]


def _of_program(program: Any) -> Iterator[FieldPath]:
    """Files that hold the contents of a program's tensors."""
    tensors = program.get("tensors") if isinstance(program, dict) else None
    for tensor in tensors if isinstance(tensors, dict) else ():
        for name in ("path", "data"):
            yield ("program", "tensors", tensor, "init", name)


def with_names(data: dict[str, Any], rename: Callable[[FieldPath, str], str]) -> dict[str, Any]:
    """A copy of ``data`` with every file name replaced."""
    for path, name in file_names(data):
        data = _with(data, path, rename(path, name))
    return data


def made_absolute(data: dict[str, Any], base: Path, positions: Positions) -> dict[str, Any]:
    """``data`` with absolute file names: relative to ``base``, those of ``--set`` first to the current folder."""

    def absolute(path: FieldPath, name: str) -> str:
        here = positions.is_set(path) and (Path.cwd() / name).exists()
        return str(normal((Path.cwd() if here else base) / name))

    return with_names(data, absolute)


def made_relative(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """``data`` with file names relative to ``folder``."""

    def relative(_: FieldPath, name: str) -> str:
        try:
            return Path(os.path.relpath(name, folder)).as_posix()
        except ValueError:  # another drive
            return name

    return with_names(data, relative)


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes. Raises OSError."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def _names_at(data: Any, path: FieldPath) -> Iterator[str]:
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    if isinstance(data, str) and data:
        yield data


def _with(data: dict[str, Any], path: FieldPath, value: str) -> dict[str, Any]:
    step = str(path[0])
    return {**data, step: value if len(path) == 1 else _with(data[step], path[1:], value)}
