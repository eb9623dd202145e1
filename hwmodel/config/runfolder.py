"""Run folders appear whole: written aside in the same parent, then renamed into place.

A folder may replace an earlier run and nothing else. Two processes that write the same folder both succeed; the last
one stays. What is written aside has a name that begins with a dot and is removed when the writer fails or is
interrupted.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from hwmodel.config.resources import RESOLVED, shown_path
from hwmodel.errors import InputError
from hwmodel.placing import ASIDE, new_folder_in

MARKER = RESOLVED
"""Every run folder has this file."""
SUMMARY = "result.json"
OF_A_RUN = re.compile(
    r"scenario\.resolved\.yaml|result\.json|out(\..*)?\.(bin|npy)|trace\.perfetto\.json|timeline\.(png|svg)"
    r"|spans\.csv|report\.md|explain\.html|roofline\.png"
)
"""Files that a run or ``hwmodel export`` puts into a run folder; anything else in one is somebody's own."""
ATTEMPTS = 1000
LOOKS, LOOK_SECONDS = 5, 0.02


def is_run(path: Path) -> bool:
    """True for a folder that holds a run. InputError for one that did, and has lost its scenario."""
    try:
        if (path / MARKER).is_file():
            return True
        remains = (path / SUMMARY).is_file()
    except OSError:  # a name that no file can have
        return False
    if remains:
        raise InputError(f"{path}: incomplete run folder: {MARKER} is missing")
    return False


def check_replaceable(path: Path) -> None:
    """InputError for a path that is no folder, or one that holds something other than an earlier run.

    That is also a file or folder beside an earlier run, which would be lost with it.
    """
    _refuse_file(path)
    for _ in range(LOOKS):
        entries = _entries(path)
        own = [entry for entry in entries if not OF_A_RUN.fullmatch(entry.name) or entry.is_dir()]
        if not entries or (MARKER in {entry.name for entry in entries} and not own):
            return
        time.sleep(LOOK_SECONDS)  # unless another process was about to replace it
    _refuse(path, (own or entries)[0])


def check_parent(path: Path) -> None:
    """InputError for a folder for several runs that holds something else."""
    _refuse_file(path)
    for entry in _entries(path):
        if not is_run(entry):
            _refuse(path, entry)


def check_writable(path: Path) -> None:
    """InputError where a run folder cannot be made at ``path``. Makes the folders above it."""
    with _cannot_write(path), new_folder_in(_home(_real(path))):
        pass


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """A new folder to write into; at the end of the block it becomes ``path``, on any error it is removed.

    Raises InputError where it cannot be written, or where ``path`` holds something other than an earlier run.
    """
    check_replaceable(path)
    target = _real(path)
    home = _home(target)
    with _cannot_write(path), new_folder_in(home) as aside:
        yield aside
        aside.chmod(0o777 & ~_umask())
        if home == target:
            _fill(aside, target)
        else:
            _rename(aside, target)


def _rename(aside: Path, target: Path) -> None:
    """Put ``aside`` in the place of ``target``, which another process may be replacing at the same time."""
    for _ in range(ATTEMPTS):
        try:
            os.rename(aside, target)  # noqa: PTH104  replaces an empty folder, unlike Path.rename on all systems
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return
        check_replaceable(target)
        with new_folder_in(target.parent) as old, suppress(FileNotFoundError):
            os.rename(target, old)  # noqa: PTH104
    raise InputError(f"{shown_path(target)}: another process keeps replacing this folder")


def _fill(aside: Path, target: Path) -> None:
    """Where the folder itself must stay (its parent is not writable, or it is where we are): file by file."""
    fresh = sorted(aside.iterdir(), key=lambda path: path.name == MARKER)
    for entry in _entries(target):
        if entry.name not in {path.name for path in fresh}:
            entry.unlink()
    for entry in fresh:
        entry.replace(target / entry.name)


def _home(target: Path) -> Path:
    """Where to write aside: the parent, or the folder itself where that cannot be renamed."""
    if target.is_dir() and (
        target == Path.cwd().resolve() or os.path.ismount(target) or not os.access(target.parent, os.W_OK | os.X_OK)
    ):
        return target
    return target.parent


def _entries(path: Path) -> list[Path]:
    """What a folder holds, without what some process is writing aside."""
    try:
        return sorted(entry for entry in path.iterdir() if not entry.name.startswith(ASIDE))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InputError(f"{shown_path(path)}: expected a readable folder, but {error.strerror or error}") from None


def _refuse_file(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not stat.S_ISDIR(mode):
        raise InputError(f"{shown_path(path)}: expected a folder for the run, not a file")


def _refuse(path: Path, entry: Path) -> NoReturn:
    problem = f"expected a new folder, an empty one or an earlier run, not one that holds {entry.name}"
    raise InputError(f"{shown_path(path)}: {problem}")


@contextmanager
def _cannot_write(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{shown_path(path)}: cannot write the run folder ({error.strerror or error})") from None


def _real(path: Path) -> Path:
    """Absolute path with links followed: a link to a folder stays a link."""
    return path.resolve()


def _umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value
