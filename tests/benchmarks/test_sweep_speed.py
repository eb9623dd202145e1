"""Points a second of a sweep of 2048^3 fp16 on A3, 4 x 6 cores folded: ``pytest -m benchmark -s`` this file.

Process start-up is left out: the rate is that of the points after the first 20.
"""

from __future__ import annotations

import time

import pytest

from hwmodel.study.points import Template, parse_axes
from hwmodel.study.pool import Workers
from hwmodel.study.sweep import size, sweep

pytestmark = pytest.mark.benchmark

TARGET = 40.0
CUBE = {"problem.m": 2048, "problem.k": 2048, "problem.n": 2048}
AXES = {
    "tiling.base": [[128, 64, 256], [128, 64, 128], [256, 64, 128], [128, 128, 128]],
    "tiling.panel_slices": [2, 3, 4],
    "tiling.loop_order": ["mn", "nm"],
    "arch.units.tload.startup_cycles": [100, 150, 200, 264],
    "arch.units.cube.startup_cycles": [8, 10, 12, 14, 16],
}
WARM = 20


def test_points_a_second() -> None:
    template, axes = Template.read("silicon/a3_gemm_1536", CUBE), parse_axes(AXES)
    times: list[float] = []
    begin = time.perf_counter()
    found = sweep(template, axes, workers=Workers("local", 2), progress=lambda _: times.append(time.perf_counter()))
    whole = time.perf_counter() - begin
    rate = (len(times) - WARM) / (times[-1] - times[WARM - 1])
    print(
        f"\n{size(axes)} points of 2048^3 on two processes: {rate:.1f} a second (target {TARGET:g}); "
        f"{len(times) / whole:.1f} with start-up"
    )
    assert len(found.valid) > size(axes) / 2
    assert rate > TARGET / 2
