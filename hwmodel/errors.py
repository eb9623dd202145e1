"""What can go wrong, as types with fields.

Every class passes all its fields to ``super().__init__`` in order: SimPy rebuilds an exception that crosses a
process as ``type(e)(*e.args)``, and pickling between worker processes does the same. The text is made in
``__str__``, so a rebuilt error reads like the original. ``exit_code`` is what the command line returns.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HwmodelError(Exception):
    """Base of all errors that hwmodel raises on purpose."""

    exit_code = 3


class InputError(HwmodelError):
    """The user's input is wrong: a file, a field, a flag, or a program that does not fit the machine."""

    exit_code = 2

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return self.what


class ConfigError(InputError):
    """A field of a scenario or arch file: ``file:line: field: expected ..., not ...``.

    ``where`` is ``file:line`` (or the flag that set the field), ``field`` the dotted path, empty for the whole file.
    """

    def __init__(self, where: str, field: str, problem: str) -> None:
        HwmodelError.__init__(self, where, field, problem)
        self.where, self.field, self.problem = where, field, problem

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.field, self.problem) if part)


class CapacityError(InputError):
    """Something does not fit a buffer: names the buffer, the bytes needed and the bytes there."""

    def __init__(self, buffer: str, needed_bytes: int, there_bytes: int, what: str, hint: str = "") -> None:
        HwmodelError.__init__(self, buffer, needed_bytes, there_bytes, what, hint)
        self.buffer, self.needed_bytes, self.there_bytes = buffer, needed_bytes, there_bytes
        self.detail, self.hint = what, hint

    def __str__(self) -> str:
        text = f"{self.buffer}: {self.detail} needs {self.needed_bytes:,} bytes, {self.there_bytes:,} bytes are there"
        return f"{text}; {self.hint}" if self.hint else text


class ProgramError(InputError):
    """An instruction that the machine refuses; ``index`` counts from 0 in program order."""

    def __init__(self, index: int, instruction: str, problem: str) -> None:
        HwmodelError.__init__(self, index, instruction, problem)
        self.index, self.instruction, self.problem = index, instruction, problem

    def __str__(self) -> str:
        return f"instruction {self.index} ({self.instruction}): {self.problem}"


class NumericsError(InputError, ValueError):
    """Wrong use of the numerics core: unknown name, dtype, shape, axis or code out of range."""

    def __init__(self, what: str) -> None:
        InputError.__init__(self, what)


class SimulationError(HwmodelError):
    """The model itself failed."""

    exit_code = 3

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return self.what


class DeadlockError(SimulationError):
    """Nothing can happen any more and instructions are left; ``waiting`` says who waits for whom."""

    def __init__(self, cycle: int, waiting: tuple[str, ...]) -> None:
        HwmodelError.__init__(self, cycle, waiting)
        self.cycle, self.waiting = cycle, waiting

    def __str__(self) -> str:
        return f"deadlock at cycle {self.cycle}: " + "; ".join(self.waiting)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``", did you mean 'x'?"`` for the nearest known name whatever its case, or an empty string."""
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.6)
    return f", did you mean {by_lower[near[0]]!r}?" if near else ""


def choice(field: str, value: str, known: Iterable[str]) -> str:
    """``value`` where it is one of ``known``; else InputError with the nearest name."""
    names = list(known)
    if value not in names:
        raise InputError(f"{field}: expected one of {', '.join(names)}, not {value!r}{did_you_mean(value, names)}")
    return value


def counted(number: int, what: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Text for a name that is in no table: what came, the nearest name, all names."""
    names = list(known)
    return f"unknown {kind} {name!r}{did_you_mean(name, names)} (known: {', '.join(names)})"
