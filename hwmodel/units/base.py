"""What all units have in common: a frozen specification, a pure cost, and what they do to values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, NamedTuple, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from hwmodel.program.instructions import Instruction


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


class Timing(NamedTuple):
    """How an engine overlaps its instructions, in its own cycles.

    It takes the next one after ``issue``. This one ends after ``before``, then ``work`` on a server that the unit's
    engines share (in order for one engine, in equal shares among several), then ``after``.
    """

    issue: int
    before: int
    work: int = 0
    after: int = 0


class Pace(Protocol):
    """A clock that is slowed down at times: knows what its engine did before."""

    def stretch(self, now: int, ticks: int) -> int:
        """Ticks that work of ``ticks`` at full speed takes when it begins at ``now``; remembers that it was done."""
        ...


@dataclass(frozen=True)
class UnitKind:
    """One entry of the table of units.

    ``engine`` is the pipe's name in programs and traces, ``engines(spec)`` all of them where a unit has several;
    ``unit`` is the name under which its time is reported, where that is not its kind. ``operations`` maps each
    operation to its place in the pipeline (load < extract < multiply < drain < store), which tells a wait for input
    from a wait for space; ``spaces`` are the buffers it touches.
    ``cycles(spec, params)`` is the time an instruction takes apart from shared links, ``traffic(spec, params)`` what it
    moves over those, ``link_rates(spec)`` the most it takes from each in one of its cycles. ``capture`` reads its
    operands from the storage at the start, ``commit`` writes what it made of them at the end. ``gm_bytes(params)`` is
    what it reads from and writes to global memory, ``macs(params)`` its multiply-adds, ``peak_macs(spec, a, b)`` the
    most of them in a cycle.

    ``timing(spec, params)`` is given where instructions overlap: then ``cycles`` is how long each takes from start to
    end. ``pace(spec, ticks_per_cycle, engine)`` makes the throttle of an engine that has one.
    """

    kind: str
    engine: str
    spec: type[UnitSpec]
    operations: dict[str, int]
    spaces: frozenset[str]
    cycles: Callable[[Any, Any], int]
    capture: Callable[[Instruction, Any], Any]
    commit: Callable[[Instruction, Any, Any], None]
    traffic: Callable[[Any, Any], tuple[Traffic, ...]] = lambda _spec, _params: ()
    link_rates: Callable[[Any], dict[str, Fraction]] = lambda _spec: {}
    gm_bytes: Callable[[Any], tuple[int, int]] = lambda _params: (0, 0)
    macs: Callable[[Any], int] = lambda _params: 0
    summary: str = ""
    unit: str = ""
    engines: Callable[[Any], tuple[str, ...]] | None = None
    peak_macs: Callable[[Any, str, str], int] | None = None
    timing: Callable[[Any, Any], Timing] | None = None
    pace: Callable[[Any, int, str], Pace | None] | None = None

    def engines_of(self, spec: Any) -> tuple[str, ...]:
        """Names of the unit's engines."""
        return (self.engine,) if self.engines is None else self.engines(spec)
