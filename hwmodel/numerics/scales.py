"""What a quantiser returns: codes with block scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class MxScales:
    """E8M0 scales, uint8: the shape of the values with each K (or 8 x 4 block) reduced to its groups."""

    e8m0: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Hif4Scales:
    """HiF4 scales, the shape of the values with K reduced to groups of 64.

    ``ea`` uint8 E6M2 codes; ``eb`` uint8, bit i for elements 8i..8i+7; ``ec`` uint16, bit j for elements 4j..4j+3.
    """

    ea: NDArray[np.uint8]
    eb: NDArray[np.uint8]
    ec: NDArray[np.uint16]


BlockScales = MxScales | Hif4Scales


@dataclass(frozen=True, slots=True, eq=False)
class BlockTensor:
    """Codes (uint8, one an element, the shape of the values) with their block scales.

    ``axis`` (not negative) is the axis along which the blocks lie. ``block`` is the block's extent: (1, 32) or
    (1, 64) along ``axis``, (8, 4) for Neuron's blocks over the last two axes.
    """

    codes: NDArray[np.uint8]
    scales: BlockScales
    dtype: str
    axis: int
    block: tuple[int, int]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return self.codes.shape

    def __repr__(self) -> str:
        return f"BlockTensor({self.dtype}, shape={self.shape}, axis={self.axis}, block={self.block})"


def scale_planes(scales: BlockScales) -> tuple[NDArray[Any], ...]:
    """The arrays of a scales record, in its order."""
    return (scales.e8m0,) if isinstance(scales, MxScales) else (scales.ea, scales.eb, scales.ec)
