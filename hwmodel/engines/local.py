"""Processes on this machine. They are spawned, so nothing of this process leaks into them, and end with it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from hwmodel.engines import default_jobs
from hwmodel.engines.script import without_script

MOST_FOR_EACH_PROCESSOR = 4
"""Processes beyond this many for each processor take memory and give nothing."""


class _Process(SpawnProcess):
    def start(self) -> None:
        with without_script():
            super().start()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """A process started meanwhile never gets Ctrl-C, which a terminal sends to it as well; here it comes afterwards."""
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    resource_tracker.ensure_running()  # starting it lets SIGINT through again
    came: list[int] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    handler = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))  # other threads may take it
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if came:
            signal.raise_signal(signal.SIGINT)


class _Spawn(SpawnContext):
    Process = _Process


class InProcess(Executor):
    """Runs each task at once, here: one job needs no process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future that is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Processes(Executor):
    """A pool of processes that is replaced when one of them was killed: Python's own pool is of no use from then on.

    What was under way in the broken pool ends with its BrokenProcessPool; whoever wants it may submit it again.
    """

    def __init__(self, make: Callable[[], ProcessPoolExecutor]) -> None:
        self._make = make
        self._pool = make()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future of ``fn(*args, **kwargs)`` in one of the processes."""
        with _without_interrupts():  # it may start a process, which must not be left without the pool that ends it
            try:
                return self._pool.submit(fn, *args, **kwargs)
            except BrokenProcessPool:
                self._pool.shutdown(wait=True)
                self._pool = self._make()
                return self._pool.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for what is under way, or drop it."""
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)


@contextmanager
def open_engine(jobs: int | None, _scheduler: str | None = None) -> Iterator[Executor]:
    """A pool of ``jobs`` processes; this process alone for one job."""
    count = min(jobs or default_jobs(), MOST_FOR_EACH_PROCESSOR * default_jobs())
    if count == 1:
        yield InProcess()
        return
    context = _Spawn()
    ours, theirs = context.Pipe(duplex=False)
    # The workers hold `ours` (the end that reads), this process alone the other: they see it close when we are gone.
    pool = Processes(lambda: ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(ours,)))
    try:
        yield pool
    except BaseException:
        theirs.close()  # do not wait for what is under way
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    else:
        pool.shutdown(wait=True)
        theirs.close()
    finally:
        ours.close()


def _begin(lifeline: Connection) -> None:
    """In a worker: leave Ctrl-C to the parent, and end when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()


def _end_with_parent(lifeline: Connection) -> None:
    try:
        lifeline.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)
