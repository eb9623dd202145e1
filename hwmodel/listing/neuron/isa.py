"""Instructions of a NeuronCore by opcode number and name, and which of them are modelled."""

from __future__ import annotations

from typing import NamedTuple

from hwmodel.errors import InputError, did_you_mean

MATMUL_FAMILY = (7, 8, 9, 95)
"""Opcodes that may reset PSUM and add to it."""


class Operation(NamedTuple):
    """One instruction: its name, its opcode where the requirement states one, and what it does."""

    name: str
    opcode: int | None
    summary: str


_RECORDS = (
    Operation("load", None, "DMA from DRAM to SBUF"),
    Operation("store", None, "DMA from SBUF to DRAM"),
    Operation("copy", None, "Vector or Scalar engine: PSUM or SBUF to SBUF or PSUM, with a cast"),
    Operation("add", None, "Vector engine: sum of two tensors in fp32, with a cast"),
    Operation("read_activation_accumulator", 5, "the accumulator of the Scalar engine into a tensor"),
    Operation("matmult", 8, "dense matmul into PSUM"),
    Operation("matmult_sparse", 9, "structured sparse matmul into PSUM"),
    Operation("matmult_mx", 95, "matmul of block-scaled x4 operands into PSUM"),
    Operation("quantize_mx", 96, "bf16 or fp16 to x4 data and scale bytes"),
    Operation("engine_accumulate", None, "reduces rows into the accumulator of the Scalar engine"),
)
OPERATIONS: dict[str, Operation] = {record.name: record for record in _RECORDS}
BY_OPCODE: dict[int, Operation] = {record.opcode: record for record in _RECORDS if record.opcode is not None}
NOT_MODELLED = {7: "matmult_base, the common part of the matmul family"}


def supported() -> str:
    """Names and numbers for people."""
    return ", ".join(record.name if record.opcode is None else f"{record.opcode} {record.name}" for record in _RECORDS)


def operation(given: object) -> Operation:
    """The operation of an opcode number or name; InputError with the supported ones otherwise."""
    if isinstance(given, int) and not isinstance(given, bool):
        if given in BY_OPCODE:
            return BY_OPCODE[given]
        what = f" ({NOT_MODELLED[given]}) is not modelled" if given in NOT_MODELLED else " is not supported"
        raise InputError(f"opcode {given}{what}; supported: {supported()}")
    if isinstance(given, str) and given in OPERATIONS:
        return OPERATIONS[given]
    near = did_you_mean(given, OPERATIONS) if isinstance(given, str) else ""
    raise InputError(f"operation {given!r} is not supported{near}; supported: {supported()}")


class Command(NamedTuple):
    """A command of the engine accumulator."""

    name: str
    number: int | None
    loads: bool = False
    zeroes: bool = False
    reduces: bool = True


_COMMANDS = (
    Command("zero", 1, zeroes=True, reduces=False),
    Command("accumulate", 2),
    Command("load_accumulate", 3, loads=True),
    Command("zero_accumulate", None, zeroes=True),
)
_ALIASES = {
    "idle": "zero",
    "reset": "zero",
    "reduce": "accumulate",
    "load_reduce": "load_accumulate",
    "reset_reduce": "zero_accumulate",
}
"""Names of the public kernel interface. Its numbers mean other commands: only its names are taken."""
_ALSO = {5: "load_accumulate"}
COMMANDS: dict[str, Command] = {record.name: record for record in _COMMANDS}


def command(given: object) -> Command:
    """The accumulator command of a number (those of the requirement) or name; InputError otherwise."""
    numbers = {record.number: record.name for record in _COMMANDS if record.number is not None} | _ALSO
    name = numbers.get(given) if isinstance(given, int) and not isinstance(given, bool) else given
    name = _ALIASES.get(name, name) if isinstance(name, str) else name
    if isinstance(name, str) and name in COMMANDS:
        return COMMANDS[name]
    known = ", ".join(f"{number} {name}" for number, name in sorted(numbers.items()))
    raise InputError(f"accumulator command {given!r} is not known (known: {known}, zero_accumulate)")
