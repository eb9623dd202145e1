"""Array code against the scalar reference: how many cases of what were compared, and how many differed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hwmodel import numerics as nm
from hwmodel.numerics.report import block_formats, elements, sums
from hwmodel.numerics.report.finding import NARROW, Finding

__all__ = ["NARROW", "Finding", "findings"]


def findings(every: int) -> Iterator[Finding]:
    """All rows. ``every`` takes only every n-th case of the exhaustive checks (1: all of them)."""
    for family in (*elements.FAMILIES, *block_formats.FAMILIES, *sums.FAMILIES, _layouts):
        yield from family(every)


def _layouts(every: int) -> Iterator[Finding]:
    rng = np.random.RandomState(6)
    for layout in nm.LAYOUTS:
        cases = wrong = 0
        for dtype in ("hif4", "fp8_e4m3", "bf16", "fp32"):
            for rows, cols in ((16, 64), (33, 70), (1, 1), (128, 200))[:: 1 if every == 1 else 2]:
                codes = rng.randint(0, 1 << min(31, nm.DTYPES[dtype].storage_bits), (rows, cols), np.int64)
                raw = nm.to_layout(codes, layout, dtype)
                wrong += int(np.count_nonzero(nm.from_layout(raw, rows, cols, layout, dtype) != codes))
                cases += codes.size
        yield Finding(layout, "layout there and back, 4 to 32 bit", cases, wrong)
