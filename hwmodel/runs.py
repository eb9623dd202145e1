"""Run folders: writing one whole, and getting a result back from one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from hwmodel import __version__
from hwmodel.config.resources import RESOLVED, normal
from hwmodel.config.runfolder import written_aside
from hwmodel.errors import InputError
from hwmodel.result import SCHEMA_VERSION, Expectation, Result
from hwmodel.writers import DEFAULT, WRITERS

if TYPE_CHECKING:
    from hwmodel.scenario import Scenario

SUMMARY: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "arch": (str,),
    "cycles": (int, NoneType),
    "time_us": (int, float, NoneType),
    "values": (dict,),
    "expect": (dict,),
    "hazards": (list,),
    "units": (dict,),
    "traffic": (dict,),
    "work": (dict,),
    "tiling": (dict,),
}
"""What ``result.json`` holds, as far as it is read again."""


def save(result: Result, folder: Path, write: tuple[str, ...] | None = None) -> Path:
    """Write ``scenario.resolved.yaml`` and what the named writers make of ``result``; the folder appears whole.

    ``write`` None stands for the default writers; those that this result has nothing for are passed over.
    """
    if result.scenario is None:
        raise InputError(f"{folder}: this result has no scenario, so there is no run to save")
    names = DEFAULT if write is None else write
    with written_aside(folder) as aside:
        text = result.scenario.resolved(normal(folder))
        (aside / RESOLVED).write_text(text, encoding="utf-8", newline="\n")
        for name in names:
            if not WRITERS[name].missing(result):
                WRITERS[name].write(result, aside / WRITERS[name].filename)
    return folder


def read_summary(folder: Path) -> dict[str, object]:
    """``result.json`` of a run folder; InputError where it is missing, cut short or of another version."""
    path = folder / "result.json"
    try:
        if not path.is_file():  # a pipe would be waited for
            raise FileNotFoundError
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"{folder}: incomplete run folder: result.json is missing") from None
    except (ValueError, RecursionError):
        raise InputError(f"{folder}: incomplete run folder: result.json is not whole") from None
    found = document.get("schema_version") if isinstance(document, dict) else None
    if found != SCHEMA_VERSION or isinstance(found, bool):
        raise InputError(f"{path}: expected schema_version {SCHEMA_VERSION}, not {found}")
    for name, kinds in SUMMARY.items():
        if name not in document:
            raise InputError(f"{folder}: incomplete run folder: result.json has no {name}")
        if not isinstance(document[name], kinds) or isinstance(document[name], bool):
            raise InputError(f"{path}: {name}: not what a run writes there")
    _check_output(folder, document["values"].get("sha256"))
    return dict(document)


def _check_output(folder: Path, sha256: object) -> None:
    """InputError where the output that lies there is not the one that ``result.json`` is of."""
    path = folder / WRITERS["out"].filename
    if sha256 is None or not path.is_file():
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise InputError(
            f"{folder}: incomplete run folder: {path.name} is cut short or changed, its sha256 is another one"
        )


def lacking(folder: Path) -> str:
    """What a run folder does not hold, though it can be simulated again; empty where all is there."""
    if not (folder / "result.json").is_file():
        return f"no result.json in {folder}: simulated again, and compared with nothing"
    if not (folder / WRITERS["trace"].filename).is_file():
        return f"no trace in {folder}: its timing was simulated again, and the cycles are those of result.json"
    return ""


def load_scenario(folder: Path, summary: dict[str, object] | None) -> Scenario:
    """The scenario of a run folder. InputError where it is not the one that ``summary`` (``result.json``) is of.

    Another version gives the same scenario another hash, so runs of others are not judged.
    """
    from hwmodel.scenario import load

    scenario = load(folder / RESOLVED)
    made_by = (summary or {}).get("provenance")
    said = (summary or {}).get("scenario_hash")
    ours = isinstance(made_by, dict) and made_by.get("hwmodel") == __version__
    if ours and said is not None and said != scenario.hash():
        raise InputError(
            f"{folder}: result.json is of another scenario: {RESOLVED}, or a file that it reads, has changed since the "
            "run; run it again"
        )
    return scenario


def load_folder(folder: Path) -> Result:
    """The result of an earlier run, with its trace: simulated again from ``scenario.resolved.yaml``.

    The same version gives the same result. Where ``result.json`` is there, its cycles must come out again.
    """
    from hwmodel.experiment import simulate

    if not (folder / RESOLVED).is_file():
        raise InputError(f"{folder}: incomplete run folder: {RESOLVED} is missing")
    summary = read_summary(folder) if (folder / "result.json").exists() else None
    values = summary.get("values") if summary else None
    skipped = isinstance(values, dict) and values.get("status") == "skipped"
    result = simulate(load_scenario(folder, summary), values="skip" if skipped else "check")
    if summary is not None and summary.get("cycles") != result.cycles:
        raise InputError(
            f"{folder}: the run had {summary.get('cycles')} cycles, this version gives {result.cycles}; run it again"
        )
    return result


def as_it_was(result: Result, summary: dict[str, Any]) -> Result:
    """A result simulated without values, with what needs more than its timing taken from ``result.json`` of the run.

    That is what it says about values, hazards and expectations.
    """
    said, expected = summary.get("values") or {}, summary.get("expect") or {}
    kept = {name: said[name] for name in ("status", "order", "elements", "mismatches", "sha256") if name in said}
    return replace(
        result,
        values=replace(result.values, **kept, first=said.get("first_mismatch") or ""),
        expect=Expectation(expected.get("status") != "none", tuple(expected.get("failures", ()))),
        hazards=tuple(summary.get("hazards", ())),
        hazards_checked=bool(summary.get("hazards_checked")),
        trace_level=str(summary.get("trace", result.trace_level)),
    )
