"""A dask.distributed cluster: an existing one, or a local one on loopback. Needs the extra ``dask``."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from hwmodel.engines import default_jobs
from hwmodel.errors import InputError

CONNECT_SECONDS = 10
LOOPBACK = "127.0.0.1"


@contextmanager
def open_engine(jobs: int | None, scheduler: str | None = None) -> Iterator[Executor]:
    """An executor on the cluster at ``scheduler``, or on a cluster of ``jobs`` processes that ends with the context.

    A task whose worker dies runs again on another one: dask sees to that.
    """
    distributed = _distributed()
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
        executor = client.get_executor(pure=False)
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
