"""Integer arithmetic for cycles and bytes. Nothing here rounds in floating point."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import gcd, lcm


def ceil_div(numerator: int | Fraction, denominator: int | Fraction) -> int:
    """Smallest integer not below ``numerator / denominator``, exactly."""
    return -(-numerator // denominator)


def round_up(value: int, multiple: int) -> int:
    """Smallest multiple of ``multiple`` not below ``value``."""
    return -(-value // multiple) * multiple


def round_down(value: int, multiple: int) -> int:
    """Largest multiple of ``multiple`` not above ``value``."""
    return value // multiple * multiple


def bits_to_bytes(bits: int) -> int:
    """Bytes that hold ``bits`` bits."""
    return ceil_div(bits, 8)


def common_rate(rates: Iterable[Fraction]) -> Fraction:
    """Smallest rate of which all ``rates`` are whole divisors: the tick rate of several clocks, exactly."""
    rates = list(rates)
    return Fraction(lcm(*(rate.numerator for rate in rates)), gcd(*(rate.denominator for rate in rates)))
