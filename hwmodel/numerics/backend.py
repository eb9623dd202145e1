"""Which code computes: numpy alone, or kernels compiled by numba. Never which bits come out.

numba takes most of a second to import. It is imported when the numpy time spent so far, which kernels would have
saved, reaches that second: whoever computes little never waits for it, whoever computes much waits once.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from types import ModuleType
from typing import Literal

from hwmodel.numerics.checks import check_choice, whole

Backend = Literal["auto", "numpy", "numba"]
PATIENCE_SECONDS = 0.7
THREAD_SECONDS = 1e-3
"""Work below this stays in the calling thread."""
_BACKENDS = ("auto", "numpy", "numba")


class _Chosen:
    """The process-wide choice; ``spent_seconds`` is numpy time that kernels would have saved."""

    def __init__(self) -> None:
        self.backend: Backend = "auto"
        self.threads: int | None = None
        self.spent_seconds = 0.0
        self.missing = False
        self.modules: dict[str, ModuleType] = {}
        self.pool: ThreadPoolExecutor | None = None
        self.lock = threading.Lock()


_chosen = _Chosen()


def set_backend(backend: Backend) -> Backend:
    """Choose ``auto`` (default), ``numpy`` or ``numba`` for this process; returns the choice before.

    The bits of every result are the same under all three. ``numba`` raises ImportError at the first use where numba
    cannot be imported; ``auto`` then goes on with numpy.
    """
    check_choice("backend", backend, _BACKENDS)
    before, _chosen.backend = _chosen.backend, backend
    return before


def set_threads(count: int | None) -> int | None:
    """Use at most ``count`` threads for large work (None: as many as the process may use); returns the one before."""
    before, _chosen.threads = _chosen.threads, None if count is None else whole("threads", count, 1)
    return before


def thread_count() -> int:
    """Threads that large work uses."""
    if _chosen.threads is not None:
        return _chosen.threads
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def kernels(name: str, numpy_seconds: float) -> ModuleType | None:
    """Return the module ``hwmodel.numerics.kernels.<name>``, or None when this call shall use numpy.

    ``numpy_seconds`` is a rough estimate of what numpy needs for the work at hand.
    """
    module = _chosen.modules.get(name)
    if _chosen.backend == "numpy" or (_chosen.missing and _chosen.backend == "auto"):
        return None
    if module is not None:
        return module
    if _chosen.backend == "auto" and "numba" not in sys.modules:
        _chosen.spent_seconds += numpy_seconds
        if _chosen.spent_seconds < PATIENCE_SECONDS:
            return None
    with _chosen.lock:
        try:
            module = importlib.import_module(f"hwmodel.numerics.kernels.{name}")
        except ImportError:
            if _chosen.backend == "numba":
                raise
            _chosen.missing = True
            return None
        _chosen.modules[name] = module
    return module


def run_slices(extent: int, work_seconds: float, task: Callable[[int, int], None], step: int = 1) -> None:
    """Call ``task(start, stop)`` over slices of ``range(extent)`` in threads; in this one where work is small.

    Slices start at multiples of ``step``. The tasks must not depend on each other.
    """
    if work_seconds < THREAD_SECONDS:
        task(0, extent)
        return
    threads = max(1, min(thread_count(), extent // step))
    size = -(-extent // (threads * step)) * step
    starts = range(0, extent, size)
    futures = [_pool().submit(task, start, min(start + size, extent)) for start in starts[1:]]
    try:
        task(0, min(size, extent))
    finally:
        wait(futures)  # they write into arrays of the caller
    for future in futures:
        future.result()


def _pool() -> ThreadPoolExecutor:
    """Threads that live on between calls: starting one takes as long as a small product."""
    with _chosen.lock:
        if _chosen.pool is None:
            _chosen.pool = ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), "hwmodel-numerics")
        return _chosen.pool


def _after_fork() -> None:
    """A child process has none of its parent's threads, and locks may have been held by one of them."""
    _chosen.pool = None
    _chosen.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
