"""Programs of a NeuronCore: reading, checking in order, lowering, and the slow reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwmodel.config.positions import Positions
from hwmodel.config.validate import validate
from hwmodel.listing.base import Listing, Output, located
from hwmodel.listing.contents import stored_elements
from hwmodel.listing.neuron.indices import check_indices
from hwmodel.listing.neuron.lower import lower
from hwmodel.listing.neuron.model import ProgramModel
from hwmodel.listing.neuron.places import whole_of
from hwmodel.listing.neuron.reference import Reference
from hwmodel.listing.neuron.walk import Walk
from hwmodel.program.instructions import Matmul
from hwmodel.program.memory import Tensor, whole
from hwmodel.program.program import CoreProgram, Program
from hwmodel.units.storage import UNWRITTEN, Array

__all__ = ["read"]


def read(scenario: Any) -> Listing:
    """Read, check and lower the program of a scenario. Raises InputError with file and line."""
    positions: Positions = scenario.positions.below(("program",))
    model = validate(ProgramModel, scenario.program, positions)
    with located(scenario):
        walk = Walk(model, scenario.arch, positions)
        contents = _contents(walk, scenario)
        check_indices(walk.steps, contents, [whole_of(walk.places[name]) for name in contents])
    places = walk.places
    tensors = {
        place.name: Tensor(place.name, place.dtype.name, place.rows, place.cols)
        for place in places.values()
        if place.space == "dram"
    }
    initial = tuple((name, places[name].tile) for name in contents if places[name].space != "dram")
    program = Program(tensors, (CoreProgram(0, lower(walk.steps, scenario.arch)),), initial)
    written = {region.place.name for step in walk.steps for region in step.writes}
    outputs = [
        Output(
            name,
            place.dtype.element if place.dtype.lanes == 1 else None,
            (place.rows, place.cols),
            np.dtype(place.dtype.numpy).itemsize,
        )
        for name, place in places.items()
        if (place.model.output if place.model.output is not None else place.space == "dram" and name in written)
    ]
    used = max((place.offset + place.tile.size for place in places.values() if place.space == "sbuf"), default=0)
    capacities = {"sbuf": used, "psum": scenario.arch.buffer_bytes("psum")}

    def memory() -> dict[str, Array]:
        found = {name: np.array(array) for name, array in contents.items()}
        for place in places.values():
            if place.space == "dram" and place.name not in found:
                found[place.name] = np.empty((place.rows, place.cols), place.dtype.numpy)
                found[place.name].view(np.uint8)[...] = UNWRITTEN
        return found

    def expected() -> dict[str, Array]:
        reference = Reference(places, contents, capacities)
        reference.run(walk.steps)
        return {name: reference.tensor(place) for name, place in places.items()}

    def found(gm: dict[str, Array], storage: Any) -> dict[str, Array]:
        return {
            name: gm[name] if place.space == "dram" else storage.read(whole(place.tile))
            for name, place in places.items()
        }

    multiplied = [i.params for i in program.cores[0].instructions if isinstance(i.params, Matmul)]
    return Listing(
        program=program,
        summary={
            "kind": "program",
            "instructions": len(walk.steps),
            "legality": model.legality,
            "preset": model.preset,
            "attributes": model.attributes.model_dump(),
        },
        outputs=tuple(outputs),
        memory=memory,
        expected=expected,
        found=found,
        written=frozenset(written),
        operands=(multiplied[0].a, multiplied[0].b) if multiplied else None,
        order="seq, instruction by instruction",
    )


def _contents(walk: Walk, scenario: Any) -> dict[str, Array]:
    found = {}
    for name, place in walk.places.items():
        if place.model.init is None:
            continue
        dtype = place.dtype
        field = f"tensors.{name}.init"
        shape = (place.rows, place.cols)
        found[name] = stored_elements(
            place.model.init, dtype.element, dtype.numpy, shape, dtype.lanes, scenario.base, field
        )
    return found
