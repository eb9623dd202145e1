"""How a GEMM is split over cores: the core grid, what each core gets, and which cores do the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hwmodel.quantities import ceil_div


class Share(NamedTuple):
    """What one core computes: rows [row, row + rows) and columns [col, col + cols) of the output."""

    core: int
    row: int
    col: int
    rows: int
    cols: int


@dataclass(frozen=True)
class Group:
    """Cores with shares of the same size; the first one stands for all."""

    shares: tuple[Share, ...]

    @property
    def rows(self) -> int:
        """Rows of each share."""
        return self.shares[0].rows

    @property
    def cols(self) -> int:
        """Columns of each share."""
        return self.shares[0].cols


def split(extent: int, base: int, parts: int) -> list[tuple[int, int]]:
    """(start, size) of each part: ``ceil(ceil(extent/base)/parts) * base`` each, the last one the rest.

    Parts for which nothing is left are not listed.
    """
    size = ceil_div(ceil_div(extent, base), parts) * base
    return [(start, min(size, extent - start)) for start in range(0, extent, size)]


def shares(m: int, n: int, base_m: int, base_n: int, grid: tuple[int, int]) -> list[Share]:
    """Shares of all cores that have work; the block index runs over M first."""
    rows, cols = split(m, base_m, grid[0]), split(n, base_n, grid[1])
    return [
        Share(c * grid[0] + r, row, col, height, width)
        for c, (col, width) in enumerate(cols)
        for r, (row, height) in enumerate(rows)
    ]


def groups(all_shares: list[Share], *, fold: bool) -> list[Group]:
    """Cores by what they do; without folding each is a group of its own."""
    if not fold:
        return [Group((share,)) for share in all_shares]
    by_size: dict[tuple[int, int], list[Share]] = {}
    for share in all_shares:
        by_size.setdefault((share.rows, share.cols), []).append(share)
    return [Group(tuple(members)) for members in by_size.values()]
