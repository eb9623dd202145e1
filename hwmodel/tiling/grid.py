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
    start_bytes: int = 0
    """Where its rows of the output start, counted from a boundary of GM (0 where each row starts elsewhere)."""

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


def groups(all_shares: list[Share], row_bytes: int, element_bytes: int, line_bytes: int, *, fold: bool) -> list[Group]:
    """Cores by what they do; without folding each is a group of its own.

    Cores do the same when their shares have one size and their rows of the output (``row_bytes`` apart) start at the
    same place of a line of GM. Where rows are no whole lines, each starts elsewhere in any core, and none differs.
    """
    aligned = row_bytes % line_bytes == 0
    alike: dict[tuple[int, int, int, int], list[Share]] = {}
    for share in all_shares:
        start = share.col * element_bytes % line_bytes if aligned else 0
        alike.setdefault((share.rows, share.cols, start, -1 if fold else share.core), []).append(share)
    return [Group(tuple(members), start) for (_, _, start, _), members in alike.items()]
