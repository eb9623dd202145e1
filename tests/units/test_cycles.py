"""How long instructions take, without an event loop: tables worked out by hand.

Rates here are round numbers of this file; the arithmetic stands beside each line.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from support import machine

from hwmodel.config.arch import load_arch
from hwmodel.config.resources import shipped_scenarios
from hwmodel.program.instructions import Extract, Load, Matmul, Store
from hwmodel.scenario import load
from hwmodel.units import cube, fixpipe, textract, tload
from hwmodel.units.base import Traffic
from hwmodel.units.cube import CubeSpec
from hwmodel.units.fixpipe import FixpipeSpec
from hwmodel.units.textract import TExtractSpec
from hwmodel.units.tload import TLoadSpec

# -- TLOAD -------------------------------------------------------------------------------------------------------------

TLOAD = TLoadSpec.model_validate({"startup_cycles": 100, "bytes_per_cycle": 64})


@pytest.mark.parametrize(
    ("size", "miss", "expected"),
    [
        (0, 0, 100),  # start-up alone
        (64, 0, 101),
        (65, 0, 102),  # 65 / 64 -> 2
        (6400, 0, 200),
        (6400, 6400, 100),  # all of it comes over the shared link, whose time is the link's
        (6400, 640, 190),  # 5760 / 64 = 90
    ],
)
def test_tload(size: int, miss: int, expected: int) -> None:
    params = Load(size, 1, size, miss)
    assert tload.cycles(TLOAD, params) == expected
    assert tload.traffic(TLOAD, params) == ((Traffic("hbm", miss),) if miss else ())
    assert tload.UNIT.gm_bytes(params) == (size, 0)


def test_tload_does_not_care_how_rows_lie() -> None:
    assert tload.cycles(TLOAD, Load(4096, 1, 4096, 0)) == tload.cycles(TLOAD, Load(4096, 64, 64, 0)) == 164


def test_rates_are_exact_fractions() -> None:
    spec = TLoadSpec.model_validate({"startup_cycles": 0, "bytes_per_cycle": 78.4})
    assert spec.bytes_per_cycle == Fraction(784, 10)
    assert tload.cycles(spec, Load(784, 1, 784, 0)) == 10
    assert tload.cycles(spec, Load(785, 1, 785, 0)) == 11


@pytest.mark.parametrize(
    ("instructions", "size", "expected"),
    [(1, 65536, 776), (1, 32640, 519), (1, 16384, 392), (8, 8192, 2624), (32, 512, 8576), (32, 1024, 8704)],
)
def test_the_published_profile_of_loads_comes_out(instructions: int, size: int, expected: int) -> None:
    """264 + bytes / 128 cycles for each instruction, one after the other (hardware facts 2.1)."""
    spec = TLoadSpec.model_validate({"startup_cycles": 264, "bytes_per_cycle": 128})
    assert instructions * tload.cycles(spec, Load(size, 1, size, 0)) == expected


# -- TEXTRACT ----------------------------------------------------------------------------------------------------------

TEXTRACT = TExtractSpec.model_validate(
    {"startup_cycles": 10, "bytes_per_cycle": {"l0a": 256, "l0b": 128, "l0a_mx": 64, "l0b_mx": 32}}
)


@pytest.mark.parametrize(
    ("target", "size", "expected"),
    [
        ("l0a", 32768, 138),  # 10 + 32768 / 256
        ("l0b", 32768, 266),  # 10 + 32768 / 128
        ("l0a_mx", 4096, 74),  # 10 + 4096 / 64
        ("l0b_mx", 4096, 138),  # 10 + 4096 / 32
        ("l0a", 257, 12),  # 10 + 2
        ("l0a", 0, 10),
    ],
)
def test_textract_has_a_rate_for_each_buffer_a07(target: str, size: int, expected: int) -> None:
    assert textract.cycles(TEXTRACT, Extract(size, target)) == expected


# -- Cube --------------------------------------------------------------------------------------------------------------

CUBE = CubeSpec.model_validate(
    {
        "startup_cycles": 5,
        "fractals": {
            "bf16": {"k_per_fractal": 16},
            "int8": {"k_per_fractal": 32},
            "hif4": {"k_per_fractal": 64},
            "fp32": {"k_per_fractal": 8, "passes": 2},
            "slow": {"k_per_fractal": 64, "passes": 1.3},
        },
    }
)


@pytest.mark.parametrize(
    ("m", "k", "n", "a", "b", "expected"),
    [
        (128, 128, 128, "hif4", "hif4", 5 + 8 * 2 * 8),
        (512, 128, 128, "hif4", "hif4", 5 + 32 * 2 * 8),
        (128, 128, 128, "int8", "int8", 5 + 8 * 4 * 8),
        (128, 128, 128, "bf16", "bf16", 5 + 8 * 8 * 8),
        (1, 1, 1, "hif4", "hif4", 6),  # one fractal, however little of it is used
        (17, 65, 17, "hif4", "hif4", 5 + 2 * 2 * 2),
        (16, 64, 16, "bf16", "hif4", 5 + 4),  # a mixed pair runs at the slower rate, K 16
        (16, 64, 16, "hif4", "bf16", 5 + 4),
        (16, 64, 16, "int8", "hif4", 5 + 2),
        (120, 110, 50, "fp32", "fp32", 5 + 2 * 8 * 14 * 4),  # two passes a fractal
        (16, 64, 16, "fp32", "hif4", 5 + 2 * 8),
        (16, 64 * 3, 16, "slow", "slow", 5 + 4),  # 1.3 x 3 = 3.9
        (128, 128, 500, "hif4", "hif4", 5 + 8 * 2 * 32),  # 500 columns are 32 fractals
    ],
)
def test_cube_counts_fractals(m: int, k: int, n: int, a: str, b: str, expected: int) -> None:
    assert cube.cycles(CUBE, Matmul(m, k, n, a, b, False)) == expected
    assert cube.cycles(CUBE, Matmul(m, k, n, a, b, True)) == expected
    assert cube.UNIT.macs(Matmul(m, k, n, a, b, False)) == m * k * n


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [("hif4", "hif4", 16384), ("int8", "int8", 8192), ("bf16", "hif4", 4096), ("fp32", "fp32", 1024)],
)
def test_peak_of_the_cube(a: str, b: str, expected: int) -> None:
    assert cube.macs_per_cycle(CUBE, a, b) == expected


def test_the_published_cost_model_of_a3_comes_out() -> None:
    """pto-isa's own tests: start-up 6; fp16 40x50x60 = 54, int8 6x7x8 = 7, fp16 128x128x64 = 262, fp32 = 902."""
    spec = CUBE.model_copy(update={"startup_cycles": 6})
    assert cube.cycles(spec, Matmul(40, 50, 60, "bf16", "bf16", False)) == 54
    assert cube.cycles(spec, Matmul(6, 7, 8, "int8", "int8", False)) == 7
    assert cube.cycles(spec, Matmul(128, 128, 64, "bf16", "bf16", False)) == 262
    assert cube.cycles(spec, Matmul(120, 110, 50, "fp32", "fp32", False)) == 902


# -- FIXPIPE -----------------------------------------------------------------------------------------------------------

FIXPIPE = FixpipeSpec.model_validate(
    {"startup_cycles": 50, "bytes_per_cycle": 64, "row_floor_cycles": 3, "granule_bytes": 128,
     "partial_granule_factor": 2}
)  # fmt: skip


def store(rows: int, cols: int, element: int, stride: int | None = None, start: int = 0) -> Store:
    return Store(rows, cols, element, cols * element if stride is None else stride, start)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (store(1, 256, 2), 50 + 8),  # 512 B, 4 granules, 512 / 64
        (store(10, 256, 2), 50 + 80),
        (store(16, 64, 2), 50 + 16 * 3),  # a whole granule takes 2, the floor of a row is 3
        (store(16, 128, 2), 50 + 16 * 4),  # 256 / 64
        (store(1, 100, 2), 50 + 6),  # 200 B: one whole granule 2 and one written in part 2 x 2
        (store(1, 32, 2), 50 + 4),  # 64 B: one granule in part
        (store(1, 64, 4), 50 + 4),
        (store(1, 1, 1), 50 + 4),
        (store(1, 64, 2, start=64), 50 + 8),  # 64..192: two granules, both in part
        (store(1, 128, 2, start=64), 50 + 10),  # 64..320: part, whole, part
        (store(1, 96, 2, start=64), 50 + 6),  # 64..256: part, whole
        (store(1, 32, 2, start=96), 50 + 8),  # 96..160: both in part
        (store(1, 32, 2, start=128), 50 + 4),  # a granule further on is the same place
    ],
)
def test_fixpipe_one_row_after_another(params: Store, expected: int) -> None:
    assert fixpipe.cycles(FIXPIPE, params) == expected


def test_fixpipe_rows_that_do_not_start_on_a_granule() -> None:
    # stride 192: rows start at 0, 64, 0, 64, ... of a granule; 128 B each: whole 2 -> floor 3, or two parts 8
    assert fixpipe.cycles(FIXPIPE, store(4, 64, 2, stride=192)) == 50 + 2 * 3 + 2 * 8
    assert fixpipe.cycles(FIXPIPE, store(5, 64, 2, stride=192)) == 50 + 3 * 3 + 2 * 8
    assert fixpipe.cycles(FIXPIPE, store(5, 64, 2, stride=192, start=64)) == 50 + 2 * 3 + 3 * 8
    # stride 1000 (N = 500 bf16): gcd(1000, 128) = 8, so 16 places; 128 B rows at 0, 104, 80, 56, ...: only the first
    # is aligned, all others touch two granules in part
    assert fixpipe.cycles(FIXPIPE, store(16, 64, 2, stride=1000)) == 50 + 3 + 15 * 8
    assert fixpipe.cycles(FIXPIPE, store(32, 64, 2, stride=1000)) == 50 + 2 * (3 + 15 * 8)


def test_fixpipe_row_floor() -> None:
    def floor(cycles: float) -> FixpipeSpec:
        return FixpipeSpec.model_validate({**FIXPIPE.model_dump(), "row_floor_cycles": cycles})

    assert fixpipe.cycles(floor(4.59), store(512, 128, 2)) == 50 + 2351  # 512 x 4.59 = 2350.08; a row alone takes 4
    assert fixpipe.cycles(floor(4.59), store(512, 256, 2)) == 50 + 512 * 8
    fast = FixpipeSpec.model_validate({**floor(1.1).model_dump(), "bytes_per_cycle": 1024})
    assert fixpipe.cycles(fast, store(100, 64, 2)) == 50 + 110  # exactly; with doubles 100 x 1.1 would round up to 111


def test_fixpipe_writes_what_it_stores() -> None:
    assert fixpipe.UNIT.gm_bytes(store(16, 100, 2)) == (0, 3200)


@pytest.mark.parametrize("element", [1, 2, 4])
@pytest.mark.parametrize("cols", [1, 31, 64, 100])
@pytest.mark.parametrize("stride", [100, 128, 250, 512])
@pytest.mark.parametrize("start", [0, 4, 66, 127])
def test_fixpipe_is_the_sum_over_its_rows(element: int, cols: int, stride: int, start: int) -> None:
    rows = 37
    one = [fixpipe.cycles(FIXPIPE, store(1, cols, element, stride, start + row * stride)) - 50 for row in range(rows)]
    assert fixpipe.cycles(FIXPIPE, store(rows, cols, element, stride, start)) == 50 + sum(one)


@pytest.mark.parametrize(("n", "row_cycles"), [(128, 4.45), (256, 4 * 256 / 118), (512, 4 * 512 / 118)])
def test_the_published_drain_of_a3_comes_out(n: int, row_cycles: float) -> None:
    """pypto's sweep: 164 + m max(4.45, 4 n / 118); the floor holds up to n of about 131 (hardware facts 2.2)."""
    spec = FixpipeSpec.model_validate(
        {"startup_cycles": 164, "bytes_per_cycle": 118, "row_floor_cycles": 4.45, "granule_bytes": 512,
         "partial_granule_factor": 1}
    )  # fmt: skip
    assert fixpipe.cycles(spec, store(128, n, 4)) == pytest.approx(164 + 128 * row_cycles, abs=1)


# -- published profiles of whole kernels, instruction by instruction (hardware facts 2.4) --------------------------


def test_instructions_of_the_a3_gemm_take_the_profiled_cycles() -> None:
    """fp16 base tile of 128 x 64 x 256: fractals + 12 to 14, 410 for both TEXTRACTs, about 1,840 for the drain."""
    arch = load_arch("ascend_a3")
    assert 512 + 12 <= cube.cycles(arch.unit("cube"), Matmul(128, 64, 256, "fp16", "fp16", True)) <= 512 + 14
    extracts = ((128 * 64 * 2, "l0a"), (64 * 256 * 2, "l0b"))
    extracted = sum(textract.cycles(arch.unit("textract"), Extract(size, target)) for size, target in extracts)
    assert extracted == pytest.approx(410, abs=3)
    drained = fixpipe.cycles(arch.unit("fixpipe"), store(128, 256, 4))
    assert drained == pytest.approx(1840, rel=0.01)
    assert 128 * 256 * 4 / drained == pytest.approx(72, rel=0.02)


def test_instructions_of_the_a5_mxfp8_gemm_take_the_profiled_cycles() -> None:
    """Base tile of 128 x 128 x 256: fractals + 12 to 14, about 330 for the TEXTRACTs, 66 B/cycle of bf16."""
    arch = load_arch("ascend_a5")
    matmul = Matmul(128, 128, 256, "mxfp8_e5m2", "mxfp8_e5m2", True)
    assert 512 + 12 <= cube.cycles(arch.unit("cube"), matmul) <= 512 + 14
    extracts = ((16384, "l0a"), (512, "l0a_mx"), (32768, "l0b"), (1024, "l0b_mx"))
    extracted = sum(textract.cycles(arch.unit("textract"), Extract(size, target)) for size, target in extracts)
    assert extracted == pytest.approx(330, rel=0.02)
    assert 128 * 256 * 2 / fixpipe.cycles(arch.unit("fixpipe"), store(128, 256, 2)) == pytest.approx(66, rel=0.02)


def test_instructions_of_the_a5_mxfp4_gemm_take_the_profiled_cycles() -> None:
    """Base tile of 256 cubed, in the kernel's own numbers: about 2,000 and 1,980 cycles, 41 B/cycle of bf16.

    Rows of N = 8100 bf16 do not start on 512 B: about three times as long.
    """
    arch = load(shipped_scenarios()["silicon/a5_mxfp4_2040x8192x8100"]).arch
    matmul = Matmul(256, 256, 256, "mxfp4_e2m1", "mxfp4_e2m1", True)
    assert cube.cycles(arch.unit("cube"), matmul) == pytest.approx(2000, rel=0.02)
    extracts = ((32768, "l0a"), (2048, "l0a_mx"), (32768, "l0b"), (2048, "l0b_mx"))
    extracted = sum(textract.cycles(arch.unit("textract"), Extract(size, target)) for size, target in extracts)
    assert extracted == pytest.approx(1980, rel=0.02)
    spec = arch.unit("fixpipe")
    drained = fixpipe.cycles(spec, store(256, 256, 2))
    assert 256 * 256 * 2 / drained == pytest.approx(41, rel=0.05)
    assert fixpipe.cycles(spec, store(256, 256, 2, stride=16200)) / drained == pytest.approx(3, rel=0.1)


@pytest.mark.parametrize(
    ("name", "dtype", "macs", "tflops"),
    [
        ("ascend_a3", "fp16", 4096, 364),
        ("ascend_a3", "int8", 8192, 727),
        ("ascend_a3", "fp32", 1024, 91),
        ("ascend_a5", "fp8_e4m3", 8192, 865),
        ("ascend_a5", "mxfp8_e5m2", 8192, 865),
        ("ascend_a5", "mxfp4_e2m1", 16384, 1730),
        ("ascend_a5", "fp32", 256, 27),
    ],
)
def test_published_peaks_of_the_calibrated_machines(name: str, dtype: str, macs: int, tflops: float) -> None:
    """Multiply-adds of a fractal a cycle and core, fp32 in 2 passes on A3 and 8 on A5 (hardware facts 1.3)."""
    arch = load_arch(name)
    assert arch.peak_macs_per_cycle(dtype, dtype) == macs
    assert 2 * macs * arch.spec.cores * float(arch.clock_hz) / 1e12 == pytest.approx(tflops, abs=0.6)


# -- the machine that ships ----------------------------------------------------------------------------------------

MACS = {
    **dict.fromkeys(("fp16", "bf16"), 4096),
    **dict.fromkeys(("fp8_e4m3", "fp8_e5m2", "hif8", "int8", "mxfp8_e4m3", "mxfp8_e5m2"), 8192),
    **dict.fromkeys(("mxfp4_e2m1", "mxfp4_e1m2", "hif4", "int4"), 16384),
}


def test_published_facts_of_a6_a17() -> None:
    """Buffers and fractals are published (hardware facts 1.1 and 1.3); rates are not, and say so."""
    arch = machine(shipped=True)
    sizes = {"l1": 512, "l0a": 64, "l0b": 64, "l0a_mx": 4, "l0b_mx": 4, "l0c": 256}
    for name, kib in sizes.items():
        assert arch.buffer_bytes(name) == kib * 1024
        assert arch.spec.buffers[name].allocation_bytes == 32
        assert arch.sources[f"buffers.{name}.capacity_bytes"].confidence == "spec"
    assert {dtype: arch.peak_macs_per_cycle(dtype, dtype) for dtype in MACS} == MACS
    assert not arch.spec.calibrated
    timing = [source for path, source in arch.sources.items() if path.endswith("_cycles")]
    assert {source.confidence for source in timing} == {"assumed"}


def test_every_number_of_every_shipped_unit_says_where_it_is_from() -> None:
    arch = machine(shipped=True)
    assert set(arch.spec.units) == {"tload", "textract", "cube", "fixpipe"}
    stated = {path: source for path, source in arch.sources.items() if path.startswith("units.")}
    assert len(stated) > 20
    for path, source in stated.items():
        assert source.source, path
        assert source.confidence in ("spec", "silicon", "derived", "fit", "assumed"), path
