"""How functions are compiled, and their argument types. Inputs are read-only types, which take writeable arrays too."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numba

types: Any = importlib.import_module("numba.core.types")
f32, f64 = types.float32, types.float64
u8, u16, u32 = types.uint8, types.uint16, types.uint32
i64, boolean, void = types.int64, types.boolean, types.void


def given(dtype: Any, ndim: int, layout: str = "C") -> Any:
    """An input array; layout ``A`` takes any strides."""
    return types.Array(dtype, ndim, layout, readonly=True)


def made(dtype: Any, ndim: int, layout: str = "C") -> Any:
    """An array that the function writes."""
    return types.Array(dtype, ndim, layout)


class Compiled:
    """A function that is compiled for one signature when it is first called, or taken from numba's cache then.

    The cache lies beside the source where that can be written, else in the user's cache folder (or NUMBA_CACHE_DIR);
    where there is no such place, the function is compiled in every process. ``fastmath`` is off.
    """

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        self.function = function
        self.signature = signature
        self.ready: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Call it, compiled."""
        if self.ready is None:
            self.ready = self.compile()
        return self.ready(*arguments)

    def compile(self) -> Any:
        """The compiled function."""
        try:
            return numba.njit([self.signature], cache=True, nogil=True, error_model="numpy")(self.function)
        except RuntimeError:
            return numba.njit([self.signature], nogil=True, error_model="numpy")(self.function)


def compiled(signature: Any) -> Callable[[Callable[..., Any]], Compiled]:
    """Decorate a function that shall be compiled for ``signature``."""
    return lambda function: Compiled(function, signature)
