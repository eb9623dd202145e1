"""The folder of a study: where it goes, and that nothing else is overwritten."""

from __future__ import annotations

from pathlib import Path

from hwmodel.config.resources import shown_path
from hwmodel.errors import InputError
from hwmodel.placing import ASIDE
from hwmodel.study.journal import NAME

RUNS = Path("reports") / "runs"


def study_folder(out: Path | None, name: str) -> Path:
    """``out``, or a folder of that name under ``reports/runs``. Raises InputError for one that holds something else."""
    folder = out if out is not None else RUNS / name
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{shown_path(folder)}: expected a folder, not a file")
    if folder.is_dir() and not (folder / NAME).exists():
        others = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(ASIDE))
        if others:
            problem = f"expected a new folder, an empty one or an earlier study, not one that holds {others[0]}"
            raise InputError(f"{shown_path(folder)}: {problem}")
    return folder
