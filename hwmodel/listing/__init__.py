"""Programs that a user wrote as a list of instructions, instead of a problem and a tiling."""

from __future__ import annotations

from typing import Any

from hwmodel.listing.base import Listing

__all__ = ["Listing", "read_listing"]


def read_listing(scenario: Any) -> Listing:
    """Read, check and lower the ``program:`` of a scenario for its machine. Raises InputError."""
    if scenario.arch.spec.family == "neuron":
        from hwmodel.listing import neuron

        return neuron.read(scenario)
    from hwmodel.listing import ascend

    return ascend.read(scenario)
