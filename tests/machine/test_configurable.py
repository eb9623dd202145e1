"""Every latency, rate and size of a machine acts, in the right direction, and changes no value."""

from __future__ import annotations

from typing import Any

import pytest
from support import machine, simulated

from hwmodel.result import Result

TILING = {"kind": "n_split", "tile_n": 64, "buffers": {"l0": 2, "l0c": 2}}
GRID = {"kind": "blocked", "core_grid": [2, 2], "base": [32, 64, 64], "panel_slices": 1}

SLOWER = [
    ("arch__launch_cycles", 10),
    ("arch__units__tload__startup_cycles", 101),
    ("arch__units__tload__bytes_per_cycle", 60),
    ("arch__links__hbm__core_bytes_per_cycle", 60),
    ("arch__links__hbm__bytes_per_cycle", 50),
    ("arch__units__textract__startup_cycles", 11),
    ("arch__units__textract__bytes_per_cycle__l0a", 10),  # slow enough to be seen behind the loads of B
    ("arch__units__textract__bytes_per_cycle__l0b", 100),
    ("arch__units__textract__bytes_per_cycle__l0a_mx", 1),
    ("arch__units__textract__bytes_per_cycle__l0b_mx", 16),
    ("arch__units__cube__startup_cycles", 6),
    ("arch__units__cube__fractals__hif4__passes", 3),
    ("arch__units__cube__fractals__hif4__k_per_fractal", 16),
    ("arch__units__fixpipe__startup_cycles", 51),
    ("arch__units__fixpipe__bytes_per_cycle", 30),
    ("arch__units__fixpipe__row_floor_cycles", 5),
    ("arch__units__fixpipe__partial_granule_factor", 9),
    ("arch__units__fixpipe__granule_bytes", 512),
]


def base(**change: Any) -> Result:
    # one slice of 64 x 64: each step is on the path; rows of 64 bf16 fill one granule of 128
    return simulated(64, 128, 64, **change)


def partial(**change: Any) -> Result:
    """Rows of 72 bytes, so that granules are written in part."""
    return simulated(64, 128, 36, **change)


@pytest.mark.parametrize(("path", "value"), SLOWER, ids=lambda each: str(each).removeprefix("arch__"))
def test_each_number_of_the_arch_file_acts_and_changes_no_value_c2(path: str, value: float) -> None:
    runs = partial if "granule" in path or path.endswith("fixpipe__bytes_per_cycle") else base
    before, after = runs(), runs(**{path: value})
    assert after.cycles > before.cycles  # type: ignore[operator]
    assert after.values.sha256 == before.values.sha256
    assert after.values.status == "bit_exact"


def test_ten_times_every_latency_is_slower_and_the_same_bits_c2() -> None:
    slow = {path: 10 * value for path, value in SLOWER if path.endswith("startup_cycles")}
    before, after = simulated(128, 128, 256, tiling=TILING), simulated(128, 128, 256, tiling=TILING, **slow)
    assert after.cycles > before.cycles  # type: ignore[operator]
    assert after.values.sha256 == before.values.sha256


def test_a_clock_changes_the_time_and_not_the_cycles() -> None:
    before, after = base(), base(arch__clock_mhz=3300)
    assert after.cycles == before.cycles
    assert after.time_us == before.time_us / 2  # type: ignore[operator]


def test_a_shared_link_slows_cores_that_load_together_c1() -> None:
    before = simulated(64, 256, 128, tiling=GRID)
    after = simulated(64, 256, 128, tiling=GRID, arch__links__hbm__bytes_per_cycle=100)
    assert after.cycles > before.cycles  # type: ignore[operator]
    assert after.values.sha256 == before.values.sha256
    one = simulated(32, 256, 64, tiling={**GRID, "core_grid": [1, 1]}, arch__links__hbm__bytes_per_cycle=100)
    assert one.cycles < after.cycles  # type: ignore[operator]


def test_overrides_say_so() -> None:
    arch = machine({"units.cube.startup_cycles": 99})
    assert arch.unit("cube").startup_cycles == 99
    assert arch.sources["units.cube.startup_cycles"].source == "override"
    assert arch.sources["units.cube.startup_cycles"].confidence == "assumed"
