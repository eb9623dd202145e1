"""Rooflines: intensities and roofs worked out by hand, and no run above its roofs."""

from __future__ import annotations

from pathlib import Path

import pytest
from explain_support import shipped, timed_scenarios

from hwmodel.analysis.roofline import roofline
from hwmodel.experiment import simulate
from hwmodel.scenario import load


@pytest.mark.parametrize("path", timed_scenarios(), ids=lambda path: path.stem)
def test_no_shipped_scenario_is_above_its_roofs(path: Path) -> None:
    result = shipped(path)
    assert result is not None
    assert result.program is not None
    assert result.stats is not None
    found = roofline(result.stats, result.program, result.arch)
    if found is None:
        assert not result.stats.macs or not result.stats.peak_macs_per_cycle
        return
    assert found.flops_per_cycle <= found.peak_flops_per_cycle
    assert found.levels
    for level in found.levels:
        assert 0 < level.reached <= 1
        assert level.attainable <= found.peak_flops_per_cycle
        assert level.intensity == 2 * result.stats.macs / level.bytes


def test_the_kernel_of_the_requirement_by_hand() -> None:
    result = shipped(next(path for path in timed_scenarios() if path.stem == "hif4_512x128x512"))
    assert result is not None
    assert result.program is not None
    assert result.stats is not None
    found = roofline(result.stats, result.program, result.arch)
    assert found is not None
    flops = 2 * 512 * 128 * 512
    assert found.peak_flops_per_cycle == 2 * 16 * 16 * 64
    levels = {level.name: level for level in found.levels}
    assert list(levels) == ["HBM", "L2", "L1", "L0C"]
    assert levels["HBM"].bytes == result.stats.gm_read_bytes  # the L2 is cold: every load misses it
    assert levels["L0C"].bytes == 512 * 512 * 2
    assert levels["L0C"].bytes_per_cycle == 100
    assert levels["L0C"].attainable == flops / (512 * 512 * 2) * 100
    assert levels["L2"].bytes == result.stats.gm_read_bytes
    assert levels["L1"].bytes_per_cycle == 256
    assert found.tflops(found.flops_per_cycle) == pytest.approx(result.stats.tflops)
    assert found.lowest is levels["L0C"]


def test_the_array_reads_its_moving_rows_from_sbuf() -> None:
    """128 x 128 weights, bf16: 2 x 128 x 128 operations for a row of 256 bytes, a row a cycle."""
    scenario = load("neuron_gemm_tiled", {"problem.m": 128, "problem.k": 128, "problem.n": 512, "expect": {}})
    result = simulate(scenario, values="skip")
    assert result.stats is not None
    assert result.program is not None
    found = roofline(result.stats, result.program, result.arch)
    assert found is not None
    levels = {level.name: level for level in found.levels}
    assert list(levels) == ["HBM", "SBUF", "PSUM"]
    assert (levels["SBUF"].bytes, levels["SBUF"].intensity, levels["SBUF"].bytes_per_cycle) == (131072, 128, 256)
    assert levels["SBUF"].attainable == found.peak_flops_per_cycle
