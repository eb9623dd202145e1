"""``-o``: a file or stdout (``-``) for commands that write one file, a folder for those that write several."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from hwmodel.errors import InputError
from hwmodel.placing import folder_aside, replace_file

STDOUT = "-"


def is_stdout(target: Path | None) -> bool:
    """Whether ``-o`` says stdout."""
    return str(target) == STDOUT


def check_json(target: Path | None, *, as_json: bool) -> None:
    """InputError where both the file and the JSON document would go to stdout."""
    if as_json and is_stdout(target):
        raise InputError("--json: expected a file to write to, as stdout is taken")


def folder(out: Path | None) -> Path | None:
    """The folder that ``-o`` names; InputError for stdout, which cannot hold one. A callback of the flag."""
    if is_stdout(out):
        raise InputError("--out: expected a folder, not - (stdout); a folder of that name is ./-")
    return out


def write_file(target: Path, write: Callable[[Path], object]) -> Path | None:
    """Let ``write`` make a file, and put it at ``target``; returns where it is, None for stdout."""
    if not is_stdout(target):
        return replace_file(target, write)
    with folder_aside(Path(os.devnull)) as aside:
        write(aside / "file")
        with (aside / "file").open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    return None
