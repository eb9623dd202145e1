"""Processes on this machine. They are spawned, so nothing of this process leaks into them, and end with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from hwmodel.engines import default_jobs


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


@contextmanager
def open_engine(jobs: int | None, _scheduler: str | None = None) -> Iterator[Executor]:
    """A pool of ``jobs`` processes; this process alone for one job."""
    count = jobs or default_jobs()
    if count == 1:
        yield InProcess()
        return
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    # The workers hold `ours` (the end that reads), this process alone the other: they see it close when we are gone.
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(ours,))
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
