"""Which bytes of a load miss in the L2: a law, not a simulation of the cache.

* First use: each byte comes from HBM once for the whole chip. Cores that load the same bytes at about the same time
  (a row of the grid shares A, a column shares B) miss an equal share each.
* Every later use hits with probability ``min(1, capacity / distance)``, where ``distance`` is how many different bytes
  compete for the cache since the last one: what has been replaced is in proportion to how far they exceed the capacity.
  A working set within the capacity misses only once.
* An operand that is used again for the next tile competes with what the chip touched in between. One that is used again
  only after a whole sweep competes with all of A and B: the cache does not know which rows are done with, and keeps
  them as long as others. Loads of the published kernels of A3 and A5 slow down where A and B exceed the L2 together.
"""

from __future__ import annotations

from hwmodel.arch import Arch
from hwmodel.quantities import ceil_div, round_up


def first_use_misses(arch: Arch, size: int, sharers: int) -> int:
    """Bytes of a first load of ``size`` bytes that this core fetches from HBM, whole L2 lines."""
    return _lines(arch, ceil_div(size, sharers), size)


def reuse_misses(arch: Arch, size: int, sharers: int, distance_bytes: int) -> int:
    """Bytes that a later load misses when ``distance_bytes`` were touched since the last use."""
    if arch.spec.l2 is None:
        return size
    capacity = arch.spec.l2.capacity_bytes
    if distance_bytes <= capacity:
        return 0
    missed = size * (distance_bytes - capacity) // distance_bytes
    return _lines(arch, ceil_div(missed, sharers), size)


def _lines(arch: Arch, missed: int, size: int) -> int:
    line = arch.spec.l2.line_bytes if arch.spec.l2 else 1
    return min(size, round_up(missed, line))
