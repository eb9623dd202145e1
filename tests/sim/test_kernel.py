"""The meaning of one tick: the late phase comes after everything ordinary, and integers stay integers."""

from __future__ import annotations

from typing import Any

from hwmodel.sim import Kernel


def test_the_late_phase_comes_after_all_ordinary_events_of_the_tick() -> None:
    kernel = Kernel()
    env = kernel.env
    log: list[str] = []

    def early() -> Any:
        yield env.timeout(5)
        yield kernel.late()
        log.append("late")

    def ordinary() -> Any:
        yield env.timeout(5)
        log.append("first hop")
        yield env.timeout(0)
        log.append("second hop")
        yield env.timeout(0)
        log.append("third hop")

    env.process(early())
    env.process(ordinary())
    env.run()
    assert log == ["first hop", "second hop", "third hop", "late"]


def test_the_late_phase_is_shared_by_all_that_start_in_it() -> None:
    kernel = Kernel()
    first = kernel.late()
    assert kernel.late() is first
    kernel.env.run()
    assert kernel.late() is not first


def test_counters_belong_to_a_core() -> None:
    kernel = Kernel()
    assert kernel.counter(0, "f") is kernel.counter(0, "f")
    kernel.counter(0, "f").add(1, "M", 3)
    assert (kernel.counter(0, "f").value, kernel.counter(1, "f").value) == (1, 0)
    assert (kernel.counter(0, "f").by, kernel.counter(0, "f").by_position) == ("M", 3)


def test_a_long_run_stays_exact() -> None:
    kernel = Kernel()

    def process() -> Any:
        for _ in range(10_000):
            yield kernel.env.timeout(10**14 + 1)

    kernel.env.process(process())
    kernel.env.run()
    assert kernel.env.now == 10_000 * (10**14 + 1)
    assert isinstance(kernel.env.now, int)
