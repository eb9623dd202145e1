"""The Cube (pipe M): one 16 x 16 fractal of results, 32 bytes deep in K, each cycle. Sums stay in L0C."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from hwmodel import numerics as nm
from hwmodel.program.instructions import Instruction, Matmul, Order
from hwmodel.program.memory import Part, Tile
from hwmodel.quantities import ceil_div
from hwmodel.units.base import Cycles, Rate, Spec, UnitKind, UnitSpec
from hwmodel.units.storage import Array, Storage

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


class Operands(NamedTuple):
    """What a matmul found in L0 when it started: codes and scale cells, and the sums it goes on from."""

    a: Array
    b: Array
    a_scale: Array | None
    b_scale: Array | None
    acc: Array | None


def capture(instruction: Instruction, storage: Storage) -> Operands:
    """Read codes, cells and sums. The operands are L0A, L0B, then their scale tiles, whichever there are."""
    params = instruction.params
    assert isinstance(params, Matmul)
    found: dict[str, Array] = {}
    for part in instruction.reads:
        assert isinstance(part, Part)
        if part.tile.kind != "acc":
            found[part.tile.space] = storage.read(part)
    acc = None
    if params.accumulate:
        acc = storage.read(_acc_part(instruction))
    return Operands(found["l0a"], found["l0b"], found.get("l0a_mx"), found.get("l0b_mx"), acc)


def _acc_part(instruction: Instruction) -> Part:
    (tile,) = instruction.writes
    assert isinstance(tile, Tile)
    return Part(tile, 0, 0, tile.rows, tile.cols, tile.offset, tile.size)


def commit(instruction: Instruction, storage: Storage, payload: Operands) -> None:
    """Decode what was found, multiply and add, and leave the sums in L0C."""
    params, how = instruction.params, instruction.values
    assert isinstance(params, Matmul)
    (tile,) = instruction.writes
    assert isinstance(tile, Tile)
    order = how if isinstance(how, Order) else Order()
    storage.write(tile, multiply(params, payload, order))


def multiply(params: Matmul, operands: Operands, order: Order) -> Array:
    """Sums [m, n] of one instruction: fp32, or exact int32 for integer operands."""
    if nm.DTYPES[params.a].is_integer:
        return nm.matmul_int(nm.decode_int(operands.a, params.a), nm.decode_int(operands.b, params.b), acc=operands.acc)
    whole = order.scale_on == "operand"
    a = decode(operands.a, operands.a_scale, params.a, rows=params.m, k=params.k, k_axis=1, scaled=whole)
    b = decode(operands.b, operands.b_scale, params.b, rows=params.n, k=params.k, k_axis=0, scaled=whole)
    group = order.group if order.order == "group" else None
    return nm.matmul(a, b, order.order, acc=operands.acc, group=group, scale_on=order.scale_on)


def decode(
    codes: Array, cells: Array | None, dtype: str, *, rows: int, k: int, k_axis: int, scaled: bool = True
) -> Any:
    """fp32 operand from codes and scale cells; the 16-bit ones and plain formats have no cells.

    ``scaled`` False leaves codes and scales apart, as a block tensor.
    """
    record = nm.DTYPES[dtype]
    if cells is None or record.block is None:
        return nm.decode(codes, record.element)
    data = np.ascontiguousarray(cells).reshape(-1)
    if scaled:
        return nm.decode_operand(codes, nm.read_scale_cells(data, rows, k, dtype), dtype, k_axis)
    scales = nm.read_scale_cells(data, rows, k, dtype, k_axis)
    return nm.BlockTensor(codes, scales, dtype, k_axis, (1, record.block.group))


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
