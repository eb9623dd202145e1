"""What all units have in common: a frozen specification, a pure cost, and what they do to values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from hwmodel.program.instructions import Instruction
from hwmodel.units.storage import Storage


def _exact(value: object) -> object:
    """Read 78.4 as 784/10, not as the nearest binary fraction."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float | str):
        return Fraction(str(value))
    return value


def _plain(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)


Rate = Annotated[
    Fraction,
    BeforeValidator(_exact, json_schema_input_type=float),
    PlainSerializer(_plain, return_type=float),
    Field(gt=0),
]
"""A positive rate (bytes or MACs a cycle), kept as an exact fraction."""

Cycles = Annotated[int, Field(ge=0)]
"""A non-negative whole number of cycles."""


class Spec(BaseModel):
    """Base of everything that is read from an arch file: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class UnitSpec(Spec):
    """Base of the units' specifications."""

    clock_mhz: Rate | None = Field(default=None, description="own clock; without it the machine's reference clock")


class Traffic(NamedTuple):
    """Bytes that an instruction moves over a shared link."""

    link: str
    size: int


@dataclass(frozen=True)
class UnitKind:
    """One entry of the table of units.

    ``engine`` is the pipe's name in programs and traces; ``operations`` maps each operation to its place in the
    pipeline (load < extract < multiply < drain), which tells a wait for input from a wait for space; ``spaces`` are
    the buffers it touches.
    ``cycles(spec, params)`` is the time an instruction takes apart from shared links, ``traffic(spec, params)`` what it
    moves over those. ``capture`` reads its operands from the storage at the start, ``commit`` writes what it made of
    them at the end. ``gm_bytes(params)`` is what it reads from and writes to global memory, ``macs(params)`` its
    multiply-adds.
    """

    kind: str
    engine: str
    spec: type[UnitSpec]
    operations: dict[str, int]
    spaces: frozenset[str]
    cycles: Callable[[Any, Any], int]
    capture: Callable[[Instruction, Storage], Any]
    commit: Callable[[Instruction, Storage, Any], None]
    traffic: Callable[[Any, Any], tuple[Traffic, ...]] = lambda _spec, _params: ()
    gm_bytes: Callable[[Any], tuple[int, int]] = lambda _params: (0, 0)
    macs: Callable[[Any], int] = lambda _params: 0
    summary: str = ""
