"""Units of the machines: each file holds a specification, a pure ``cycles`` and what the unit does to values."""

from hwmodel.units import cube, fixpipe, textract, tload
from hwmodel.units.base import Spec, Traffic, UnitKind, UnitSpec

UNITS: dict[str, UnitKind] = {
    kind.kind: kind
    for kind in (
        tload.UNIT,
        textract.UNIT,
        cube.UNIT,
        fixpipe.UNIT,
    )
}
"""All kinds of units, in pipeline order. A new unit is one file and one entry here."""

__all__ = ["UNITS", "Spec", "Traffic", "UnitKind", "UnitSpec"]
