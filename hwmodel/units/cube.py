"""The Cube (pipe M): one 16 x 16 fractal of results, 32 bytes deep in K, each cycle. Sums stay in L0C."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, NamedTuple

from pydantic import Field

from hwmodel.program.instructions import Instruction, Matmul, Order
from hwmodel.program.memory import Part, Tile
from hwmodel.quantities import ceil_div
from hwmodel.units.base import Cycles, Rate, Spec, UnitKind, UnitSpec
from hwmodel.units.storage import Array, Lazy, Storage
from hwmodel.units.sums import Operands, Step, Sums

FRACTAL = 16


class OperandRate(Spec):
    """How fast the Cube works on one operand width."""

    k_per_fractal: int = Field(gt=0, description="K elements one step contracts")
    passes: Rate = Field(default=Fraction(1), description="steps needed for one fractal (fp32 is split)")


class CubeSpec(UnitSpec):
    """Rates and latencies of the Cube."""

    kind: Literal["cube"] = "cube"
    startup_cycles: Cycles = Field(description="for each instruction, before the first fractal and after the last")
    fractals: dict[str, OperandRate] = Field(description="by operand dtype; of a mixed pair the slower one counts")


def cycles(spec: CubeSpec, params: Matmul) -> int:
    """``startup + passes x ceil(M/16) x ceil(K/k) x ceil(N/16)`` (hardware facts 1.3 and 2.4.1)."""
    a, b = spec.fractals[params.a], spec.fractals[params.b]
    slower = a if a.passes * b.k_per_fractal >= b.passes * a.k_per_fractal else b
    steps = ceil_div(params.m, FRACTAL) * ceil_div(params.k, slower.k_per_fractal) * ceil_div(params.n, FRACTAL)
    return spec.startup_cycles + ceil_div(slower.passes * steps, 1)


def macs_per_cycle(spec: CubeSpec, a: str, b: str) -> int:
    """Peak multiply-adds a cycle for a pair of operand dtypes."""
    rates = (spec.fractals[a], spec.fractals[b])
    return int(min(FRACTAL * FRACTAL * rate.k_per_fractal / rate.passes for rate in rates))


class Captured(NamedTuple):
    """What a matmul found when it started: operands in L0, and the sums in L0C that it goes on from."""

    operands: Operands
    before: Array | Lazy | None


def capture(instruction: Instruction, storage: Storage) -> Captured:
    """Read codes, cells and sums. The operands are L0A, L0B, then their scale tiles, whichever there are."""
    params = instruction.params
    assert isinstance(params, Matmul)
    found: dict[str, Array] = {}
    for part in instruction.reads:
        assert isinstance(part, Part)
        if part.tile.kind != "acc":
            found[part.tile.space] = storage.read(part)
    operands = Operands(found["l0a"], found["l0b"], found.get("l0a_mx"), found.get("l0b_mx"))
    (tile,) = instruction.writes
    assert isinstance(tile, Tile)
    return Captured(operands, storage.look(tile) if params.accumulate else None)


def commit(instruction: Instruction, storage: Storage, payload: Captured) -> None:
    """Multiply what was found, add, and leave the sums in L0C."""
    params, how = instruction.params, instruction.values
    assert isinstance(params, Matmul)
    (tile,) = instruction.writes
    assert isinstance(tile, Tile)
    order = how if isinstance(how, Order) else Order()
    storage.write(tile, Sums(payload.before, Step(params, payload.operands, order, storage.decoded)))


UNIT = UnitKind(
    kind="cube",
    spec=CubeSpec,
    engine="M",
    operations={"tmatmul": 2, "tmatmul_mx": 2},
    spaces=frozenset({"l0a", "l0b", "l0a_mx", "l0b_mx", "l0c"}),
    cycles=cycles,
    macs=lambda params: params.m * params.k * params.n,
    peak_macs=macs_per_cycle,
    capture=capture,
    commit=commit,
    summary="matrix multiply into L0C (pipe M)",
)
