"""Files appear whole: written aside in the folder where they go, then renamed into place.

What the name leads to decides how. A link stays a link and the file behind it is replaced; a device or a pipe
(``/dev/null``, ``/dev/stdout``, a named pipe) is never replaced, it gets the bytes.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hwmodel.errors import InputError

ASIDE = ".hwmodel-"
"""How the names of what is being written begin."""


def is_stream(target: Path) -> bool:
    """True for a device, a pipe or a socket: what can be written to and not replaced."""
    try:
        mode = target.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


@contextmanager
def folder_aside(target: Path) -> Iterator[Path]:
    """A new folder on the file system of ``target``, gone at the end. Makes the folders above ``target``."""
    home = None if is_stream(target) else _behind(target).parent
    if home is not None:
        home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=ASIDE, dir=home, ignore_cleanup_errors=True) as aside:
        yield Path(aside)


def put(aside: Path, target: Path) -> None:
    """Make the file ``aside`` what ``target`` leads to. Raises OSError."""
    if is_stream(target):
        with aside.open("rb") as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    else:
        os.replace(aside, _behind(target))  # noqa: PTH105  replaces on all systems


def replace_file(target: Path, write: Callable[[Path], object]) -> Path:
    """Let ``write`` make a file aside, then put it in the place of ``target``. Raises InputError."""
    try:
        with folder_aside(target) as folder:
            aside = folder / (target.name or "file")
            write(aside)
            put(aside, target)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror or error})") from None
    return target


def _behind(target: Path) -> Path:
    """The file that a link leads to, also where there is none yet."""
    return target.resolve() if target.is_symlink() else target
