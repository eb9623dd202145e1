"""Where many simulations run: behind one ``concurrent.futures.Executor``, whatever the engine is.

Adding an engine is one file with a function ``open_engine(jobs, scheduler)`` and one entry in ``ENGINES``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import TypeVar

from hwmodel.errors import InputError, SimulationError, unknown_name

Task = TypeVar("Task")
Answer = TypeVar("Answer")

IN_FLIGHT = 4
"""Tasks handed to an engine ahead of each of its workers: enough that none waits, few enough to stop at once."""
LIVES = 3
"""How often a task may be under way when a worker is killed: it may be the one that takes all the memory."""


@dataclass(frozen=True)
class EngineKind:
    """One entry of the table: ``module`` has a function ``open_engine``, imported when it is used."""

    name: str
    module: str
    takes_scheduler: bool
    summary: str


ENGINES: dict[str, EngineKind] = {
    kind.name: kind
    for kind in (
        EngineKind("local", "hwmodel.engines.local", False, "processes on this machine"),
        EngineKind("dask", "hwmodel.engines.dask", True, "a dask.distributed cluster (--scheduler), or a local one"),
    )
}
"""All engines by name."""


def default_jobs() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_engine(name: str, *, jobs: int | None = None, scheduler: str | None = None) -> EngineKind:
    """The engine of that name; InputError for an unknown one, or one that these settings do not fit."""
    if name not in ENGINES:
        raise InputError(unknown_name("engine", name, ENGINES))
    kind = ENGINES[name]
    if scheduler is not None and not kind.takes_scheduler:
        raise InputError(f"--scheduler: expected together with --engine dask, not {name}")
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs: expected a number of at least 1, not {jobs}")
    return kind


def open_engine(
    name: str, *, jobs: int | None = None, scheduler: str | None = None
) -> AbstractContextManager[Executor]:
    """An executor with ``jobs`` workers (default: one for each processor), as a context.

    Leaving the context ends the workers; on an error or Ctrl-C what they are at is dropped.

    Raises:
        InputError: an unknown engine, one that is not installed, or a scheduler that is not there.
    """
    kind = check_engine(name, jobs=jobs, scheduler=scheduler)
    opened: AbstractContextManager[Executor] = import_module(kind.module).open_engine(jobs, scheduler)
    return opened


def completed(
    executor: Executor, call: Callable[[Task], Answer], tasks: Iterable[Task], *, width: int
) -> Iterator[tuple[Task, Answer]]:
    """(task, ``call(task)``) of all tasks as they are done; at most ``width`` are under way.

    Tasks are taken from the iterable when there is room, so they may be made while others run. An error of a task is
    raised. Those that a killed worker took along run again.

    Raises:
        SimulationError: workers were killed `LIVES` times under the same task.
    """
    source = iter(tasks)
    running: dict[Future[Answer], tuple[Task, int]] = {}
    more = True
    while more or running:
        while more and len(running) < width:
            try:
                task = next(source)
            except StopIteration:
                more = False
                break
            running[executor.submit(call, task)] = task, LIVES
        if not running:
            break
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            task, lives = running.pop(future)
            try:
                answer = future.result()
            except BrokenExecutor:
                if lives == 1:
                    raise SimulationError(
                        f"worker processes were killed {LIVES} times at the same work: out of memory?"
                    ) from None
                running[executor.submit(call, task)] = task, lives - 1
            else:
                yield task, answer


__all__ = ["ENGINES", "IN_FLIGHT", "LIVES", "EngineKind", "check_engine", "completed", "default_jobs", "open_engine"]
