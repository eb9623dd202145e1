"""Studies that are rebuilt by one command: ``python -m hwmodel.study.reports NAME [FOLDER]``.

Adding one is a module with a function ``build(folder)`` and an entry in ``REPORTS``.
"""

from __future__ import annotations

REPORTS = {
    "tiling_hif4": "hwmodel.study.reports.tiling_hif4",
    "tiling_gemm": "hwmodel.study.reports.tiling_gemm",
}
"""Module of each report."""

COMMAND = "python -m hwmodel.study.reports"
