"""Whole-process time and peak memory of ``hwmodel run``: ``pytest -m benchmark -s`` this file.

A3 kernel, fp16, one core unless said. Prints one table; a target that is missed by less than half again is printed and
not a failure, as this machine may be busy.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from process_cost import Cost, cost_of

pytestmark = pytest.mark.benchmark

A3 = "silicon/a3_gemm_1536"
SLACK = 1.5


class Case(NamedTuple):
    """One run with its targets."""

    name: str
    arguments: tuple[str, ...]
    seconds: float
    megabytes: float


def cube(n: int) -> tuple[str, ...]:
    return tuple(f"--set=problem.{side}={n}" for side in "mkn")


ALONE = "--set=tiling.core_grid=[1,1]"
FAST = ("--values", "skip", "--write", "result")
CASES = (
    Case("1024^3, one core, timing only", (A3, *cube(1024), ALONE, *FAST), 1.0, 500),
    Case("4096^3, one core, timing only", (A3, *cube(4096), ALONE, *FAST), 2.5, 500),
    Case("4096^3, one core, with values", (A3, *cube(4096), ALONE, "--write", "result"), 10.0, 800),
    Case("6144^3, 4 x 6 cores folded, timing only", ("silicon/a3_gemm_6144", *FAST), 1.0, 500),
    Case("6144^3, all 24 cores, timing only", ("silicon/a3_gemm_6144", "--set=tiling.cores=all", *FAST), 8.0, 500),
)


def run(case: Case, folder: Path) -> Cost:
    """The cheapest of two runs: the first may find cold files."""
    command = [sys.executable, "-m", "hwmodel", "run", *case.arguments, "-o", str(folder), "-q"]
    return min(cost_of(command, folder.parent) for _ in range(2))


def test_whole_processes(tmp_path: Path) -> None:
    lines = [f"{'hwmodel run':42s} {'seconds':>8s} {'target':>7s} {'MB':>6s} {'target':>7s}"]
    slow = []
    for case in CASES:
        found = run(case, tmp_path / "run")
        lines.append(
            f"{case.name:42s} {found.seconds:8.2f} {case.seconds:7.1f} {found.megabytes:6.0f} {case.megabytes:7.0f}"
        )
        if found.seconds > SLACK * case.seconds or found.megabytes > SLACK * case.megabytes:
            slow.append(case.name)
    print("\n" + "\n".join(lines))
    assert not slow, lines
