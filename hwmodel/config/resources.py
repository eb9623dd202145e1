"""Files that ship: machines and scenarios, from a checkout or from an installed wheel."""

from __future__ import annotations

import errno
import os
import stat
from functools import cache
from pathlib import Path

from hwmodel.errors import InputError, did_you_mean, unknown_name

PACKAGE = Path(__file__).resolve().parent.parent
RESOLVED = "scenario.resolved.yaml"


@cache
def root() -> Path:
    """Folder that holds ``configs`` and ``scenarios``: the package's data in a wheel, else the checkout."""
    data = PACKAGE / "data"
    return data if data.is_dir() else PACKAGE.parent


def shipped_archs() -> dict[str, Path]:
    """Machines that ship, by name."""
    return {path.stem: path for path in sorted((root() / "configs" / "arch").glob("*.yaml"))}


def shipped_scenarios() -> dict[str, Path]:
    """Scenarios that ship, by name: ``hif4_64x64x64``, ``silicon/a3_2048`` in a folder below."""
    folder = root() / "scenarios"
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.yaml"))}


def find_arch(name: str, base: Path) -> Path:
    """File of a machine: a path relative to ``base``, or the name of one that ships. InputError for an unknown name."""
    if looks_like_path(name):
        return base / name
    shipped = shipped_archs()
    if name not in shipped:
        raise InputError(unknown_name("arch", name, shipped))
    return shipped[name]


def find_scenario(name: str | os.PathLike[str]) -> Path:
    """File of a scenario: a path, or the name of one that ships. InputError where there is neither."""
    path, text = Path(name), os.fspath(name)
    if not text:
        raise InputError("expected a scenario, not an empty name")
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        mode = 0
        if getattr(error, "errno", None) not in (None, errno.ENOENT, errno.ENOTDIR):
            raise InputError(f"{shortened(text)}: expected a scenario file, but {_reason(error)}") from None
    if stat.S_ISREG(mode):
        return path
    if stat.S_ISDIR(mode) and text not in shipped_scenarios():
        hint = f"; the scenario of that run is {path / RESOLVED}" if (path / RESOLVED).is_file() else ""
        raise InputError(f"{text}: expected a scenario, not a folder{hint}")
    shipped = shipped_scenarios()
    short = {key.rsplit("/", 1)[-1]: key for key in shipped}
    if text in shipped or text in short:
        return shipped.get(text) or shipped[short[text]]
    if mode and not stat.S_ISDIR(mode):
        raise InputError(f"{text}: expected a scenario file, not a device or pipe")
    if looks_like_path(text):
        raise InputError(f"{text}: expected a scenario file, but there is none of that name")
    near = did_you_mean(text, shipped)
    raise InputError(f"unknown scenario {text!r}{near} ('hwmodel list scenarios' has all {len(shipped)})")


def looks_like_path(name: str) -> bool:
    """True for what can only be a path: it has a folder or a YAML suffix."""
    return "/" in name or os.sep in name or name.endswith((".yaml", ".yml"))


def shortened(text: str) -> str:
    """A name as it stands in a message, where it may be very long."""
    return text if len(text) <= 200 else f"{text[:200]}..."


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def shown_path(path: Path) -> str:
    """A path as people want to read it: relative where it lies below the current folder."""
    absolute, here = normal(path), Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)


def normal(path: Path) -> Path:
    """Absolute path without ``..``; links are not followed."""
    return Path(os.path.abspath(path))  # noqa: PTH100  resolve() would follow links
