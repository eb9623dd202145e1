"""Discrete events: the only package that imports SimPy. It knows time, order and sharing, and no unit."""

import simpy

from hwmodel.sim.engine import Executor, InOrderEngine
from hwmodel.sim.kernel import Banks, Counter, Kernel
from hwmodel.sim.link import Link, UsersLink
from hwmodel.sim.overlapped import Overlap, OverlappedEngine

SIMPY_VERSION = str(simpy.__version__)

__all__ = [
    "SIMPY_VERSION",
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
