"""Lower bounds of blocked tilings from a few products, without a plan: microseconds where `bounds` takes a millisecond.

Proven for the same reasons, on the core with the largest share: its engines' instructions taken alone, what must
happen before the first and after the last of them, and sums where two engines take turns. Loads are taken as hits or as
misses, whichever is faster, stores where they start best, and scales are left out: that is never too much.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from hwmodel.problem import MatmulProblem
from hwmodel.program.instructions import GM_LINE_BYTES, Extract, Load, Matmul, Store
from hwmodel.quantities import ceil_div
from hwmodel.tiling import operands as sizes
from hwmodel.tiling.blocked import Buffers
from hwmodel.tiling.bounds import Costs
from hwmodel.tiling.grid import shares
from hwmodel.tiling.space import Space


class _Work(NamedTuple):
    """What a core does whatever its panels and buffers, in ticks."""

    cube: int
    fix: int
    extracts: int
    first_b: int
    """Extract of B for the first matmul."""
    first_tile: int
    """Matmuls of the first tile."""
    tail: int
    """The last matmul and the last store."""
    last_store: int


class Quick:
    """Bounds in cycles for one problem and the tilings of one space."""

    def __init__(self, problem: MatmulProblem, space: Space, costs: Costs) -> None:
        self.problem, self.sizes, self.cost = problem, space, costs
        self.arch = costs.arch
        self.launch = self.arch.spec.launch_cycles * self.arch.ticks_per_cycle
        self.element = sizes.operand_kind(problem.out, mx=False).bits // 8
        self.work = lru_cache(None)(self._work)
        self.loads = lru_cache(None)(self._loads)

    def family(self, m: int, k: int, n: int, grid: tuple[int, int]) -> int:
        """No tiling with this base and grid takes fewer: its panels are as deep as can be, the first one slice deep."""
        work = self.work(m, k, n, grid)
        deepest = self.sizes.deepest(m, k, n, 1)
        loads = self.loads(m, k, n, grid, deepest[0]) if deepest is not None else 0
        filled = sum(self._first_loads(m, k, n, grid)) + work.first_b
        return self._cycles(
            filled + work.cube + work.last_store, filled + work.first_tile + work.fix, loads + work.tail
        )

    def member(self, m: int, k: int, n: int, grid: tuple[int, int], panel: int, parts: Buffers) -> int:
        """The same for one depth and buffering: engines that share one buffer take turns."""
        work = self.work(m, k, n, grid)
        first_a, first_b = self._first_loads(m, k * panel, n, grid)
        filled = first_a + first_b + work.first_b
        found = [
            self.loads(m, k, n, grid, panel) + work.tail,
            first_a + work.extracts + work.tail,
            filled + work.cube + (work.fix if parts.l0c == 1 else work.last_store),
            filled + work.first_tile + work.fix,
        ]
        if parts.l0 == 1:
            found.append(first_a + work.extracts + work.cube + work.last_store)
        return self._cycles(*found)

    def _cycles(self, *ticks: int) -> int:
        return ceil_div(self.launch + max(ticks), self.arch.ticks_per_cycle)

    def _largest(self, m: int, n: int, grid: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of the first core, which has a largest share."""
        share = shares(self.problem.m, self.problem.n, m, n, grid)[0]
        return share.rows, share.cols

    def _work(self, m: int, k: int, n: int, grid: tuple[int, int]) -> _Work:
        rows, cols = self._largest(m, n, grid)
        cube = fix = extracts = matmul = store = 0
        slices = _parts(self.problem.k, k)
        for height, high in _parts(rows, m):
            for width, wide in _parts(cols, n):
                count = high * wide
                for depth, deep in slices:
                    matmul = self._matmul(height, depth, width)
                    cube += count * deep * matmul
                    extracts += count * deep * sum(self._extracts(height, depth, width))
                store = self._store(rows, m, height, cols, n, width)
                fix += count * store
        height, width = min(m, rows), min(n, cols)
        first_tile = sum(deep * self._matmul(height, depth, width) for depth, deep in slices)
        first_b = self._extracts(height, slices[0][0], width)[1]
        return _Work(cube, fix, extracts, first_b, first_tile, matmul + store, store)

    def _matmul(self, m: int, k: int, n: int) -> int:
        return self.cost("M", Matmul(m, k, n, self.problem.a, self.problem.b, True))

    def _extracts(self, m: int, k: int, n: int) -> tuple[int, int]:
        """Of a slice of A and of B, without scales."""
        a = sizes.l0_tile(self.sizes.a, "l0a", 0, m, k, "NZ").size
        b = sizes.l0_tile(self.sizes.b, "l0b", 0, k, n, "ZN").size
        return self.cost("MTE1", Extract(a, "l0a")), self.cost("MTE1", Extract(b, "l0b"))

    def _store(self, rows: int, m: int, height: int, cols: int, n: int, width: int) -> int:
        """The cheapest store of a tile of that size, wherever its rows start."""
        stride = self.problem.n * self.element
        return min(
            self.cost("FIX", Store(height, width, self.element, stride, (row + col) % GM_LINE_BYTES))
            for row in _starts(rows, m, height, stride)
            for col in _starts(cols, n, width, self.element)
        )

    def _loads(self, m: int, k: int, n: int, grid: tuple[int, int], panel: int) -> int:
        rows, cols = self._largest(m, n, grid)
        panels = _parts(self.problem.k, k * panel)
        total = 0
        for height, high in _parts(rows, m):
            for width, wide in _parts(cols, n):
                total += high * wide * sum(deep * sum(self._panel(height, depth, width)) for depth, deep in panels)
        return total

    def _first_loads(self, m: int, depth: int, n: int, grid: tuple[int, int]) -> tuple[int, int]:
        rows, cols = self._largest(m, n, grid)
        return self._panel(min(m, rows), min(depth, self.problem.k), min(n, cols))

    def _panel(self, m: int, k: int, n: int) -> tuple[int, int]:
        """Loads of a panel of A and of B."""
        return self._load(ceil_div(m * k * self.sizes.a.bits, 8)), self._load(ceil_div(k * n * self.sizes.b.bits, 8))

    def _load(self, size: int) -> int:
        hit, miss = Load(size, 1, size, 0), Load(size, 1, size, size)
        return min(self.cost("MTE2", hit), self.cost("MTE2", miss))


def _parts(extent: int, base: int) -> list[tuple[int, int]]:
    """(size, how many) of the tiles along one dimension, the last one's size last."""
    whole, rest = divmod(extent, base)
    return ([(base, whole)] if whole else []) + ([(rest, 1)] if rest else [])


def _starts(extent: int, base: int, size: int, step: int) -> set[int]:
    """Where tiles of ``size`` begin along one dimension, in bytes from a boundary of GM."""
    found = range(0, extent, base)
    return {start * step % GM_LINE_BYTES for start in found if min(base, extent - start) == size}
