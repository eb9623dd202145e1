"""Argument types of compiled functions. Inputs are read-only types, which take writeable arrays too."""

from __future__ import annotations

import importlib
from typing import Any

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
