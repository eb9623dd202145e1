"""What a program of either family comes to: instructions, contents, and the answer to compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from hwmodel.errors import ConfigError, InputError, ProgramError
from hwmodel.program.program import Program
from hwmodel.units.storage import Array


class Output(NamedTuple):
    """A tensor that belongs to the result; ``element`` is its format where its stored elements are plain codes.

    ``shape`` counts stored elements, of ``itemsize`` bytes each.
    """

    tensor: str
    element: str | None
    shape: tuple[int, ...]
    itemsize: int


@dataclass(frozen=True)
class Listing:
    """A program that a user wrote, ready to run.

    ``memory()`` makes the arrays that the machine starts from, ``expected()`` every tensor at the end when the program
    runs strictly in order, ``found(memory, storage)`` what the machine left.
    """

    program: Program
    summary: dict[str, Any]
    outputs: tuple[Output, ...]
    memory: Callable[[], dict[str, Array]]
    expected: Callable[[], dict[str, Array]]
    found: Callable[[dict[str, Array], Any], dict[str, Array]]
    written: frozenset[str]
    """Tensors that some instruction writes; the others are inputs that only must not change."""
    operands: tuple[str, str] | None = None
    order: str = "seq"


@contextmanager
def located(scenario: Any) -> Iterator[None]:
    """Give errors of a program the line of the instruction or tensor that they are about."""
    try:
        yield
    except ConfigError:
        raise
    except ProgramError as error:
        raise scenario.locate(error, f"program.instructions[{error.index}]") from None
    except InputError as error:
        text = str(error)
        if text.startswith("tensors."):
            raise scenario.locate(InputError(f"program.{text}")) from None
        raise scenario.locate(error, "program") from None
