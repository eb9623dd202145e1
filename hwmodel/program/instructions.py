"""Instructions: frozen, comparable, printable. One record type for all, one parameter record for each operation.

An instruction names the engine that runs it, the operands it reads and writes, and the flags or semaphores it waits
for and sets. All that its duration depends on is in ``params``: units compute ``cycles(spec, params)`` from it, so
equal parameters always take equal time and the result can be remembered.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from hwmodel.program.memory import Operand


class Wait(NamedTuple):
    """Wait for a flag or semaphore.

    ``at_least`` 0: a flag, one set is consumed by one wait, in order. ``at_least`` n > 0: a semaphore, wait until
    its count has reached n; nothing is consumed.
    """

    signal: str
    at_least: int = 0


class Signal(NamedTuple):
    """Set a flag or add ``amount`` to a semaphore, when the instruction has ended."""

    signal: str
    amount: int = 1


class Load(NamedTuple):
    """TLOAD, GM to L1: ``size`` payload bytes, of which ``miss_bytes`` are not in the L2 and come over HBM.

    The bytes lie in GM as ``rows`` contiguous pieces of ``row_bytes`` bytes each.
    """

    size: int
    rows: int
    row_bytes: int
    miss_bytes: int


class Extract(NamedTuple):
    """TEXTRACT, L1 to one of L0A, L0B and their scale buffers: ``size`` payload bytes into ``target``."""

    size: int
    target: str


class Matmul(NamedTuple):
    """TMATMUL: valid ``m``, ``k``, ``n`` of operands ``a`` x ``b``; ``accumulate`` goes on from what L0C holds."""

    m: int
    k: int
    n: int
    a: str
    b: str
    accumulate: bool


GM_LINE_BYTES = 512


class Store(NamedTuple):
    """TSTORE through FIXPIPE: ``rows`` x ``cols`` results of ``element_bytes`` each, GM rows ``stride_bytes`` apart.

    ``start_bytes`` is the position of the first element in GM, counted from the last boundary of 512 bytes (the
    largest granule of any machine): rows that do not begin on a granule cost more.
    """

    rows: int
    cols: int
    element_bytes: int
    stride_bytes: int
    start_bytes: int


class Cast(NamedTuple):
    """What FIXPIPE does to the values of a store: relu, then scale and offset (integers), then the cast.

    ``scale`` is one number, or a tuple with one for each column of the tensor that is written; ``saturate`` None is
    the dtype's own default.
    """

    dtype: str
    relu: bool = False
    saturate: bool | None = None
    scale: float | tuple[float, ...] | None = None
    offset: int = 0


class Order(NamedTuple):
    """How a matmul adds; ``group`` is the run of K with constant scales, ``scale_on`` where they are applied."""

    order: Literal["seq", "group", "f64", "blas"] = "seq"
    group: int = 0
    scale_on: Literal["operand", "block"] = "operand"


class Sync(NamedTuple):
    """set_flag, wait_flag or pipe_barrier standing alone: no time, no operands."""

    what: str


class Instruction(NamedTuple):
    """One instruction of one core.

    ``number`` is its place in program order (contention is arbitrated by it). ``values`` says what happens to the
    values where the operation leaves a choice (`Cast`, `Order`); it never changes the time. ``label`` says which tile
    it works on, for people: (("m", 0), ("n", 3)). ``frees`` are set as soon as the engine can take its next
    instruction: the operands have been read, the results may still be on their way. ``origin`` is the instruction that
    it stands for in a program that a user wrote: number and name.
    """

    number: int
    op: str
    engine: str
    params: NamedTuple
    reads: tuple[Operand, ...] = ()
    writes: tuple[Operand, ...] = ()
    waits: tuple[Wait, ...] = ()
    sets: tuple[Signal, ...] = ()
    values: NamedTuple | None = None
    label: tuple[tuple[str, int], ...] = ()
    frees: tuple[Signal, ...] = ()
    origin: tuple[int, str] | None = None


def called(instruction: Instruction) -> tuple[int, str]:
    """Number and name of an instruction for people: those that the user gave it, where a user wrote the program."""
    return instruction.origin or (instruction.number, instruction.op)


def label_text(label: tuple[tuple[str, int], ...]) -> str:
    """``m0 n3`` for (("m", 0), ("n", 3))."""
    return " ".join(f"{name}{index}" for name, index in label)
