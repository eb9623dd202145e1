"""How an Ascend program stands in a scenario: tensors and instructions, with all their fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from hwmodel.listing.contents import Contents
from hwmodel.units.base import Spec

Index = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(gt=0)]
Range = tuple[Index, Count]
Space = Literal["gm", "l1", "l0a", "l0b", "l0a_mx", "l0b_mx", "l0c"]
Pipe = Literal["MTE2", "MTE1", "M", "FIX"]


class TensorModel(Spec):
    """A tensor in GM or a tile in a buffer. Scale tensors have rows of A (columns of B) as rows, K as columns."""

    space: Space
    dtype: str
    shape: tuple[Count, Count] = Field(description="[rows, columns] in elements")
    side: Literal["a", "b"] = Field(default="a", description="operand that it belongs to: where its K lies")
    kind: Literal["data", "scale"] = "data"
    mx: bool | None = Field(default=None, description="padded for TMATMUL_MX; default: dtypes with block scales")
    offset: Index | None = Field(default=None, description="first byte in its buffer; default: behind the others")
    stored: Literal["row", "col"] = Field(default="row", description="order in GM")
    init: Contents | None = Field(default=None, description="contents at the start, in GM only")
    scales: str | None = Field(default=None, description="scale tensor that quantising the contents fills")
    rule: str | None = Field(default=None, description="quantiser rule of the contents")
    output: bool | None = Field(default=None, description="part of the result; default: what is written in GM")


class RegionModel(Spec):
    """A rectangle of a tensor."""

    tensor: str
    rows: Range | None = Field(default=None, description="[first, count]; default: all")
    cols: Range | None = Field(default=None, description="[first, count]; default: all")


Region: TypeAlias = str | RegionModel


class TLoad(Spec):
    """GM to L1."""

    src: Region
    dst: str


class TExtract(Spec):
    """L1 to L0A, L0B or their scale buffers."""

    src: Region
    dst: str


class TMatmul(Spec):
    """Plain operands."""

    a: str
    b: str
    dst: str
    accumulate: bool = False


class TMatmulMx(Spec):
    """Block-scaled operands; a 16-bit A has no scales."""

    a: str
    b: str
    dst: str
    a_scale: str | None = None
    b_scale: str | None = None
    accumulate: bool = False


class TStore(Spec):
    """L0C to GM, with the cast to the dtype of the destination."""

    src: Region
    dst: Region
    relu: bool = False
    saturate: bool | None = None
    scale: float | tuple[float, ...] | None = None
    offset: Annotated[int, Field(ge=0, le=511)] = 0


class Flag(Spec):
    """set_flag in pipe ``src``, or wait_flag in pipe ``dst``."""

    src: Pipe
    dst: Pipe
    id: Index = 0


class Barrier(Spec):
    """pipe_barrier of one pipe, or of all of them."""

    pipe: Pipe | Literal["all"] = "all"


MODELS: dict[str, type[Spec]] = {
    "tload": TLoad,
    "textract": TExtract,
    "tmatmul": TMatmul,
    "tmatmul_mx": TMatmulMx,
    "tstore": TStore,
    "set_flag": Flag,
    "wait_flag": Flag,
    "pipe_barrier": Barrier,
}
"""Fields of each operation by its name."""


class ProgramModel(Spec):
    """``program:`` of a scenario on an Ascend core."""

    tensors: dict[str, TensorModel]
    instructions: tuple[dict[str, Any], ...]
