"""What the Vector and Scalar engines do to values on the way out of PSUM."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hwmodel import numerics as nm
from hwmodel.numerics.rounding import canonical_nan
from hwmodel.program.instructions import Cast, Instruction
from hwmodel.program.memory import Part, Tile
from hwmodel.program.neuron_dtypes import NEURON_DTYPES
from hwmodel.units.neuron.storage import CoreMemory
from hwmodel.units.storage import Array


class MoveValues(NamedTuple):
    """Copy or add: the operands are summed in fp32, in order, and cast once. ``cast`` None: the bits as they are."""

    cast: Cast | None = None


def capture(instruction: Instruction, storage: CoreMemory) -> Any:
    """Operands as stored, with their dtypes."""
    return [(storage.read(part), part.tile.dtype) for part in instruction.reads if isinstance(part, Part)]


def commit(instruction: Instruction, storage: CoreMemory, payload: Any) -> None:
    """Write what comes of the operands."""
    how = instruction.values
    tile = instruction.writes[0]
    assert isinstance(tile, Tile)
    assert isinstance(how, MoveValues)
    storage.write(tile, moved(payload, how))


def moved(operands: list[tuple[Array, str]], how: MoveValues) -> Array:
    """Stored elements of the sum of all operands."""
    if len(operands) == 1 and how.cast is None:
        return operands[0][0]
    total = _wide(*operands[0])
    for codes, dtype in operands[1:]:
        with np.errstate(all="ignore"):
            total = canonical_nan(total + _wide(codes, dtype))
    if how.cast is None:
        return total.view(np.uint32)
    return nm.cast_out(total, how.cast.dtype, how.cast.relu, how.cast.saturate)


def _wide(codes: Array, dtype: str) -> Array:
    element = NEURON_DTYPES[dtype].element
    assert element is not None
    return nm.decode(codes, element)
