"""Time, flags and banks on top of a SimPy environment.

The meaning of one tick. An instruction that ends at tick t has written its results, set its flags and released its
banks before any instruction that starts at t reads its operands or asks for a bank: ends are ordinary events
(priority 1), starts belong to the late phase of the tick (priority 2, one shared event). An instruction of zero
length ends in the same tick and may let others start in a further late phase of that tick. Banks that several
instructions ask for in one late phase are granted in the order of their numbers, so the result does not depend on
the order in which engines were made.
"""

from __future__ import annotations

from collections.abc import Hashable

import simpy
from simpy.events import Event, EventPriority

LATE = EventPriority(2)


class Counter:
    """A flag or semaphore: a count, who raised it last, and who waits for it."""

    __slots__ = ("by", "by_position", "name", "value", "waiters")

    def __init__(self, name: str) -> None:
        self.name = name
        self.value = 0
        self.by = ""
        self.by_position = -1
        self.waiters: list[tuple[int, int, Event]] = []

    def add(self, amount: int, by: str, by_position: int) -> None:
        """Raise the count and wake those that it suffices for."""
        self.value += amount
        self.by = by
        self.by_position = by_position
        if self.waiters:
            self._wake()

    def wait(self, number: int, at_least: int, event: Event) -> None:
        """Wake ``event`` when the count has reached ``at_least``; 0: when it is 1, of which the waiter takes 1.

        Among several waiters the one with the lowest instruction number comes first.
        """
        self.waiters.append((number, at_least, event))
        self.waiters.sort(key=lambda waiter: waiter[0])

    def _wake(self) -> None:
        left = []
        for waiter in self.waiters:
            _, at_least, event = waiter
            if self.value < (at_least or 1):
                left.append(waiter)
                continue
            if not at_least:
                self.value -= 1
            event.succeed()
        self.waiters = left


class Request:
    """An instruction that wants banks for itself before it starts."""

    __slots__ = ("banks", "event", "granted", "number", "owner", "position")

    def __init__(self, number: int, owner: str, position: int, banks: tuple[Hashable, ...]) -> None:
        self.number = number
        self.owner = owner
        self.position = position
        self.banks = banks
        self.granted = False
        self.event: Event | None = None


class Banks:
    """Banks of all buffers of a core; one engine holds each, granted in the order of instruction numbers.

    Overlapping instructions of one engine hold a bank together.
    """

    __slots__ = ("_counts", "holders", "last", "pending")

    def __init__(self) -> None:
        self.holders: dict[Hashable, str] = {}
        self._counts: dict[Hashable, int] = {}
        self.last: dict[Hashable, tuple[str, int]] = {}
        self.pending: list[Request] = []

    def arbitrate(self, _event: Event) -> None:
        """Grant what can be granted, lowest instruction number first."""
        if len(self.pending) > 1:
            self.pending.sort(key=lambda request: request.number)
        left = []
        blocked: set[Hashable] = set()
        holders, counts = self.holders, self._counts
        for request in self.pending:
            owner = request.owner
            if any(bank in blocked or holders.get(bank, owner) != owner for bank in request.banks):
                blocked.update(request.banks)
                left.append(request)
                continue
            for bank in request.banks:
                holders[bank] = owner
                counts[bank] = counts.get(bank, 0) + 1
            request.granted = True
            if request.event is not None:
                request.event.succeed()
        self.pending = left

    def release(self, request: Request) -> None:
        """Give back what ``request`` holds."""
        for bank in request.banks:
            self._counts[bank] -= 1
            if not self._counts[bank]:
                del self.holders[bank]
            self.last[bank] = (request.owner, request.position)


class Kernel:
    """A SimPy environment with integer ticks, a late phase, and named counters and banks for each core."""

    def __init__(self) -> None:
        self.env = simpy.Environment()
        self.counters: dict[tuple[int, str], Counter] = {}
        self.banks: dict[int, Banks] = {}
        self._late: Event | None = None
        self._late_at = -1
        self._late_banks: set[int] = set()

    def counter(self, core: int, name: str) -> Counter:
        """The counter of that name on that core."""
        key = (core, name)
        found = self.counters.get(key)
        if found is None:
            found = self.counters[key] = Counter(name)
        return found

    def late(self) -> Event:
        """The event of this tick's late phase, shared by all that start in it."""
        env = self.env
        late = self._late
        if late is None or late.callbacks is None:
            late = self._late = Event(env)
            late._ok = True
            late._value = None
            env.schedule(late, LATE)
            self._late_banks.clear()
        return late

    def ask(self, core: int, request: Request) -> None:
        """Put a bank request before the next arbitration of ``core``, in this tick's late phase."""
        banks = self.banks_of(core)
        banks.pending.append(request)
        self._arbitrate_late(core, banks)

    def release(self, core: int, request: Request) -> None:
        """Release banks; those that wait are looked at in this tick's late phase."""
        banks = self.banks_of(core)
        banks.release(request)
        if banks.pending:
            self._arbitrate_late(core, banks)

    def banks_of(self, core: int) -> Banks:
        """The banks of one core."""
        found = self.banks.get(core)
        if found is None:
            found = self.banks[core] = Banks()
        return found

    def _arbitrate_late(self, core: int, banks: Banks) -> None:
        late = self.late()
        if core not in self._late_banks:
            self._late_banks.add(core)
            assert late.callbacks is not None
            late.callbacks.insert(0, banks.arbitrate)
