"""Programs of an Ascend core: reading, lowering, and the slow reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwmodel import numerics as nm
from hwmodel.config.positions import Positions
from hwmodel.config.validate import validate
from hwmodel.errors import InputError
from hwmodel.inputs import make_values
from hwmodel.listing.ascend.lower import Lowering
from hwmodel.listing.ascend.model import ProgramModel
from hwmodel.listing.ascend.places import Place, place_all
from hwmodel.listing.ascend.reference import run
from hwmodel.listing.base import Listing, Output, located
from hwmodel.listing.contents import BytesFile, Identity, ListedCodes, ListedValues, stored_elements
from hwmodel.program.instructions import Matmul
from hwmodel.program.memory import Window
from hwmodel.program.program import CoreProgram, Program
from hwmodel.tiling.operands import CELL_K, CELL_ROWS
from hwmodel.units.storage import UNWRITTEN, Array

__all__ = ["read"]


def read(scenario: Any) -> Listing:
    """Read, check and lower the program of a scenario. Raises InputError with file and line."""
    positions: Positions = scenario.positions.below(("program",))
    model = validate(ProgramModel, scenario.program, positions)
    with located(scenario):
        places = place_all(model.tensors, scenario.arch)
        lowered = Lowering(model, places, scenario.arch, scenario.accumulate, positions)
        contents = _contents(places, scenario)
    tensors = {name: place.tensor for name, place in places.items() if place.tile is None}
    instructions = tuple(lowered.instructions)
    program = Program(tensors, (CoreProgram(0, instructions),))
    written = {o.tensor for i in instructions for o in i.writes if isinstance(o, Window)}
    outputs = [
        Output(name, _element(place), _blank(place).shape, _blank(place).dtype.itemsize)
        for name, place in places.items()
        if place.tile is None and (name in written if place.model.output is None else place.model.output)
    ]

    def memory() -> dict[str, Array]:
        return {name: np.array(contents[name]) if name in contents else _blank(places[name]) for name in tensors}

    def expected() -> dict[str, Array]:
        gm = memory()
        run(instructions, gm, tensors, scenario.arch)
        return gm

    multiplied = [i.params for i in instructions if isinstance(i.params, Matmul)]
    return Listing(
        program=program,
        summary={"kind": "program", "instructions": len(model.instructions)},
        outputs=tuple(outputs),
        memory=memory,
        expected=expected,
        found=lambda gm, _storage: gm,
        written=frozenset(written),
        operands=(multiplied[0].a, multiplied[0].b) if multiplied else None,
        order=f"{scenario.accumulate.order}, instruction by instruction",
    )


def _element(place: Place) -> str | None:
    dtype = nm.DTYPES[place.model.dtype]
    return dtype.name if dtype.block is None and place.model.kind == "data" else None


def _blank(place: Place) -> Array:
    """What nobody wrote."""
    if place.model.kind == "scale":
        shape: tuple[int, ...] = (-(-place.rows // CELL_ROWS), -(-place.cols // CELL_K), place.kind.cell_bytes)
        return np.full(shape, UNWRITTEN, np.uint8)
    out = np.empty(place.model.shape, nm.DTYPES[place.model.dtype].numpy_dtype)
    out.view(np.uint8)[...] = UNWRITTEN
    if nm.DTYPES[place.model.dtype].storage_bits == 4:
        out &= 0xF
    return out


def _contents(places: dict[str, Place], scenario: Any) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name, place in places.items():
        source, field = place.model.init, f"tensors.{name}.init"
        if source is None:
            continue
        record = nm.DTYPES[place.model.dtype]
        if place.model.kind == "scale":
            shape = _blank(place).shape
            if not isinstance(source, ListedCodes | BytesFile):
                raise InputError(f"{field}.kind: expected codes or bytes, as the tensor holds scale cells")
            flat = (shape[0] * shape[1], shape[2])
            found[name] = stored_elements(source, None, "<u1", flat, 1, scenario.base, field).reshape(shape)
            continue
        if record.block is None or isinstance(source, ListedCodes):
            kind = record.numpy_dtype.str
            found[name] = stored_elements(source, record.element, kind, place.model.shape, 1, scenario.base, field)
            continue
        if isinstance(source, BytesFile | Identity | ListedValues):
            raise InputError(f"{field}.kind: expected generated values, npy or codes for a dtype with block scales")
        values = make_values(source, place.model.shape, base=scenario.base, field=field)
        axis = 1 if place.model.side == "a" else 0
        tensor = nm.quantize(values, place.model.dtype, axis=axis, rule=place.model.rule)
        found[name] = tensor.codes
        if place.model.scales is not None:
            scales = places.get(place.model.scales)
            if scales is None or scales.model.kind != "scale" or scales.tile is not None:
                raise InputError(f"tensors.{name}.scales: expected a scale tensor in gm, not {place.model.scales}")
            cells = nm.scale_cells(tensor.scales, place.model.dtype, axis)
            found[place.model.scales] = cells.reshape(_blank(scales).shape)
    return found
