"""Speed of the numerics core: ``pytest -m benchmark tests/benchmarks/test_numerics_speed.py``.

The cases, goals and peers are those of ``python -m hwmodel.numerics.report``. Rates and goals are in ``extra_info``; a
goal that this machine misses is not a failure; where there is a goal, being slower than the peer is.
"""

from __future__ import annotations

from typing import Any

import pytest

from hwmodel import numerics as nm
from hwmodel.numerics.report import speed

pytestmark = pytest.mark.benchmark


def label(case: speed.Case) -> str:
    return f"{case.name.split('^')[0]}, {case.backend}, {case.threads}" + (f", {case.peer}" if case.peer else "")


SMALL = [label(case) for case in speed.cases(scale=64)]
"""Labels from small cases: making the real ones takes longer than a collection should."""


@pytest.fixture(scope="module")
def cases() -> list[speed.Case]:
    return list(speed.cases())


@pytest.mark.parametrize("number", range(len(SMALL)), ids=SMALL)
def test_speed(benchmark: Any, cases: list[speed.Case], number: int) -> None:
    case = cases[number]
    if case.backend == "numba":
        pytest.importorskip("numba")
    backend, threads = nm.set_backend(case.backend), nm.set_threads(case.threads)
    try:
        benchmark.pedantic(case.run, rounds=15, warmup_rounds=2)
    finally:
        nm.set_backend(backend)
        nm.set_threads(threads)
    rate = case.work / benchmark.stats.stats.min
    benchmark.extra_info.update(unit=f"{case.unit} per second", rate=rate, goal=case.goal, meets_goal=rate >= case.goal)
    if case.peer_run is not None:
        peer = (case.peer_work or case.work) / speed.best_seconds(case.peer_run, 0.3)
        benchmark.extra_info.update(peer=case.peer, peer_rate=peer, times_the_peer=rate / peer)
        assert rate >= peer or not case.goal
