"""An engine: takes its instructions in order, waits for flags and banks, runs them, and records what it did."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from typing import Any, NamedTuple, Protocol

from simpy.events import AllOf, Event

from hwmodel.program.instructions import Instruction, called
from hwmodel.sim.kernel import Counter, Kernel, Request
from hwmodel.sim.link import Link, UsersLink
from hwmodel.trace import WAIT_INPUT, WAIT_SPACE, Row, Stall


class Cost(NamedTuple):
    """How long an instruction takes: ``ticks`` of its own, then ``flows`` bytes over shared links, all at once."""

    ticks: int
    flows: tuple[tuple[Link | UsersLink, int], ...] = ()


class Executor(Protocol):
    """What an engine needs to know about its unit: cost, banks and values. Never asks for the time."""

    def cost(self, params: NamedTuple) -> Cost:
        """Duration of an instruction with these parameters."""
        ...

    banks: Callable[[Instruction], tuple[Hashable, ...]] | None
    """Banks that an instruction must hold alone; None where the unit touches no banked buffer."""
    capture: Callable[[Instruction], Any] | None
    """Read the operands at the start; None where no values travel."""
    commit: Callable[[Instruction, Any], None] | None
    """Write the results at the end."""


class InOrderEngine:
    """One pipe of a core: one instruction at a time, in order. Makes the SimPy process and fills the trace row."""

    def __init__(
        self,
        kernel: Kernel,
        row: Row,
        executor: Executor,
        stage: Callable[[Instruction], int],
        engines: dict[str, InOrderEngine],
        launch: int = 0,
    ) -> None:
        self.kernel = kernel
        self.row = row
        self.executor = executor
        self.stage = stage
        self.engines = engines
        self.launch = launch
        self.waiting_for = ""
        self.process = kernel.env.process(self._run())

    def describe(self) -> str:
        """What a stuck engine waits for, and in front of which instruction."""
        number, op = called(self.row.instructions[len(self.row.starts)])
        return f"core {self.row.core} {self.row.engine} waits for {self.waiting_for} before instruction {number} ({op})"

    def _kind(self, instruction: Instruction, by: str, by_position: int) -> str:
        other = self.engines.get(by)
        if other is None:
            return WAIT_INPUT
        return WAIT_INPUT if self.stage(other.row.instructions[by_position]) < self.stage(instruction) else WAIT_SPACE

    def _stalled(self, since: int, position: int, cause: str, by: str, by_position: int) -> None:
        kind = self._kind(self.row.instructions[position], by, by_position)
        now = int(self.kernel.env.now)
        self.row.stalls.append(Stall(since, now, position, kind, cause, by, by_position))

    def _wait(self, counter: Counter, at_least: int, position: int) -> Generator[Event, Any, None]:
        """Wait for a counter that is not there yet. A flag (``at_least`` 0) is consumed by being woken."""
        env = self.kernel.env
        since = int(env.now)
        event = Event(env)
        counter.wait(self.row.instructions[position].number, at_least, event)
        cause = f"{'semaphore' if at_least else 'flag'} {counter.name}"
        self.waiting_for = cause
        yield event
        self.waiting_for = ""
        if env.now > since:
            self._stalled(since, position, cause, counter.by, counter.by_position)

    def _acquire(self, request: Request) -> Generator[Event, Any, None]:
        """Wait until the banks of a refused request are granted."""
        env = self.kernel.env
        since = int(env.now)
        banks = self.kernel.banks_of(self.row.core)
        others = (bank for bank in request.banks if banks.holders.get(bank, request.owner) != request.owner)
        bank = next(others, request.banks[0])
        request.event = Event(env)
        self.waiting_for = f"bank {bank}"
        yield request.event
        self.waiting_for = ""
        if env.now > since:
            by, by_position = banks.last.get(bank, ("", -1))
            self._stalled(since, request.position, f"bank {bank}", by, by_position)

    def _run(self) -> Generator[Event, Any, None]:
        kernel, row = self.kernel, self.row
        env, core, engine = kernel.env, row.core, row.engine
        timeout = env.timeout
        executor = self.executor
        cost_of, banks_of = executor.cost, executor.banks
        capture, commit = executor.capture, executor.commit
        starts, ends = row.starts.append, row.ends.append
        counter_of = kernel.counter
        counters: dict[str, Counter] = {}
        payload = None
        if self.launch:
            yield timeout(self.launch)
        for position, instruction in enumerate(row.instructions):
            for signal, at_least in instruction.waits:
                counter = counters.get(signal)
                if counter is None:
                    counter = counters[signal] = counter_of(core, signal)
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
            starts(env.now)  # type: ignore[arg-type]
            if capture is not None:
                payload = capture(instruction)
            ticks, flows = cost_of(instruction.params)
            if ticks:
                yield timeout(ticks)
            if flows:
                if len(flows) == 1:
                    link, size = flows[0]
                    yield link.transfer(size)
                else:
                    yield AllOf(env, [link.transfer(size) for link, size in flows])
            if commit is not None:
                commit(instruction, payload)
            ends(env.now)  # type: ignore[arg-type]
            if request is not None:
                kernel.release(core, request)
            for signal, amount in instruction.sets:
                counter = counters.get(signal)
                if counter is None:
                    counter = counters[signal] = counter_of(core, signal)
                counter.add(amount, engine, position)
