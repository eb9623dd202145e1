"""The ways through a space of tilings: from good ones to their neighbours, in the order of bounds, or by sampling."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hwmodel.config.dump import dump
from hwmodel.config.overrides import Override
from hwmodel.errors import HwmodelError, InputError
from hwmodel.scenario import Scenario
from hwmodel.study.journal import Journal
from hwmodel.study.measure import Record, Task, measure, task_of
from hwmodel.study.points import Template
from hwmodel.study.pool import Workers, run_tasks
from hwmodel.study.spaces import BlockedSpace, Candidate, SearchSpace
from hwmodel.tiling.blocked import Blocked

Progress = Callable[[int, int, int], None]
"""Called with how many were simulated, the fewest cycles so far, and the lower bound of what is open."""

BATCH = 16


@dataclass
class State:
    """What a search knows so far."""

    scenario: Scenario
    space: SearchSpace
    workers: Workers
    journal: Journal | None
    progress: Progress
    records: dict[str, tuple[Candidate, int, Record]] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    """Key of the candidate that stands for a task: two may say the same, one with its defaults written out."""
    best: float = float("inf")
    considered: int = 0

    @property
    def simulated(self) -> int:
        """How many were simulated, or taken from the journal."""
        return len(self.tasks)

    def knows(self, candidate: Candidate) -> bool:
        """Whether it was run."""
        return dump({"tiling": candidate}) in self.records

    def run(self, chosen: Iterable[tuple[int, Candidate]], open_bound: int = 0) -> None:
        """Simulate candidates, each once."""
        batch: dict[str, tuple[int, Candidate]] = {}
        for bound, candidate in chosen:
            key = dump({"tiling": candidate})
            if key not in self.records:
                batch.setdefault(key, (bound, candidate))
        template, tasks = Template.of(self.scenario), self.tasks

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

        for task, record in run_tasks(made(), measure, self.workers, self.journal):
            key = tasks[task.key]
            bound, candidate = batch[key]
            self.records[key] = (candidate, bound, record)
            if record.cycles is not None:
                self.best = min(self.best, record.cycles)
        self.progress(self.simulated, 0 if self.best == float("inf") else int(self.best), open_bound)


def seeds(scenario: Scenario, space: SearchSpace) -> list[tuple[int, Candidate]]:
    """The scenario's own tiling, so that the best is never worse, and the one that ``auto`` picks: good ones early
    leave little to do."""
    found = []
    if isinstance(space, BlockedSpace):
        from hwmodel.tiling import auto

        tiling = scenario.tiling
        if tiling.kind == "blocked" and tiling.core_grid[0] * tiling.core_grid[1] <= space.max_cores:
            found.append(space.candidate(_choices(tiling)))
        with suppress(InputError):
            picked = auto.plan(
                space.problem, space.accumulate, space.arch, auto.Auto(kind="auto", max_cores=space.max_cores)
            )
            found.append(space.candidate(_choices(picked.params)))
    else:
        with suppress(InputError):
            found.append(space.own(scenario.tiling))
    return _bounded(space, found)


def _choices(params: Any) -> dict[str, Any]:
    m, k, n = params.base
    return {
        "grid": params.core_grid, "m": m, "k": k, "n": n, "panel": params.panel_slices, "scales": params.scale_panels,
        **params.buffers.model_dump(), "order": params.loop_order,
    }  # fmt: skip


def climb(state: State, space: BlockedSpace, most: int) -> None:
    """From the best so far to better neighbours, until there is none: the better the best, the less is left to try."""
    dimensions = space.dimensions()
    before = float("inf")
    start = state.simulated
    while state.best < before and state.simulated - start < most:
        before = state.best
        best = min((record.cycles, key) for key, (_, _, record) in state.records.items() if record.cycles is not None)
        found = _bounded(space, _neighbours(space, dimensions, state.records[best[1]][0]))
        chosen = sorted(
            (pair for pair in found if pair[0] < state.best and not state.knows(pair[1])),
            key=lambda pair: (pair[0], dump(pair[1])),
        )
        state.run(chosen[: most - (state.simulated - start)])


def _bounded(space: SearchSpace, candidates: Iterable[Candidate]) -> list[tuple[int, Candidate]]:
    """Candidates that fit, with their bounds."""
    found = []
    for candidate in candidates:
        try:
            found.append((space.bound(candidate), candidate))
        except InputError:
            continue
    return found


def _neighbours(space: BlockedSpace, dimensions: dict[str, list[Any]], candidate: Candidate) -> Iterator[Candidate]:
    """One or two steps along each dimension; panels as deep as before, or else as deep as fits."""
    here = _choices(Blocked(**candidate))
    sizes = space.space
    for name, values in dimensions.items():
        known = values.index(here[name]) if here[name] in values else 0
        steps = range(len(values)) if name == "grid" else range(max(known - 2, 0), min(known + 3, len(values)))
        for step in steps:
            there = {**here, name: values[step]}
            yield space.candidate(there)
            deepest = sizes.deepest(there["m"], there["k"], there["n"], there["l1"])
            if deepest is not None and name in ("m", "k", "n", "l1"):
                yield space.candidate({**there, "panel": deepest[0], "scales": deepest[1]})


def by_bounds(state: State, trials: int | None, most: int | None) -> int | None:
    """Best-first search. Returns the bound of what is left open, -1 for nothing; None after more than ``most``."""
    space = state.space
    heap: list[tuple[int, int, int, Any]] = []
    number = itertools.count()
    for family in space.families():
        if family.bound <= state.best:
            heap.append((family.bound, 0, next(number), family))
    heapq.heapify(heap)
    batch: list[tuple[int, Candidate]] = []
    start = state.simulated
    while True:
        open_bound = heap[0][0] if heap else None
        simulated = state.simulated - start
        done = open_bound is None or open_bound >= state.best
        if batch and (done or len(batch) == BATCH or (trials is not None and simulated + len(batch) >= trials)):
            state.run(batch, open_bound or 0)
            batch = []
            continue
        if done:
            return -1
        if trials is not None and simulated >= trials:
            return open_bound
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
            if not state.knows(item):
                batch.append((bound, item))


def sample(state: State, trials: int, seed: int) -> int:
    """Sampling by optuna, in batches that are asked for together. Returns the least bound of any family."""
    try:
        import optuna
    except ImportError:
        raise InputError("tune: expected optuna for a space this large (pip install hwmodel[tune])") from None
    from optuna.distributions import CategoricalDistribution

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    dimensions = state.space.dimensions()
    distributions: Any = {name: CategoricalDistribution(list(range(len(each)))) for name, each in dimensions.items()}
    # A genetic sampler: optuna's default (TPE) breaks ties by rounding that changes from run to run, whatever the seed.
    sampler = optuna.samplers.NSGAIISampler(seed=seed, population_size=BATCH)
    study = optuna.create_study(sampler=sampler)
    for candidate, _, record in list(state.records.values()):
        choices = _find(state.space, dimensions, candidate)
        if choices is not None and record.cycles is not None:
            study.add_trial(
                optuna.trial.create_trial(params=choices, distributions=distributions, value=float(record.cycles))
            )
    start, asked = state.simulated, 0
    while (left := trials - (state.simulated - start)) > 0 and asked < 20 * trials:
        chosen = []
        for _ in range(min(BATCH, left)):
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
