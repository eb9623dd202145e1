"""A cycle-approximate hardware model of NPU matmul pipelines with bit-exact values.

``hwmodel.load`` reads a scenario, ``hwmodel.simulate`` runs it; ``hwmodel.compare`` and ``hwmodel.sweep`` make tables
of many. Everything is loaded when it is first used, so that ``import hwmodel`` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing, or anything else here, is what every program that uses us would wait for
if TYPE_CHECKING:
    from typing import Any

    from hwmodel.errors import HwmodelError
    from hwmodel.experiment import simulate
    from hwmodel.result import Result
    from hwmodel.scenario import load
    from hwmodel.study.api import compare, sweep

__version__ = "0.1.0"

_HOMES = {
    "HwmodelError": "hwmodel.errors",
    "Result": "hwmodel.result",
    "load": "hwmodel.scenario",
    "simulate": "hwmodel.experiment",
    "compare": "hwmodel.study.api",
    "sweep": "hwmodel.study.api",
}
"""Module that each public name comes from."""

__all__ = ["HwmodelError", "Result", "__version__", "compare", "load", "simulate", "sweep"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
