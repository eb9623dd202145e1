"""blocked: the usual hand-written GEMM. A core grid splits M and N; each core runs the canonical loop.

For each tile of the output (base m x n), K runs in slices of base k; ``panel_slices`` slices are loaded together as a
panel of A and one of B, scales every ``scale_panels`` panels. L1, L0A/L0B and L0C hold one or two of each, ordered by
flags exactly as the public kernels do it (hardware facts, section 4). K accumulates in L0C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from hwmodel.arch import Arch
from hwmodel.errors import CapacityError, InputError
from hwmodel.problem import Accumulate, MatmulProblem
from hwmodel.program import CoreProgram, Program, Tensor
from hwmodel.program.instructions import GM_LINE_BYTES
from hwmodel.quantities import ceil_div, round_up
from hwmodel.tiling import operands as sizes
from hwmodel.tiling.base import Tiling, TilingParams, check_extents, check_operands
from hwmodel.tiling.blocked_loop import CoreLoop, L1Layout
from hwmodel.tiling.grid import Group, Share, groups, shares
from hwmodel.tiling.operands import ACC_BYTES, FRACTAL, OperandKind
from hwmodel.units.base import Spec

Count = Literal[1, 2]


class Buffers(Spec):
    """How many panels, slices and output tiles are in flight."""

    l1: Count = Field(default=2, description="panels of A and B in L1")
    l0: Count = Field(default=2, description="slices in L0A and L0B")
    l0c: Count = Field(default=1, description="output tiles in L0C")


class Blocked(TilingParams):
    """Parameters of blocked."""

    kind: Literal["blocked"]
    core_grid: tuple[int, int] = Field(default=(1, 1), description="[R, C]: R splits M, C splits N")
    base: tuple[int, int, int] = Field(default=(128, 64, 256), description="[m, k, n] of one matmul instruction")
    panel_slices: int = Field(default=4, gt=0, description="K slices loaded together")
    scale_panels: int = Field(default=1, gt=0, description="panels served by one load of scales")
    buffers: Buffers = Field(default_factory=Buffers)
    loop_order: Literal["mn", "nm"] = Field(default="mn", description="outer loop first: mn reloads B, nm reloads A")
    cores: Literal["representative", "all"] = Field(
        default="representative", description="simulate one of the cores that do the same, or all of them"
    )


@dataclass(frozen=True)
class BlockedPlan:
    """blocked for one problem: who computes what, and where everything lies. Everything fits."""

    problem: MatmulProblem
    accumulate: Accumulate
    arch: Arch
    params: Blocked
    mx: bool
    layout: L1Layout
    groups: tuple[Group, ...]
    picked_by: str = ""
    """The tiling that chose these parameters; empty where the scenario states them."""

    k_tile = 0
    k_block = 0

    @property
    def k_slice(self) -> int:
        """K of one instruction; 0 where one takes all."""
        return self.params.base[1] if self.params.base[1] < self.problem.k else 0

    @property
    def active_cores(self) -> int:
        """Cores that have work."""
        return sum(len(group.shares) for group in self.groups)

    def summary(self) -> dict[str, Any]:
        """For result.json."""
        params = self.params
        return {
            "kind": "blocked",
            "core_grid": list(params.core_grid),
            "base": list(params.base),
            "panel_slices": params.panel_slices,
            "scale_panels": params.scale_panels,
            "buffers": params.buffers.model_dump(),
            "loop_order": params.loop_order,
            "cores": params.cores,
            "active_cores": self.active_cores,
            **({"picked_by": self.picked_by} if self.picked_by else {}),
            "simulated_cores": len(self.groups),
            "tiles_per_core": ceil_div(self.groups[0].rows, params.base[0])
            * ceil_div(self.groups[0].cols, params.base[2]),
        }

    def program(self) -> Program:
        """Lower to instructions: one list for each group of equal cores."""
        tensors = tensors_of(self)
        loops: dict[tuple[int, int, int], Any] = {}
        cores = []
        for group in self.groups:
            alike = (group.rows, group.cols, group.start_bytes)
            if alike not in loops:
                loops[alike] = CoreLoop(self, group, tensors).instructions()
            first, *rest = group.shares
            cores.append(
                CoreProgram(first.core, loops[alike], _origins(first), tuple(_origins(share) for share in rest))
            )
        return Program(tensors, tuple(cores))


def _origins(share: Share) -> dict[str, tuple[int, int]]:
    return {
        "a": (share.row, 0),
        "a_scale": (share.row, 0),
        "b": (0, share.col),
        "b_scale": (share.col, 0),
        "out": (share.row, share.col),
    }


def tensors_of(plan: BlockedPlan) -> dict[str, Tensor]:
    """The tensors of a plan in global memory."""
    problem = plan.problem
    m, k, n = problem.m, problem.k, problem.n
    tensors = {
        "a": Tensor("a", problem.a, m, k),
        "b": Tensor("b", problem.b, k, n, "row" if problem.layout.b == "kn" else "col"),
        "out": Tensor("out", problem.out, m, n),
    }
    if plan.layout.a.cell_bytes:
        tensors["a_scale"] = Tensor("a_scale", problem.a, m, k, kind="scale")
    if plan.layout.b.cell_bytes:
        tensors["b_scale"] = Tensor("b_scale", problem.b, n, k, kind="scale")
    return tensors


def plan(problem: MatmulProblem, accumulate: Accumulate, arch: Arch, params: Blocked) -> BlockedPlan:
    """Split over the cores, place everything in the buffers and check that it fits."""
    mx = check_operands(problem, arch)
    a = sizes.operand_kind(problem.a, mx=mx)
    b = sizes.operand_kind(problem.b, mx=mx)
    rows, columns = params.core_grid
    if rows < 1 or columns < 1 or rows * columns > arch.spec.cores:
        raise InputError(
            f"tiling.core_grid: expected R x C from 1 to {arch.spec.cores} cores of {arch.name}, not {rows} x {columns}"
        )
    base_m, base_k, base_n = params.base
    _granule("base[0] (m)", base_m, FRACTAL)
    granule = max(a.k_granule, b.k_granule)
    _granule("base[1] (k)", base_k, granule)
    _granule("base[2] (n)", base_n, max(b.n_granule, FRACTAL))
    check_extents(arch, m=base_m, k=base_k, n=base_n)
    everyone = shares(problem.m, problem.n, base_m, base_n, params.core_grid)
    layout = L1Layout.of(arch, a, b, params, problem.k)
    _check_fit(arch, params, layout)
    element = sizes.operand_kind(problem.out, mx=False).bits // 8
    fold = params.cores == "representative"
    found = groups(everyone, problem.n * element, element, GM_LINE_BYTES, fold=fold)
    return BlockedPlan(problem, accumulate, arch, params, mx, layout, tuple(found))


def _granule(name: str, value: int, granule: int) -> None:
    if value < 1 or value % granule:
        raise InputError(f"tiling.{name}: expected a positive multiple of {granule}, not {value}")


def _check_fit(arch: Arch, params: Blocked, layout: L1Layout) -> None:
    base_m, base_k, base_n = params.base
    a, b, buffers = layout.a, layout.b, params.buffers
    _fit(arch, "l1", layout.end, 1, f"{buffers.l1} panels of A and B with {params.panel_slices} slices of K {base_k}")
    what = f"a slice of {base_m} x {base_k} {a.dtype}"
    _fit(arch, "l0a", a.bytes_of(base_m, base_k), buffers.l0, what)
    _scale_fit(arch, "l0a_mx", a, base_m, base_k, buffers.l0)
    _fit(arch, "l0b", b.bytes_of(base_k, base_n), buffers.l0, f"a slice of {base_k} x {base_n} {b.dtype}")
    _scale_fit(arch, "l0b_mx", b, base_n, base_k, buffers.l0)
    sums = base_m * round_up(base_n, FRACTAL) * ACC_BYTES
    _fit(arch, "l0c", sums, buffers.l0c, f"a tile of {base_m} x {base_n} sums")


def _scale_fit(arch: Arch, buffer: str, kind: OperandKind, rows: int, k: int, parts: int) -> None:
    if kind.cell_bytes:
        _fit(arch, buffer, kind.scale_bytes(rows, k), parts, f"scales of a slice, {rows} x {k} {kind.dtype},")


def _fit(arch: Arch, buffer: str, needed: int, parts: int, what: str) -> None:
    if buffer not in arch.spec.buffers:
        raise InputError(f"{arch.name} has no buffer {buffer}, which {what} needs")
    there = arch.buffer_bytes(buffer) // parts
    if needed > there:
        raise CapacityError(f"{buffer} (one of {parts} parts)" if parts > 1 else buffer, needed, there, what)


TILING = Tiling(
    kind="blocked",
    family="ascend",
    params=Blocked,
    plan=plan,
    summary="core grid, panels in L1, double-buffered slices, K accumulated in L0C (the usual GEMM)",
)
