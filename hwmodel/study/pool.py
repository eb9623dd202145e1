"""Tasks through an engine, with a journal: the same records whatever the engine, the jobs and the order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, TypeVar

from hwmodel.engines import IN_FLIGHT, check_engine, completed, default_jobs, open_engine
from hwmodel.study.journal import Journal
from hwmodel.study.measure import Record

ALONE_SECONDS = 0.5
"""A study that ends within this time is not worth starting processes for."""
DASK_WORKERS = 16
"""How many workers of a cluster are kept supplied."""


class Keyed(Protocol):
    """What can be run: ``key`` names all that decides its record."""

    @property
    def key(self) -> str:
        """Equal keys, equal records."""
        ...


Task = TypeVar("Task", bound=Keyed)


@dataclass(frozen=True)
class Workers:
    """Where tasks run: engine, jobs (None: as many as pay), and the scheduler of a cluster."""

    engine: str = "local"
    jobs: int | None = None
    scheduler: str | None = None

    def checked(self) -> Workers:
        """The same, if there is such an engine. Raises InputError."""
        check_engine(self.engine, jobs=self.jobs, scheduler=self.scheduler)
        return self


def run_tasks(
    tasks: Iterable[Task], call: Callable[[Task], Record], workers: Workers, journal: Journal | None = None
) -> Iterator[tuple[Task, Record]]:
    """(task, ``call(task)``) of each, as they are done. Those in the journal are not run; the others are added to it.

    Processes import ``call`` by its name.
    """
    known = journal.records if journal is not None else {}

    def fresh() -> Iterator[Task]:
        for task in tasks:
            if task.key in known:
                found.append((task, known[task.key]))
            else:
                yield task

    found: list[tuple[Task, Record]] = []
    for task, record in _through(fresh(), call, workers):
        if journal is not None:
            journal.add(task.key, record)
        yield task, record
        while found:
            yield found.pop()
    yield from found


def _through(tasks: Iterator[Task], call: Callable[[Task], Record], workers: Workers) -> Iterator[tuple[Task, Record]]:
    if workers.engine == "local" and workers.jobs is None:
        begin = time.monotonic()
        for task in tasks:
            yield task, call(task)
            if time.monotonic() - begin > ALONE_SECONDS:
                break
    first = next(tasks, None)
    if first is None:
        return
    with open_engine(workers.engine, jobs=workers.jobs, scheduler=workers.scheduler) as executor:
        count = workers.jobs or (DASK_WORKERS if workers.scheduler else default_jobs())
        yield from completed(executor, call, chain([first], tasks), width=IN_FLIGHT * count)
