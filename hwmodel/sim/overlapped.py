"""An engine that takes its next instruction before the last one has ended: a pipeline, or a queue of transfers.

It starts instructions in order, each when its waits are over and the engine is free again, and they end in order.
Operands are read at the start, results are written at the end. Between start and end an instruction may need a server
that several engines share (the DMA rings of a core): there, transfers of one engine follow each other, and those of
several engines share it equally.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, Protocol, cast

from simpy.events import Event, Timeout

from hwmodel.program.instructions import Instruction
from hwmodel.sim.engine import Executor, InOrderEngine
from hwmodel.sim.kernel import Counter, Kernel, Request
from hwmodel.sim.link import Link
from hwmodel.trace import Row


class Overlap(NamedTuple):
    """Ticks of an instruction: until the engine is free, and the three parts until it ends (``work`` on the server)."""

    issue: int
    before: int
    work: int
    after: int


class Throttle(Protocol):
    """Stretches work while the engine's clock is held back."""

    def stretch(self, now: int, ticks: int) -> int:
        """Ticks that it takes."""
        ...


class OverlapExecutor(Executor, Protocol):
    """What an overlapped engine needs to know beyond `Executor`."""

    throttle: Throttle | None

    def overlap(self, params: NamedTuple) -> Overlap:
        """Times of an instruction with these parameters."""
        ...


class _Flight(NamedTuple):
    """An instruction between its start and its end."""

    position: int
    instruction: Instruction
    times: Overlap
    payload: Any
    request: Request | None


class OverlappedEngine(InOrderEngine):
    """One pipe or queue of a core. ``server`` is shared with the unit's other engines."""

    executor: OverlapExecutor

    def __init__(
        self,
        kernel: Kernel,
        row: Row,
        executor: OverlapExecutor,
        stage: Callable[[Instruction], int],
        engines: dict[str, InOrderEngine],
        launch: int = 0,
        server: Link | None = None,
    ) -> None:
        self.server = server
        self._queue: deque[_Flight] = deque()
        self._serving = False
        self._last_end = 0
        super().__init__(kernel, row, executor, stage, engines, launch)

    def _run(self) -> Generator[Event, Any, None]:
        kernel, row = self.kernel, self.row
        env, core, engine = kernel.env, row.core, row.engine
        timeout = env.timeout
        executor = self.executor
        overlap_of, banks_of, capture = executor.overlap, executor.banks, executor.capture
        throttle = executor.throttle
        starts = row.starts.append
        counters: dict[str, Counter] = {}
        payload = None
        if self.launch:
            yield timeout(self.launch)
        for position, instruction in enumerate(row.instructions):
            for signal, at_least in instruction.waits:
                counter = counters.get(signal)
                if counter is None:
                    counter = counters[signal] = kernel.counter(core, signal)
                if counter.value < (at_least or 1):
                    yield from self._wait(counter, at_least, position)
                elif not at_least:
                    counter.value -= 1
            banks = banks_of(instruction) if banks_of is not None else ()
            request = None
            if banks:
                request = Request(instruction.number, engine, position, banks)
                kernel.ask(core, request)
                yield kernel.late()
                if not request.granted:
                    yield from self._acquire(request)
            elif capture is not None:
                yield kernel.late()
            now = int(env.now)
            starts(now)
            if capture is not None:
                payload = capture(instruction)
            times = overlap_of(instruction.params)
            if throttle is not None:
                issue = throttle.stretch(now, times.issue)
                if issue != times.issue:
                    times = times._replace(issue=issue, before=times.before + issue - times.issue)
            flight = _Flight(position, instruction, times, payload, request)
            alone = not times.work and times.issue == times.before + times.after and now >= self._last_end
            if not alone:
                self._depart(now, flight)
            if times.issue:
                yield timeout(times.issue)
            if alone:  # it ends just when the engine is free: one event for both
                self._last_end = int(env.now)
                self._finish(flight)
            for signal, amount in instruction.frees:
                kernel.counter(core, signal).add(amount, engine, position)

    def _depart(self, now: int, flight: _Flight) -> None:
        times = flight.times
        if times.work:
            self._after(times.before, self._arrive, flight)
            return
        end = self._last_end = max(self._last_end, now + times.before + times.after)
        self._after(end - now, self._end, flight)

    def _after(self, ticks: int, what: Callable[[Event], None], flight: _Flight) -> None:
        event = Timeout(self.kernel.env, ticks, flight)
        assert event.callbacks is not None
        event.callbacks.append(what)

    def _arrive(self, event: Event) -> None:
        """At the server: behind what this engine sent before."""
        self._queue.append(cast("_Flight", event.value))
        if not self._serving:
            self._serve()

    def _end(self, event: Event) -> None:
        self._finish(cast("_Flight", event.value))

    def _serve(self) -> None:
        self._serving = bool(self._queue)
        if self._serving:
            assert self.server is not None
            done = self.server.transfer(self._queue[0].times.work)
            assert done.callbacks is not None
            done.callbacks.append(self._served)

    def _served(self, _event: Event) -> None:
        flight = self._queue.popleft()
        if flight.times.after:
            now = int(self.kernel.env.now)
            end = self._last_end = max(self._last_end, now + flight.times.after)
            self._after(end - now, self._end, flight)
        else:
            self._finish(flight)
        self._serve()

    def _finish(self, flight: _Flight) -> None:
        kernel, row = self.kernel, self.row
        position, instruction, _, payload, request = flight
        if self.executor.commit is not None:
            self.executor.commit(instruction, payload)
        row.ends.append(int(kernel.env.now))
        if request is not None:
            kernel.release(row.core, request)
        for signal, amount in instruction.sets:
            kernel.counter(row.core, signal).add(amount, row.engine, position)
