"""Exact arithmetic for cycles and bytes. Nothing here rounds in floating point."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


MEAN_STEPS = 1 << 20
"""Means are whole multiples of one over this: a sum of such floats is exact in any order, far beyond any run."""


def exact_means(totals: Sequence[int], count: int) -> list[float]:
    """``totals`` divided by ``count``, as ints where they are whole, so that the means of parts sum to that of all.

    Each is off by less than a step of 2**-20. The sum of the first i means depends on the sum of the first i totals
    alone, however that is divided.
    """
    means: list[float] = []
    total = before = 0
    for one in totals:
        total += one
        steps = (2 * total * MEAN_STEPS + count) // (2 * count)
        mean, before = steps - before, steps
        means.append(mean // MEAN_STEPS if mean % MEAN_STEPS == 0 else mean / MEAN_STEPS)
    return means


def common_rate(rates: Iterable[Fraction]) -> Fraction:
    """Smallest rate of which all ``rates`` are whole divisors: the tick rate of several clocks, exactly."""
    rates = list(rates)
    return Fraction(lcm(*(rate.numerator for rate in rates)), gcd(*(rate.denominator for rate in rates)))
