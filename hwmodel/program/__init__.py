"""What the machine executes: operands, instructions, programs, and the check for hazards."""

from hwmodel.program.instructions import (
    Cast,
    Extract,
    Instruction,
    Load,
    Matmul,
    Order,
    Signal,
    Store,
    Sync,
    Wait,
    label_text,
)
from hwmodel.program.memory import GM, Operand, Part, Tensor, Tile, Window, describe, whole
from hwmodel.program.program import CoreProgram, Program, instruction_text

__all__ = [
    "GM",
    "Cast",
    "CoreProgram",
    "Extract",
    "Instruction",
    "Load",
    "Matmul",
    "Operand",
    "Order",
    "Part",
    "Program",
    "Signal",
    "Store",
    "Sync",
    "Tensor",
    "Tile",
    "Wait",
    "Window",
    "describe",
    "instruction_text",
    "label_text",
    "whole",
]
