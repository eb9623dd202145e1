"""A program: what each core of the machine executes, and the tensors it works on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from hwmodel.program.instructions import Instruction, Sync, label_text
from hwmodel.program.memory import Tensor, Tile, Window, describe


@dataclass(frozen=True)
class CoreProgram:
    """The instructions of one core in program order.

    ``origins`` shifts every window of a tensor, so that cores that do the same work on other data share one
    instruction list. ``folded`` holds the origins of equal cores that are not simulated: this one stands for them.
    """

    core: int
    instructions: tuple[Instruction, ...]
    origins: dict[str, tuple[int, int]] = field(default_factory=dict)
    folded: tuple[dict[str, tuple[int, int]], ...] = ()

    @property
    def stands_for(self) -> int:
        """How many equal cores this one represents, itself included."""
        return 1 + len(self.folded)


@dataclass(frozen=True)
class Program:
    """Everything the machine needs to know: no loops, no strategy, only instructions.

    ``initial`` names arrays of global memory that lie in on-chip tiles when the program starts.
    """

    tensors: dict[str, Tensor]
    cores: tuple[CoreProgram, ...]
    initial: tuple[tuple[str, Tile], ...] = ()

    @cached_property
    def count(self) -> int:
        """Number of instructions over all simulated cores."""
        return sum(len(core.instructions) for core in self.cores)

    @cached_property
    def written(self) -> frozenset[str]:
        """Tensors in global memory that an instruction writes."""
        lists = {id(core.instructions): core.instructions for core in self.cores}.values()
        operands = (operand for instructions in lists for each in instructions for operand in each.writes)
        return frozenset(operand.tensor for operand in operands if isinstance(operand, Window))

    @cached_property
    def active_cores(self) -> int:
        """Number of cores that have work, the folded ones included."""
        return sum(core.stands_for for core in self.cores)

    def text(self) -> Iterator[str]:
        """The program as lines for people: number, engine, operation, operands, waits and sets."""
        for tensor in self.tensors.values():
            order = "row-major" if tensor.stored == "row" else "column-major"
            what = tensor.dtype if tensor.kind == "data" else f"{tensor.dtype} scales"
            yield f"tensor {tensor.name}: {what} [{tensor.rows}, {tensor.cols}] {order}"
        for core in self.cores:
            fold = f", stands for {core.stands_for} cores" if core.stands_for > 1 else ""
            where = ", ".join(f"{name} at {origin}" for name, origin in core.origins.items() if origin != (0, 0))
            yield f"core {core.core}: {len(core.instructions)} instructions{fold}{', ' + where if where else ''}"
            for instruction in core.instructions:
                yield instruction_text(instruction)


def instruction_text(instruction: Instruction) -> str:
    """One line: ``   7 M     tmatmul_mx  l0c[...] <- l0a[...], l0b[...]  wait MTE1>M:0  set M>FIX:0``."""
    reads = ", ".join(describe(operand) for operand in instruction.reads)
    writes = ", ".join(describe(operand) for operand in instruction.writes)
    parts = [f"{instruction.number:5d} {instruction.engine:5s} {instruction.op:12s}"]
    if label := label_text(instruction.label):
        parts.append(f"({label})")
    if writes or reads:
        parts.append(f"{writes} <- {reads}")
    if isinstance(instruction.params, Sync):
        parts.append(instruction.params.what)
    waits = [w.signal if not w.at_least else f"{w.signal}>={w.at_least}" for w in instruction.waits]
    sets = [s.signal if s.amount == 1 else f"{s.signal}+{s.amount}" for s in instruction.sets]
    if waits:
        parts.append("wait " + " ".join(waits))
    if sets:
        parts.append("set " + " ".join(sets))
    if instruction.frees:
        parts.append("free " + " ".join(signal.signal for signal in instruction.frees))
    return "  ".join(parts)
