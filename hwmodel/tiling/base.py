"""What all tilings have in common: parameters, a plan, and the program that comes out of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hwmodel.arch import Arch
from hwmodel.errors import InputError, did_you_mean
from hwmodel.inputs import Operand
from hwmodel.numerics import DTYPES
from hwmodel.problem import Accumulate, MatmulProblem
from hwmodel.program import Program
from hwmodel.units.base import Spec
from hwmodel.units.storage import Array


class TilingParams(Spec):
    """Base of the parameters of a tiling, as they stand under ``tiling:`` in a scenario."""


class Plan(Protocol):
    """A tiling worked out for one problem on one machine; everything fits."""

    @property
    def k_tile(self) -> int:
        """K of one accumulation chain that the reference must split at; 0 where K is one chain."""
        ...

    @property
    def k_slice(self) -> int:
        """K of one instruction, from whose sums the next one goes on; 0 where one instruction takes all of K."""
        ...

    @property
    def k_block(self) -> int:
        """K whose sums are added up outside the accumulator, block after block in fp32; 0 where nothing is."""
        ...

    def summary(self) -> dict[str, Any]:
        """What result.json says under ``tiling``."""
        ...

    def program(self) -> Program:
        """The instructions."""
        ...


@dataclass(frozen=True)
class Tiling:
    """One entry of the table of tilings."""

    kind: str
    family: str
    params: type[TilingParams]
    plan: Callable[[MatmulProblem, Accumulate, Arch, Any], Plan]
    summary: str = ""
    memory: Callable[[Any, dict[str, Operand]], dict[str, Array]] | None = None
    """Arrays of the tensors in global memory, from plan and operands; None: as they lie on Ascend."""
    bound: Callable[[Any], int] | None = None
    """Cycles that no run of a plan falls short of, proven, without its program; None where nothing is known."""


def check_operands(problem: MatmulProblem, arch: Arch) -> bool:
    """Refuse a pair of operands that the machine has no instruction for; True where it is a block-scaled (MX) one."""
    pair = (problem.a, problem.b)
    pairs = arch.spec.operand_pairs
    if pair not in pairs.mx and pair not in pairs.plain:
        legal = ", ".join(f"{a} x {b}" for a, b in (*pairs.mx, *pairs.plain))
        near = did_you_mean(" x ".join(pair), [f"{a} x {b}" for a, b in (*pairs.mx, *pairs.plain)])
        raise InputError(f"problem: {arch.name} has no matmul of {problem.a} x {problem.b}{near}; legal pairs: {legal}")
    integer = DTYPES[problem.a].is_integer
    if problem.out == "int32" and not integer:
        raise InputError(f"problem.out: int32 is the output of integer operands, not of {problem.a} x {problem.b}")
    return pair in pairs.mx


def check_extents(arch: Arch, **extents: int) -> None:
    """Refuse extents beyond what one matmul instruction takes."""
    for name, extent in extents.items():
        if extent > arch.spec.max_extent:
            most = arch.spec.max_extent
            raise InputError(f"{name} of one matmul instruction: expected at most {most} on {arch.name}, not {extent}")
