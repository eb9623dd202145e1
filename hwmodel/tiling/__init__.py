"""Tilings: each plans a problem on a machine and lowers the plan to a program."""

from hwmodel.tiling import auto, blocked, n_split
from hwmodel.tiling.base import Plan, Tiling, TilingParams

TILINGS: dict[str, Tiling] = {
    tiling.kind: tiling
    for tiling in (
        n_split.TILING,
        blocked.TILING,
        auto.TILING,
    )
}
"""All tilings by name. A new one is one file and one entry here."""

__all__ = ["TILINGS", "Plan", "Tiling", "TilingParams"]
