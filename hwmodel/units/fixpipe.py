"""FIXPIPE (pipe FIX): reads sums from L0C, casts them, and writes rows to GM."""

from __future__ import annotations

from fractions import Fraction
from math import gcd
from typing import Literal

from pydantic import Field

from hwmodel import numerics as nm
from hwmodel.program.instructions import Cast, Instruction, Store
from hwmodel.program.memory import Part, Window
from hwmodel.quantities import ceil_div
from hwmodel.units.base import Cycles, Rate, UnitKind, UnitSpec
from hwmodel.units.storage import Array, Storage


class FixpipeSpec(UnitSpec):
    """Rates and latencies of FIXPIPE; bytes are output bytes."""

    kind: Literal["fixpipe"] = "fixpipe"
    startup_cycles: Cycles = Field(description="for each instruction")
    bytes_per_cycle: Rate = Field(description="whole granules of output")
    row_floor_cycles: Rate = Field(description="least time for one row, however short")
    granule_bytes: int = Field(gt=0, description="unit of a GM write")
    partial_granule_factor: Rate = Field(
        description="time of a granule that is written in part (read, merged, written back), in whole granules"
    )


def cycles(spec: FixpipeSpec, params: Store) -> int:
    """``startup + sum over rows of max(floor, granules / rate)``; a granule written in part costs the factor more.

    Rows whose start has the same place in a granule cost the same; the places repeat after ``period`` rows.
    """
    length = params.cols * params.element_bytes
    granule = spec.granule_bytes
    period = granule // gcd(params.stride_bytes, granule)
    total = Fraction(0)
    for phase in range(min(period, params.rows)):
        begin = (params.start_bytes + phase * params.stride_bytes) % granule
        rows = ceil_div(params.rows - phase, period)
        total += rows * max(spec.row_floor_cycles, _row_bytes(spec, begin, length) / spec.bytes_per_cycle)
    return spec.startup_cycles + ceil_div(total, 1)


def _row_bytes(spec: FixpipeSpec, begin: int, length: int) -> Fraction:
    granule = spec.granule_bytes
    touched = ceil_div(begin + length, granule)
    partial = int(begin > 0) + int((begin + length) % granule > 0) if touched > 1 else int(length < granule)
    return (touched - partial) * granule + partial * granule * spec.partial_granule_factor


def capture(instruction: Instruction, storage: Storage) -> Array:
    """The sums, cast as they are when the store starts. A scale for each column is found by where the columns go."""
    (part,) = instruction.reads
    (window,) = instruction.writes
    assert isinstance(part, Part)
    assert isinstance(window, Window)
    cast = instruction.values
    assert isinstance(cast, Cast)
    scale = cast.scale
    if isinstance(scale, tuple):
        first = storage.origin(window)[1]
        scale = scale[first : first + window.cols]
    return nm.cast_out(storage.read(part), cast.dtype, cast.relu, cast.saturate, scale, cast.offset or None)


def commit(instruction: Instruction, storage: Storage, payload: Array) -> None:
    """Write the rows to GM when the store has ended."""
    (window,) = instruction.writes
    assert isinstance(window, Window)
    storage.store(window, payload)


UNIT = UnitKind(
    kind="fixpipe",
    spec=FixpipeSpec,
    engine="FIX",
    operations={"tstore": 3},
    spaces=frozenset({"l0c"}),
    cycles=cycles,
    gm_bytes=lambda params: (0, params.rows * params.cols * params.element_bytes),
    capture=capture,
    commit=commit,
    summary="L0C to GM with the cast (pipe FIX)",
)
