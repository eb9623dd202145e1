"""A link that several users share: every active transfer gets an equal share, up to a cap each.

Processor sharing by virtual time: ``V`` is how much a transfer that was active from the beginning would have moved.
A transfer of ``s`` bytes that joins at ``V`` ends when the virtual time reaches ``V + s``, whoever else comes and
goes, so one heap and one pending event serve all: O(log n) for each join and leave. Integers only, and exact: a byte
is counted in so many parts that every share is a whole number of them. A transfer ends at the first whole tick at
which all of it has moved, and has its share until then.
"""

from __future__ import annotations

import heapq
from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple

from simpy.events import Event, Timeout

from hwmodel.sim.kernel import Kernel


class Link:
    """``capacity`` bytes a tick in all, at most ``cap`` bytes a tick for one transfer.

    A transfer may stand for several users that do the same at the same time (`on_behalf_of`): it then takes as many
    shares and ends when each of them has moved its bytes.
    """

    def __init__(self, kernel: Kernel, name: str, capacity: Fraction, cap: Fraction) -> None:
        self.env = kernel.env
        self.name = name
        cap = min(cap, capacity)
        self._parts = lcm(Fraction(capacity).denominator, Fraction(cap).denominator)
        """Parts of a byte. Capacity, cap, virtual time and heap count in them."""
        self._capacity = int(capacity * self._parts)
        self._cap = int(cap * self._parts)
        self._virtual = 0
        self._since = 0
        self._heap: list[tuple[int, int, Event, int]] = []
        self._users = 0
        self._serial = 0
        self._wake: Event | None = None
        self._wake_at = -1

    def _rate(self) -> int:
        return min(self._cap, self._capacity // self._users) if self._users else 0

    def _divide(self, users: int) -> None:
        """Count in finer parts where ``users`` equal shares of the capacity are no whole number of them."""
        factor = users // gcd(self._capacity, users)
        if factor > 1:
            self._parts *= factor
            self._capacity *= factor
            self._cap *= factor
            self._virtual *= factor
            self._heap = [(at * factor, serial, done, users) for at, serial, done, users in self._heap]

    def _advance(self) -> None:
        now = int(self.env.now)
        if now > self._since:
            self._virtual += self._rate() * (now - self._since)
            self._since = now

    def on_behalf_of(self, users: int) -> UsersLink:
        """The same link as one of ``users`` equal users sees it that stands for all of them."""
        return UsersLink(self, users)

    def transfer(self, size: int, users: int = 1) -> Event:
        """Move ``size`` bytes for each user; the event happens at the tick at which they have arrived."""
        self._advance()
        self._users += users
        self._divide(self._users)
        done = Event(self.env)
        self._serial += 1
        heapq.heappush(self._heap, (self._virtual + size * self._parts, self._serial, done, users))
        self._plan()
        return done

    def _plan(self) -> None:
        if not self._heap:
            return
        left = self._heap[0][0] - self._virtual
        rate = self._rate()
        delay = max(0, -(-left // rate))
        at = int(self.env.now) + delay
        if self._wake is not None and self._wake_at == at:
            return
        wake = Timeout(self.env, delay)
        self._wake, self._wake_at = wake, at
        assert wake.callbacks is not None
        wake.callbacks.append(self._on_wake)

    def _on_wake(self, event: Event) -> None:
        if event is not self._wake:
            return  # somebody joined or left since; a newer event is on its way
        self._wake = None
        self._advance()
        while self._heap and self._heap[0][0] <= self._virtual:
            _, _, done, users = heapq.heappop(self._heap)
            self._users -= users
            done.succeed()
        self._divide(max(1, self._users))
        self._plan()


class UsersLink(NamedTuple):
    """A link for one that stands for several equal users."""

    link: Link
    users: int

    def transfer(self, size: int) -> Event:
        """Move ``size`` bytes for each of the users."""
        return self.link.transfer(size, self.users)
