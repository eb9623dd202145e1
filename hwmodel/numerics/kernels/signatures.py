"""How functions are compiled, and their argument types. Inputs are read-only types, which take writeable arrays too."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

import numba

_F = TypeVar("_F", bound=Callable[..., Any])
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


def compiled(*signatures: Any) -> Callable[[_F], _F]:
    """Compile a function for these signatures when its module is imported, or take it from numba's cache.

    The cache lies beside the source where that can be written, else in the user's cache folder (or NUMBA_CACHE_DIR);
    where there is no such place, the function is compiled in every process.
    """

    def wrap(function: _F) -> _F:
        made_function: Any
        try:
            made_function = numba.njit(list(signatures), cache=True, nogil=True, error_model="numpy")(function)
        except RuntimeError:
            made_function = numba.njit(list(signatures), nogil=True, error_model="numpy")(function)
        result: _F = made_function
        return result

    return wrap
