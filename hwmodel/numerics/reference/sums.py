"""Dot products in a stated order, one rounding a line, on exact fractions (finite values)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hwmodel.numerics.reference.codec import Value, decode, encode, finite, from_float


def fp32(number: Fraction, negative_zero: bool = False) -> Value:
    """Nearest fp32 of an exact number, half-even."""
    return decode(encode(finite(number, negative_zero), "fp32", "ieee"), "fp32")


def _add(x: Value, y: Value) -> Value:
    """fp32 sum; an exact zero is -0 only when both are."""
    total = x.exact + y.exact
    return fp32(total, negative_zero=total == 0 and x.negative and y.negative)


def _multiply(x: Value, y: Value) -> Value:
    return fp32(x.exact * y.exact, negative_zero=x.negative != y.negative)


def sequential(a: Sequence[float], b: Sequence[float], start: float = 0.0) -> float:
    """((start + a_0 b_0) + a_1 b_1) + ..., every product and sum rounded to fp32."""
    total = from_float(start)
    for x, y in zip(a, b, strict=True):
        total = _add(total, _multiply(from_float(x), from_float(y)))
    return to_float(total)


def grouped(a: Sequence[float], b: Sequence[float], group: int, start: float = 0.0) -> float:
    """start + runs of ``group``, each exact and rounded once, added in fp32."""
    total = from_float(start)
    for at in range(0, len(a), group):
        pairs = zip(a[at : at + group], b[at : at + group], strict=True)
        total = _add(total, fp32(sum((Fraction(x) * Fraction(y) for x, y in pairs), Fraction(0))))
    return to_float(total)


def to_float(value: Value) -> float:
    """Python float of an fp32 value."""
    if value.magnitude is None:
        return float("nan") if value.is_nan else float("-inf") if value.negative else float("inf")
    return -float(value.magnitude) if value.negative else float(value.magnitude)
