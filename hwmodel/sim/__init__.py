"""Discrete events: the only package that imports SimPy. It knows time, order and sharing, and no unit."""

from hwmodel.sim.engine import Executor, InOrderEngine
from hwmodel.sim.kernel import Banks, Counter, Kernel
from hwmodel.sim.link import Link, UsersLink
from hwmodel.sim.overlapped import Overlap, OverlappedEngine

__all__ = [
    "Banks",
    "Counter",
    "Executor",
    "InOrderEngine",
    "Kernel",
    "Link",
    "Overlap",
    "OverlappedEngine",
    "UsersLink",
]
