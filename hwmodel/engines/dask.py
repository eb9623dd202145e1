"""A dask.distributed cluster: an existing one, or a local one on loopback. Needs the extra ``dask``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, wait
from contextlib import contextmanager
from typing import Any

from hwmodel.engines import default_jobs
from hwmodel.engines.script import without_script
from hwmodel.errors import InputError, SimulationError

CONNECT_SECONDS = 10
LOOPBACK = "127.0.0.1"


class ClusterExecutor(Executor):
    """The cluster behind a client, as an executor.

    distributed has one of its own, but its futures never end when a worker dies between finishing a task and handing
    over the result. Here the result is asked for with ``result()``, which waits until another worker has made it again.
    """

    def __init__(self, client: Any, where: str) -> None:
        self._client = client
        self._where = where
        self._running: dict[Future[Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future of ``fn(*args, **kwargs)`` on some worker."""
        future: Future[Any] = Future()
        remote = self._client.submit(fn, *args, pure=False, **kwargs)
        self._running[future] = remote
        remote.add_done_callback(lambda done: self._hand_over(future, done))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for what is under way, or drop it."""
        if wait and not cancel_futures:
            _wait_for(list(self._running))
        elif self._running and self._client.status == "running":
            self._client.cancel(list(self._running.values()), force=True)

    def _hand_over(self, future: Future[Any], remote: Any) -> None:
        """In the client's thread for callbacks: the task has ended, one way or another."""
        self._running.pop(future, None)
        # distributed's cancellation is no Exception; and a future that is only cancelled would not wake who waits.
        try:
            answer = remote.result()
        except BaseException as error:
            future.set_exception(self._told(error))
        else:
            future.set_result(answer)

    def _told(self, error: BaseException) -> BaseException:
        """What is wrong with the cluster in one line; an error of the task as it is."""
        if type(error).__name__ == "KilledWorker":
            return SimulationError(f"--engine dask: several workers of {self._where} died at the same work")
        if isinstance(error, asyncio.CancelledError | CancelledError | OSError | TimeoutError):
            return SimulationError(f"--engine dask: lost the scheduler of {self._where}")
        if isinstance(error, RuntimeError) and "deserialization" in str(error):
            return SimulationError(f"--engine dask: the workers of {self._where} need the same version of hwmodel")
        return error if isinstance(error, Exception) else SimulationError(str(error))


def _wait_for(futures: list[Future[Any]]) -> None:
    wait(futures)


@contextmanager
def open_engine(jobs: int | None, scheduler: str | None = None) -> Iterator[Executor]:
    """An executor on the cluster at ``scheduler``, or on a cluster of ``jobs`` processes that ends with the context.

    A task whose worker dies runs again on another one: dask sees to that.
    """
    with without_script():  # to its end: the cluster starts a worker again that was killed
        yield from _engine(jobs, scheduler)


def _engine(jobs: int | None, scheduler: str | None) -> Iterator[Executor]:
    distributed = _distributed()
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what matters is raised
    cluster = None
    try:
        if scheduler is None:
            cluster = distributed.LocalCluster(
                n_workers=jobs or default_jobs(),
                threads_per_worker=1,
                processes=True,
                host=LOOPBACK,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
        client = distributed.Client(cluster or scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        if cluster is not None:
            cluster.close()
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"--scheduler: cannot reach {scheduler or 'a local cluster'} ({reason})") from None
    try:
        if scheduler is not None and not client.scheduler_info()["workers"]:
            raise InputError(f"--scheduler: {scheduler} has no workers")
        executor = ClusterExecutor(client, scheduler or "the local cluster")
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False)
            raise
        executor.shutdown(wait=True)
    finally:
        client.close(timeout=CONNECT_SECONDS)
        if cluster is not None:
            cluster.close(timeout=CONNECT_SECONDS)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise InputError("--engine dask: expected dask.distributed (pip install hwmodel[dask])") from None
    return distributed
