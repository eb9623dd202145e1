"""Short names of instructions, as causes of waits and links of a path are called."""

from __future__ import annotations

from hwmodel.program.instructions import Instruction
from hwmodel.program.memory import Operand, Part, Window


def space_of(operand: Operand) -> str:
    """The on-chip buffer of an operand; empty for a window of global memory."""
    if isinstance(operand, Window):
        return ""
    return operand.tile.space if isinstance(operand, Part) else operand.space


def subject(instruction: Instruction) -> str:
    """What an instruction works on: the tensor it loads, else the buffer it fills, else the tensor it stores."""
    read = next((operand.tensor for operand in instruction.reads if isinstance(operand, Window)), "")
    if read:
        return read
    written = next((space_of(operand) for operand in instruction.writes if space_of(operand)), "")
    return written or next((operand.tensor for operand in instruction.writes if isinstance(operand, Window)), "")
