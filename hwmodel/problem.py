"""What is asked of a machine: a matmul or a quantisation, as the scenario file states it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from hwmodel import numerics as nm
from hwmodel.errors import InputError, unknown_name
from hwmodel.program.instructions import Cast, Order
from hwmodel.units.base import Spec

Extent = Annotated[int, Field(gt=0, strict=True)]
Factor = Annotated[float, Field(allow_inf_nan=False)]
OUTPUTS = ("fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "fp8_e3m4", "hif8", "int8", "uint8", "int32")


def known_dtype(name: str) -> str:
    """Refuse a dtype that is in no table, with the nearest name."""
    if name not in nm.DTYPES:
        raise ValueError(unknown_name("dtype", name, nm.DTYPES))
    return name


class Epilogue(Spec):
    """What FIXPIPE does before the cast."""

    relu: bool = Field(default=False, description="negative results become 0, before scale and offset")
    saturate: bool | None = Field(default=None, description="clamp to the largest finite value; default by dtype")
    scale: Factor | tuple[Factor, ...] | None = Field(default=None, description="one factor, or one for each column")
    offset: int = Field(default=0, ge=0, le=511, description="added before an integer cast")


class Layout(Spec):
    """How operands lie in global memory."""

    b: Literal["kn", "nk"] = Field(default="kn", description="B row-major as [K, N] or as [N, K]")


class Accumulate(Spec):
    """In which order products are added."""

    order: Literal["seq", "group", "f64", "blas"] = Field(default="seq", description="see hwmodel.numerics.matmul")
    scale_on: Literal["operand", "block"] = Field(default="operand", description="where block scales are applied")


class MatmulProblem(Spec):
    """out[M, N] = a[M, K] x b[K, N]."""

    op: Literal["matmul"]
    m: Extent
    k: Extent
    n: Extent
    a: str = Field(description="dtype of A")
    b: str = Field(description="dtype of B")
    out: str = Field(default="fp32", description="dtype of the output")
    epilogue: Epilogue = Field(default_factory=Epilogue)
    layout: Layout = Field(default_factory=Layout)

    _known = field_validator("a", "b", "out")(known_dtype)

    @model_validator(mode="after")
    def _output(self) -> MatmulProblem:
        if self.out not in OUTPUTS:
            raise ValueError(f"out: expected one of {', '.join(OUTPUTS)}, not {self.out}")
        scale = self.epilogue.scale
        if isinstance(scale, tuple) and len(scale) != self.n:
            raise ValueError(f"epilogue.scale: expected {self.n} factors, one for each column, not {len(scale)}")
        if self.epilogue.offset and not nm.DTYPES[self.out].is_integer:
            raise ValueError(f"epilogue.offset: expected 0, as only integer outputs take an offset, not {self.out}")
        return self

    def cast(self) -> Cast:
        """The cast of the whole output."""
        how = self.epilogue
        return Cast(self.out, how.relu, how.saturate, how.scale, how.offset)


class QuantizeProblem(Spec):
    """Quantise ``inputs.a`` of shape [rows, cols]."""

    op: Literal["quantize"]
    rows: Extent
    cols: Extent
    source: Literal["bf16", "fp16", "fp32"] = "fp32"
    to: str = Field(description="dtype of the codes")

    _known = field_validator("to")(known_dtype)


Problem = Annotated[MatmulProblem | QuantizeProblem, Field(discriminator="op")]


def constant_scale_run(a: str, b: str) -> int:
    """Longest run of K over which both operands' scales are constant; 0 where neither has any."""
    groups = [block.group for block in (nm.DTYPES[a].block, nm.DTYPES[b].block) if block is not None]
    return min(groups) if groups else 0


def order_of(problem: MatmulProblem, accumulate: Accumulate) -> Order:
    """The accumulation order that every instruction of the problem uses.

    InputError where it needs block scales and neither operand has any.
    """
    run = constant_scale_run(problem.a, problem.b)
    if accumulate.scale_on == "block" and not run:
        pair = f"{problem.a} x {problem.b}"
        raise InputError(f"accumulate.scale_on: expected operand, as {pair} has no block scales")
    return Order(accumulate.order, run, accumulate.scale_on)
