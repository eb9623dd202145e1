"""Files appear whole: written aside in the folder where they go, then renamed into place.

What the name leads to decides how. A link stays a link and the file behind it is replaced; a device or a pipe
(``/dev/null``, ``/dev/stdout``, a named pipe) is never replaced, it gets the bytes.

What a killed process leaves aside is removed by the next one that writes into the same folder. A process locks the
folder it writes aside, and the system takes the lock away when the process is gone, however it ends.
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hwmodel.errors import InputError

try:
    import fcntl
except ImportError:  # not on Windows: what is left there stays
    fcntl = None  # type: ignore[assignment]

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
    with new_folder_in(Path(tempfile.gettempdir()) if home is None else home) as aside:
        yield aside


_tidied: set[Path] = set()


@contextmanager
def new_folder_in(home: Path) -> Iterator[Path]:
    """A new folder in ``home`` (which is made) of a name of its own, gone at the end. Raises OSError."""
    home.mkdir(parents=True, exist_ok=True)
    if home not in _tidied:
        _tidied.add(home)
        _remove_what_was_left(home)
    lock = None
    aside = home
    try:
        while lock is None:
            aside = home / f"{_prefix()}{secrets.token_hex(6)}"
            aside.mkdir(mode=0o700)
            lock = _lock(aside)
        yield aside
    finally:
        if aside != home:
            _remove(aside)
        if lock:
            os.close(lock)


def _prefix() -> str:
    """How names begin on this computer: a lock says nothing about the processes of another one."""
    return f"{ASIDE}{zlib.crc32(platform.node().encode()):08x}-"


def _lock(folder: Path) -> int | None:
    """A lock on a new folder, to be closed; 0 where there are no locks, None where another process removes it."""
    if fcntl is None:
        return 0
    try:
        file = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder.stat().st_ino == os.fstat(file).st_ino:
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(file)
        return 0
    os.close(file)
    return None


def _remove_what_was_left(home: Path) -> None:
    """Remove what processes that are gone have left in ``home``: what can be locked is nobody's."""
    if fcntl is None:
        return
    try:
        names = [entry.name for entry in os.scandir(home) if entry.name.startswith(_prefix())]
    except OSError:
        return
    for name in names:
        try:
            file = os.open(home / name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(home / name, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(file)


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise


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
