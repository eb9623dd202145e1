"""Parameters of Neuron instructions: all that their duration depends on. The matmul itself is `Matmul`."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias


class Transfer(NamedTuple):
    """DMA between HBM and SBUF: ``rows`` pieces of ``row_bytes`` contiguous bytes, one a partition.

    ``read_bytes`` and ``written_bytes`` are what it moves from and to HBM.
    """

    rows: int
    row_bytes: int
    read_bytes: int
    written_bytes: int


class Weights(NamedTuple):
    """Weight load: ``rows`` (K) x ``columns`` of ``dtype`` into a copy of the array's weights.

    ``transpose``: the array will move data through them (`Transpose`) instead of multiplying.
    """

    rows: int
    columns: int
    dtype: str
    transpose: bool = False


class Transpose(NamedTuple):
    """Transpose mode of the PE array: data of ``rows`` partitions x ``columns`` elements moves through the weights.

    ``a`` and ``b`` are the operand dtypes of weights and data. Nothing is multiplied.
    """

    rows: int
    columns: int
    a: str
    b: str


class Access(NamedTuple):
    """What an engine reads or writes: buffer and Neuron dtype, on which its rate depends."""

    space: str
    dtype: str


Work: TypeAlias = Literal["copy", "add", "quantize", "accumulate", "reset", "read_accumulator"]
"""What an instruction of the Vector or Scalar engine does, which names its cost."""


class Evacuate(NamedTuple):
    """An instruction of the Vector or Scalar engine on ``elements`` of each partition.

    ``inputs`` and ``output`` are its operands in SBUF and PSUM.
    """

    what: Work
    elements: int
    inputs: tuple[Access, ...] = ()
    output: Access | None = None


Parameters = Transfer | Weights | Transpose | Evacuate
