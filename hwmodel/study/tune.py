"""The best tiling of a scenario: candidates in the order of their lower bounds, until none can beat the best found.

Nothing that could be best is left out: a candidate is not simulated only if a proven lower bound says that it takes
more cycles than one that was. Candidates run in batches of a fixed size, so the same ones are simulated however many
jobs there are. Where too many candidates remain to be gone through, they are sampled (optuna), and what is left open is
said.
"""

from __future__ import annotations

import heapq
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from hwmodel.config.dump import dump
from hwmodel.config.overrides import Override
from hwmodel.config.reader import read_text
from hwmodel.errors import HwmodelError, InputError
from hwmodel.scenario import Scenario
from hwmodel.study.journal import Journal
from hwmodel.study.measure import Record, Task, measure, task_of
from hwmodel.study.points import Template
from hwmodel.study.pool import Workers, run_tasks
from hwmodel.study.spaces import BlockedSpace, Candidate, SearchSpace, space_of
from hwmodel.study.table import Row, best_first, data_frame

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

Search = Literal["auto", "bounds", "optuna"]
Progress = Callable[[int, int, int], None]
"""Called with how many were simulated, the fewest cycles so far, and the lower bound of what is open."""

BATCH = 16
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

    @property
    def best(self) -> Row:
        """The best tiling."""
        return self.rows[0]

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
            "proven": self.proven,
            "open_bound_cycles": None if self.proven else self.open_bound,
            "best": self.best,
            "runner_up": self.rows[1] if len(self.rows) > 1 else None,
            "rows": [{name: row.get(name) for name in self.columns} for row in self.rows],
        }


def _settings(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row if name.startswith("tiling.")))


@dataclass
class _State:
    """What a search knows so far."""

    scenario: Scenario
    space: SearchSpace
    workers: Workers
    journal: Journal | None
    progress: Progress
    records: dict[str, tuple[Candidate, int, Record]] = field(default_factory=dict)
    best: float = float("inf")
    considered: int = 0

    def run(self, chosen: Iterable[tuple[int, Candidate]], open_bound: int = 0) -> None:
        """Simulate candidates, each once."""
        batch: dict[str, tuple[int, Candidate]] = {}
        for bound, candidate in chosen:
            key = dump({"tiling": candidate})
            if key not in self.records:
                batch.setdefault(key, (bound, candidate))
        template = Template.of(self.scenario)
        tasks: dict[str, str] = {}

        def made() -> Iterator[Task]:
            for key, (bound, candidate) in batch.items():
                try:
                    task = task_of(template.scenario(Override(("tiling",), candidate)), "skip")
                except InputError as error:
                    self.records[key] = (candidate, bound, Record(problem=str(error), code=2))
                    continue
                if task.key in tasks:
                    self.records[key] = (candidate, bound, Record(problem="the same as another", code=2))
                    continue
                tasks[task.key] = key
                yield task

        for task, record in run_tasks(made(), self.workers, self.journal):
            key = tasks[task.key]
            bound, candidate = batch[key]
            self.records[key] = (candidate, bound, record)
            if record.cycles is not None:
                self.best = min(self.best, record.cycles)
        self.progress(len(self.records), 0 if self.best == float("inf") else int(self.best), open_bound)


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
    """Search. ``trials`` is the most to simulate (default: to the proof by bounds, 300 when sampled).

    Raises:
        InputError: nothing fits the machine, or optuna is needed and not installed.
    """
    template = Template.of(scenario)
    scenario = template.scenario()
    space = space_of(scenario, max_cores=max_cores)
    state = _State(scenario, space, workers, journal, progress)
    state.run(_seeds(scenario, space))
    most = ENUMERABLE if search == "auto" and trials is None else None
    found = None if search == "optuna" else _by_bounds(state, trials, most)
    if found is None:
        return _tuned(state, "optuna", _sample(state, trials or TRIALS, seed))
    return _tuned(state, "bounds", None if found < 0 else found)


def _seeds(scenario: Scenario, space: SearchSpace) -> list[tuple[int, Candidate]]:
    """The scenario's own tiling and the one that ``auto`` picks: good ones early leave little to do."""
    found = []
    if isinstance(space, BlockedSpace):
        from hwmodel.tiling import auto

        try:
            picked = auto.plan(
                space.problem, space.accumulate, space.arch, auto.Auto(kind="auto", max_cores=space.max_cores)
            )
            params = picked.params
            found.append(space.candidate(_choices(params)))
        except InputError:
            pass
        tiling = scenario.tiling
        if tiling.kind == "blocked" and tiling.core_grid[0] * tiling.core_grid[1] <= space.max_cores:
            found.append(space.candidate(_choices(tiling)))
    bounds = []
    for candidate in found:
        try:
            bounds.append((space.bound(candidate), candidate))
        except InputError:
            continue
    return bounds


def _choices(params: Any) -> dict[str, Any]:
    m, k, n = params.base
    return {
        "grid": params.core_grid, "m": m, "k": k, "n": n, "panel": params.panel_slices, "scales": params.scale_panels,
        **params.buffers.model_dump(), "order": params.loop_order,
    }  # fmt: skip


def _by_bounds(state: _State, trials: int | None, most: int | None) -> int | None:
    """Best-first search. Returns the bound of what is left open, -1 for nothing; None after more than ``most``."""
    space = state.space
    heap: list[tuple[int, int, int, Any]] = []
    number = itertools.count()
    for family in space.families():
        if family.bound <= state.best:
            heap.append((family.bound, 0, next(number), family))
    heapq.heapify(heap)
    batch: list[tuple[int, Candidate]] = []
    simulated = 0
    while True:
        open_bound = heap[0][0] if heap else None
        done = open_bound is None or open_bound >= state.best
        if batch and (done or len(batch) == BATCH or (trials is not None and simulated + len(batch) >= trials)):
            simulated += len(batch)
            state.run(batch, open_bound or 0)
            batch = []
            if trials is not None and simulated >= trials:
                left = heap[0][0] if heap else None
                return -1 if left is None or left >= state.best else left
            continue
        if done:
            return -1
        if most is not None and state.considered + simulated > 40 * most:
            return None
        bound, level, _, item = heapq.heappop(heap)
        if level == 0:
            for quick, candidate in space.members(item):
                state.considered += 1
                if quick < state.best:
                    heapq.heappush(heap, (quick, 1, next(number), candidate))
        elif level == 1:
            try:
                exact = max(bound, space.bound(item))
            except InputError:
                continue
            if exact < state.best:
                heapq.heappush(heap, (exact, 2, next(number), item))
        else:
            if most is not None and simulated + len(batch) >= most:
                return None
            batch.append((bound, item))


def _sample(state: _State, trials: int, seed: int) -> int:
    """Sampling by optuna, in batches that are asked for together. Returns the least bound of any family."""
    try:
        import optuna
    except ImportError:
        raise InputError("tune: expected optuna for a space this large (pip install hwmodel[tune])") from None
    from optuna.distributions import CategoricalDistribution

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    dimensions = state.space.dimensions()
    distributions: Any = {name: CategoricalDistribution(list(range(len(each)))) for name, each in dimensions.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True, multivariate=True)
    study = optuna.create_study(sampler=sampler)
    for candidate, _, record in list(state.records.values()):
        choices = _find(state.space, dimensions, candidate)
        if choices is not None and record.cycles is not None:
            study.add_trial(
                optuna.trial.create_trial(params=choices, distributions=distributions, value=float(record.cycles))
            )
    simulated = asked = 0
    while simulated < trials and asked < 20 * trials:
        chosen = []
        for _ in range(BATCH):
            asked += 1
            trial = study.ask(distributions)
            places = {name: trial.params[name] for name in dimensions}
            candidate = state.space.candidate({name: dimensions[name][place] for name, place in places.items()})
            try:
                bound = state.space.bound(candidate)
            except HwmodelError:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                continue
            state.considered += 1
            if bound >= state.best:
                study.tell(trial, float(bound))
                continue
            chosen.append((trial, bound, candidate))
        state.run((bound, candidate) for _, bound, candidate in chosen)
        simulated += len(chosen)
        for trial, bound, candidate in chosen:
            cycles = state.records[dump({"tiling": candidate})][2].cycles
            study.tell(trial, float(cycles if cycles is not None else 2 * bound))
    return min((family.bound for family in state.space.families()), default=0)


def _find(space: SearchSpace, dimensions: dict[str, list[Any]], candidate: Candidate) -> dict[str, int] | None:
    """The choices that make a candidate, where they are among the dimensions."""
    if not isinstance(space, BlockedSpace):
        return None
    m, k, n = candidate["base"]
    values = {
        "grid": tuple(candidate["core_grid"]), "m": m, "k": k, "n": n, "panel": candidate["panel_slices"],
        "scales": candidate["scale_panels"], **candidate["buffers"], "order": candidate["loop_order"],
    }  # fmt: skip
    if any(values[name] not in each for name, each in dimensions.items()):
        return None
    return {name: each.index(values[name]) for name, each in dimensions.items()}


def _tuned(state: _State, method: str, open_bound: int | None) -> Tuned:
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
    return Tuned(state.scenario.name, tuple(rows), candidates, method, open_bound, state.considered, scenario)


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


def check_best(tuned: Tuned) -> tuple[str, ...]:
    """Hazards of the best tiling: none, or the search is wrong."""
    from hwmodel.experiment import FULL_LIMIT, prepare

    ready = prepare(tuned.best_scenario)
    if ready.program is None or ready.program.count > FULL_LIMIT:
        return ()
    return tuple(str(hazard) for hazard in ready.hazards())


__all__ = ["Tuned", "best_file", "check_best", "measure", "tune"]
