"""The PE array's clock guard: a burst begins slowly, and a quiet PE is a burst that has ended.

When the array starts to work after being mostly idle, its clock is held back for a while so that the supply current
does not jump (hardware facts 2.1, published for Trainium2 and 3). The law here: let the busy share of the last
``window`` be below ``busy_share`` when an instruction starts; then a burst begins, and everything within one
window of its start takes ``slowdown`` times as long.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction


class BurstThrottle:
    """Throttle of one engine; times in ticks."""

    def __init__(self, window: int, busy_share: Fraction, slowdown: Fraction) -> None:
        self.window = window
        self.busy_share = busy_share
        self.slowdown = slowdown
        self._work: deque[tuple[int, int]] = deque()
        self._busy = 0
        self._burst = 0
        self._begun = False

    def stretch(self, now: int, ticks: int) -> int:
        """Ticks that work of ``ticks`` at full clock takes from ``now`` on."""
        if not ticks:
            return 0
        held_back = self._begun and now < self._burst + self.window
        if not held_back and self._share_is_low(now):
            self._burst, self._begun, held_back = now, True, True
        if held_back:
            ticks = self._slow(self._burst + self.window - now, ticks)
        self._work.append((now, now + ticks))
        self._busy += ticks
        return ticks

    def _slow(self, left: int, ticks: int) -> int:
        """``ticks`` of work of which what happens in the next ``left`` ticks is slowed down."""
        slow = self.slowdown
        if ticks * slow <= left:
            return int(-(-ticks * slow // 1))
        return left + ticks - int(left / slow)

    def _share_is_low(self, now: int) -> bool:
        since = now - self.window
        while self._work and self._work[0][1] <= since:
            start, end = self._work.popleft()
            self._busy -= end - start
        partial = max(0, since - self._work[0][0]) if self._work else 0
        return self._busy - partial < self.busy_share * self.window
