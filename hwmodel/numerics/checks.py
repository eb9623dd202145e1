"""Checks of arguments that are no arrays: each returns the value or raises one clear line."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

from hwmodel.errors import NumericsError, unknown_name


def check_choice(what: str, value: Any, known: Collection[str]) -> None:
    """NumericsError with the nearest name when ``value`` is none of the names in ``known``."""
    if not isinstance(value, str) or value not in known:
        raise NumericsError(unknown_name(what, value, known))


def whole(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """``value`` as an int of ``low`` .. ``high``; NumericsError for another one and for what is no integer."""
    try:
        number = operator.index(value)
    except TypeError:
        raise NumericsError(f"{name}: expected an integer, not {value!r}") from None
    if (low is not None and number < low) or (high is not None and number > high):
        wanted = f"at least {low}" if high is None else f"{low} to {high}"
        raise NumericsError(f"{name}: expected {wanted}, not {number}")
    return number
