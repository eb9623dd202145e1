"""Models as plain data that YAML can hold and our reader reads back equal."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pydantic import BaseModel

from hwmodel.config.fields import TAGS


def plain(value: Any) -> Any:
    """A model as mappings, lists, numbers and text; every field is there. Exact fractions stay exact."""
    if isinstance(value, BaseModel):
        names = sorted(type(value).model_fields, key=lambda name: name not in TAGS)
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Fraction):
        return _number(value)
    return value


def _number(value: Fraction) -> int | float | str:
    if value.denominator == 1:
        return value.numerator
    near = float(value)
    return near if Fraction(repr(near)) == value else f"{value.numerator}/{value.denominator}"
