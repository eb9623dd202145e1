"""Units of the machines: each file holds a specification, a pure ``cycles`` and what the unit does to values."""

from typing import TypeAlias

from hwmodel.units import cube, fixpipe, textract, tload
from hwmodel.units.base import Spec, Traffic, UnitKind, UnitSpec
from hwmodel.units.neuron import dma, evacuate, pe
from hwmodel.units.neuron.storage import CoreMemory
from hwmodel.units.storage import Storage

UNITS: dict[str, UnitKind] = {
    kind.kind: kind
    for kind in (
        tload.UNIT,
        textract.UNIT,
        cube.UNIT,
        fixpipe.UNIT,
        dma.UNIT,
        pe.UNIT,
        evacuate.VECTOR,
        evacuate.SCALAR,
    )
}
"""All kinds of units, family by family in pipeline order. A new unit is one file and one entry here."""

Memory: TypeAlias = Storage | CoreMemory
STORAGES: dict[str, type[Storage] | type[CoreMemory]] = {"ascend": Storage, "neuron": CoreMemory}
"""What holds the bytes of a core, by family."""

__all__ = ["STORAGES", "UNITS", "Memory", "Spec", "Traffic", "UnitKind", "UnitSpec"]
