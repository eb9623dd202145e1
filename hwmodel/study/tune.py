"""The best tiling of a scenario: candidates in the order of their lower bounds, until none can beat the best found.

Nothing that could be best is left out: a candidate is not simulated only if a proven lower bound says that it takes
more cycles than one that was. Candidates run in batches of a fixed size, so the same ones are simulated however many
jobs there are. Where too many candidates remain to be gone through, they are sampled (optuna), and what is left open is
said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from hwmodel.config.dump import dump
from hwmodel.config.overrides import Override
from hwmodel.config.reader import read_text
from hwmodel.errors import InputError
from hwmodel.result import Values
from hwmodel.scenario import Scenario
from hwmodel.study.journal import Journal
from hwmodel.study.measure import ValueMode
from hwmodel.study.points import Template
from hwmodel.study.pool import Workers
from hwmodel.study.search import Progress, State, by_bounds, climb, sample, seeds
from hwmodel.study.spaces import BlockedSpace, Candidate, space_of
from hwmodel.study.table import Row, best_first, data_frame
from hwmodel.tiling import TILINGS

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

Search = Literal["auto", "bounds", "optuna"]
ENUMERABLE = 3_000
"""Candidates that may be left to simulate for the search to be done by bounds; more are sampled."""
TRIALS = 300
SEED = 0
_FIRST = ("cycles", "vs_best", "bound_cycles", "time_us", "bound", "tflops", "peak_fraction", "cores")


@dataclass(frozen=True)
class Tuned:
    """A search: ``rows`` best first, one for each tiling that was simulated."""

    name: str
    rows: tuple[Row, ...]
    candidates: dict[str, Candidate]
    """By the text that stands under ``tiling`` in the rows."""
    method: str
    """``bounds`` or ``optuna``."""
    open_bound: int | None
    """Least cycles that a candidate which was not simulated could take; None where the best is proven."""
    considered: int
    """Candidates whose bound was worked out, or that belong to a family whose bound was."""
    best_scenario: Scenario
    kinds: tuple[str, ...]
    """Kinds of tiling that the space has."""

    @property
    def best(self) -> Row:
        """The best tiling."""
        return self.rows[0]

    @property
    def not_searched(self) -> list[str]:
        """Kinds of tiling of this machine that the space does not have."""
        family = self.best_scenario.arch.spec.family
        every = [name for name, kind in TILINGS.items() if kind.family == family and name != "auto"]
        return [name for name in every if name not in self.kinds]

    @property
    def proven(self) -> bool:
        """Whether no candidate of the space can be better."""
        return self.open_bound is None or self.open_bound >= self.best["cycles"]

    @cached_property
    def columns(self) -> list[str]:
        """Columns of the table."""
        settings = [name for name in self.rows[0] if name.startswith("tiling.")]
        own = {name for row in self.rows for name in row if name.endswith(("_utilization", "_bytes"))}
        middle = sorted(own, key=lambda name: (name.endswith("_bytes"), name))
        return [*_settings(self.rows), *_FIRST, *middle] if settings else [*_FIRST, *middle]

    def table(self) -> pl.DataFrame:
        """The rows as a typed polars table."""
        return data_frame(self.rows, self.columns, _settings(self.rows))

    def document(self) -> dict[str, Any]:
        """For ``tune.json`` and ``--json``."""
        return {
            "schema_version": 1,
            "name": self.name,
            "method": self.method,
            "simulated": len(self.rows),
            "candidates": self.considered,
            "kinds": list(self.kinds),
            "proven": self.proven,
            "open_bound_cycles": None if self.proven else self.open_bound,
            "best": self.best,
            "runner_up": self.rows[1] if len(self.rows) > 1 else None,
            "rows": [{name: row.get(name) for name in self.columns} for row in self.rows],
        }


def _settings(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row if name.startswith("tiling.")))


def tune(
    scenario: Scenario,
    *,
    max_cores: int | None = None,
    search: Search = "auto",
    trials: int | None = None,
    seed: int = SEED,
    workers: Workers = Workers(),  # noqa: B008  frozen
    journal: Journal | None = None,
    progress: Progress = lambda _done, _best, _open: None,
) -> Tuned:
    """Search. ``trials`` is the most to simulate in all (default: to the proof, or 300 samples).

    The scenario's own tiling and that of ``auto`` come first, then neighbours of the best, half of all at most.

    Raises:
        InputError: nothing fits the machine, or optuna is needed and not installed.
    """
    template = Template.of(scenario)
    scenario = template.scenario()
    space = space_of(scenario, max_cores=max_cores)
    state = State(scenario, space, workers, journal, progress)

    def left() -> int | None:
        return None if trials is None else max(0, trials - state.simulated)

    state.run(seeds(scenario, space)[:trials])
    if isinstance(space, BlockedSpace):
        most = (trials or TRIALS) // 2
        climb(state, space, most if trials is None else min(most, left() or 0))
    enumerable = ENUMERABLE if search == "auto" and trials is None else None
    found = None if search == "optuna" else by_bounds(state, left(), enumerable)
    if found is None:
        samples = left()
        return _tuned(state, "optuna", sample(state, TRIALS if samples is None else samples, seed))
    return _tuned(state, "bounds", None if found < 0 else found)


def _tuned(state: State, method: str, open_bound: int | None) -> Tuned:
    rows: list[Row] = []
    candidates: dict[str, Candidate] = {}
    for key, (candidate, bound, record) in state.records.items():
        if record.cycles is None:
            continue
        candidates[key] = candidate
        flat = {f"tiling.{name}": value for name, value in _flat(candidate).items()}
        rows.append({**flat, **record.columns, "bound_cycles": bound or None, "problem": None, "_key": key})
        if "gm_read_bytes" in rows[-1]:
            rows[-1]["gm_bytes"] = rows[-1]["gm_read_bytes"] + rows[-1]["gm_write_bytes"]
    if not rows:
        problems = [record.problem for _, _, record in state.records.values() if record.problem]
        why = f"; the first that was tried: {problems[0]}" if problems else ""
        raise InputError(f"tiling: no tiling of this kind fits {state.scenario.arch.name}{why}")
    settings = _settings(rows)
    rows = best_first([{**dict.fromkeys(settings), **row} for row in rows], settings)
    best_key = str(rows[0]["_key"])
    least = rows[0]["cycles"]
    for row in rows:
        row["vs_best"] = row["cycles"] / least
        del row["_key"]
    scenario = Template.of(state.scenario).scenario(Override(("tiling",), candidates[best_key]))
    return Tuned(
        state.scenario.name,
        tuple(rows),
        candidates,
        method,
        open_bound,
        state.considered,
        scenario,
        state.space.kinds(),
    )


def _flat(candidate: Candidate) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in candidate.items():
        if isinstance(value, dict):
            found.update({f"{name}.{part}": size for part, size in value.items()})
        else:
            found[name] = value
    return found


def best_file(tuned: Tuned, template: Template, expect: dict[str, Any], folder: Path) -> str:
    """Text of ``best.yaml``: the scenario with its best tiling and the cycles to expect, to be put into ``folder``."""
    data = read_text(tuned.best_scenario.resolved(folder), "best.yaml").data
    reference = template.document.data.get("arch") if isinstance(template.document.data, dict) else None
    changed = any(override.path[0] == "arch" for override in template.overrides)
    if isinstance(reference, str) and not changed and reference.isidentifier():
        data["arch"] = reference
    data["name"] = f"{tuned.name}_best"
    data["expect"] = {**expect, "cycles": tuned.best["cycles"]}
    return dump(data)


def check_best(tuned: Tuned, values: ValueMode = "skip") -> tuple[tuple[str, ...], Values | None]:
    """Hazards of the best tiling (none, or the search is wrong), and with ``values="check"`` what its bits are."""
    from hwmodel.experiment import FULL_LIMIT, prepare, run

    ready = prepare(tuned.best_scenario)
    small = ready.program is not None and ready.program.count <= FULL_LIMIT
    hazards = tuple(str(hazard) for hazard in ready.hazards()) if small else ()
    return hazards, run(ready).values if values == "check" else None


__all__ = ["Tuned", "best_file", "check_best", "tune"]
