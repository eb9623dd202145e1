"""Tilings: each plans a problem on a machine and lowers the plan to a program."""

from hwmodel.tiling import auto, blocked, n_split
from hwmodel.tiling.base import Plan, Tiling, TilingParams
from hwmodel.tiling.neuron.blocked_free import BLOCKED_FREE
from hwmodel.tiling.neuron.fully_blocked import FULLY_BLOCKED
from hwmodel.tiling.neuron.tiled import HOISTED, TILED

TILINGS: dict[str, Tiling] = {
    tiling.kind: tiling
    for tiling in (
        n_split.TILING,
        blocked.TILING,
        auto.TILING,
        TILED,
        HOISTED,
        BLOCKED_FREE,
        FULLY_BLOCKED,
    )
}
"""All tilings by name. A new one is one file and one entry here."""

__all__ = ["TILINGS", "Plan", "Tiling", "TilingParams"]
