"""The tilings of ``blocked`` worth looking at for a problem on a machine: only those that fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hwmodel.arch import Arch
from hwmodel.problem import MatmulProblem
from hwmodel.quantities import ceil_div, round_down, round_up
from hwmodel.tiling import operands as sizes
from hwmodel.tiling.base import check_operands
from hwmodel.tiling.blocked import Blocked, Buffers
from hwmodel.tiling.operands import ACC_BYTES, FRACTAL, OperandKind

BASES = (16, 32, 64, 96, 128, 160, 192, 256, 320, 384, 512)
DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16)


class Space:
    """All sizes that fit, for one problem on one machine."""

    def __init__(self, problem: MatmulProblem, arch: Arch) -> None:
        self.problem, self.arch = problem, arch
        mx = check_operands(problem, arch)
        self.a = sizes.operand_kind(problem.a, mx=mx)
        self.b = sizes.operand_kind(problem.b, mx=mx)
        self.k_granule = max(self.a.k_granule, self.b.k_granule)

    def grids(self, cores: int | None = None) -> list[tuple[int, int]]:
        """Core grids [R, C] with as many cores as possible, and no row or column that stays without a tile."""
        most = cores or self.arch.spec.cores
        rows, columns = ceil_div(self.problem.m, FRACTAL), ceil_div(self.problem.n, self.b.n_granule)
        found = {(min(r, rows), min(most // r, columns)) for r in range(1, most + 1)}
        return sorted(found, key=lambda grid: (-grid[0] * grid[1], grid))

    def bases_m(self) -> list[int]:
        """Rows of a tile: multiples of 16 up to the problem."""
        return _up_to(BASES, round_up(self.problem.m, FRACTAL), FRACTAL, self.arch.spec.max_extent)

    def bases_n(self) -> list[int]:
        """Columns of a tile: multiples of the width's C0 up to the problem."""
        granule = self.b.n_granule
        return _up_to(BASES, round_up(self.problem.n, granule), granule, self.arch.spec.max_extent)

    def bases_k(self) -> list[int]:
        """K of a slice: multiples of the fractal up to the problem."""
        return _up_to(BASES, round_up(self.problem.k, self.k_granule), self.k_granule, self.arch.spec.max_extent)

    def fits_l0(self, m: int, k: int, n: int, l0: int, l0c: int) -> bool:
        """Whether slices and sums of that size fit their parts of L0A, L0B, the scale buffers and L0C."""
        arch = self.arch
        sums = m * round_up(n, FRACTAL) * ACC_BYTES
        return (
            sums <= arch.buffer_bytes("l0c") // l0c
            and self._fits("l0a", self.a, m, k, l0)
            and self._fits("l0b", self.b, n, k, l0)
        )

    def _fits(self, buffer: str, kind: OperandKind, rows: int, k: int, parts: int) -> bool:
        if kind.bytes_of(rows, k) > self.arch.buffer_bytes(buffer) // parts:
            return False
        scales = kind.scale_bytes(rows, k)
        return not scales or scales <= self.arch.buffer_bytes(f"{buffer}_mx") // parts

    def l1_bytes(self, m: int, k: int, n: int, panel_slices: int, scale_panels: int, l1: int) -> int:
        """Bytes of L1 that the panels and scales take."""
        whole = round_up(self.problem.k, k)
        panel, scales = min(k * panel_slices, whole), min(k * panel_slices * scale_panels, whole)
        parts = (
            self.a.bytes_of(m, panel),
            self.b.bytes_of(panel, n),
            self.a.scale_bytes(m, scales),
            self.b.scale_bytes(n, scales),
        )
        unit = self.arch.spec.buffers["l1"].allocation_bytes
        return l1 * sum(round_up(part, unit) for part in parts)

    def depths(self, m: int, k: int, n: int, l1: int) -> Iterator[tuple[int, int]]:
        """(panel_slices, scale_panels) that fit L1; depths beyond the problem's K are left out."""
        slices = ceil_div(self.problem.k, k)
        for panel in [depth for depth in DEPTHS if depth <= slices] or [1]:
            scaled = bool(self.a.cell_bytes or self.b.cell_bytes)
            for scales in [depth for depth in DEPTHS if (depth - 1) * panel < slices] if scaled else [1]:
                if self.l1_bytes(m, k, n, panel, scales, l1) <= self.arch.buffer_bytes("l1"):
                    yield panel, scales

    def deepest(self, m: int, k: int, n: int, l1: int) -> tuple[int, int] | None:
        """The deepest panels that fit, then the most panels for one load of scales."""
        return max(self.depths(m, k, n, l1), default=None)

    def candidates(
        self,
        *,
        grids: Sequence[tuple[int, int]],
        buffers: Sequence[Buffers],
        loop_orders: Sequence[str] = ("mn",),
        deepest_only: bool = False,
    ) -> Iterator[Blocked]:
        """Every tiling that fits, in a fixed order."""
        for parts in buffers:
            for m in self.bases_m():
                for n in self.bases_n():
                    for k in reversed(self.bases_k()):
                        if not self.fits_l0(m, k, n, parts.l0, parts.l0c):
                            continue
                        deepest = self.deepest(m, k, n, parts.l1)
                        depths = self.depths(m, k, n, parts.l1) if not deepest_only else [deepest] if deepest else []
                        for panel, scales in depths:
                            for grid in grids:
                                for order in loop_orders:
                                    yield Blocked(
                                        kind="blocked",
                                        core_grid=grid,
                                        base=(m, k, n),
                                        panel_slices=panel,
                                        scale_panels=scales,
                                        buffers=parts,
                                        loop_order=order,  # type: ignore[arg-type]
                                    )
                        if deepest_only and deepest:
                            break


def _up_to(sizes_: Sequence[int], extent: int, granule: int, most: int) -> list[int]:
    """Sizes that are multiples of ``granule``, the smallest one that covers ``extent`` included, none larger."""
    largest = max(min(extent, round_down(most, granule)), granule)
    return sorted({size for size in (*(round_up(size, granule) for size in sizes_), largest) if size <= largest})
