"""Times of a NeuronCore: laws against the published figures, overlap, the throttle, banks, clocks."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from neuron_programs import (
    TRN1,
    TRN2,
    TRN3,
    dense,
    integers,
    matmult,
    normal,
    psum,
    ready,
    result,
    sbuf,
    scenario,
    tensor,
)

from hwmodel.config.arch import load_arch
from hwmodel.experiment import prepare, run
from hwmodel.program.instructions import Matmul
from hwmodel.program.neuron import Evacuate, Transfer, Transpose, Weights
from hwmodel.result import Result
from hwmodel.trace import Row, check_well_formed
from hwmodel.units.neuron import dma, evacuate, pe
from hwmodel.units.neuron.throttle import BurstThrottle

ARCHS = {name: load_arch(name) for name in (TRN1, TRN2, TRN3)}
LATENCIES = [
    "units.dma.startup_cycles",
    "units.dma.completion_cycles",
    "units.dma.issue_cycles",
    "units.dma.descriptor_cycles",
    "units.pe.swap_cycles",
    "units.pe.latency_cycles",
    "units.vector.issue_cycles",
    "units.vector.latency_cycles",
    "units.scalar.latency_cycles",
]


def row(outcome: Result, engine: str) -> Row:
    assert outcome.trace is not None
    return next(row for row in outcome.trace.rows if row.engine == engine)


def matmul(a: str, m: int = 128, k: int = 128, n: int = 512) -> Matmul:
    return Matmul(m, k, n, a, a, False)


# -- laws --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARCHS)
@pytest.mark.parametrize(
    ("params", "streaming"),
    [
        (matmul("bf16"), 512),
        (matmul("bf16", n=64), 64),
        (matmul("bf16", n=1), 64),
        (matmul("bf16", m=16, n=1), 16),
        (matmul("bf16", m=16, n=40), 40),
        (matmul("bf16", k=1), 512),
        (matmul("fp8_e5m2", k=256), 512),
        (matmul("fp32"), 2048),
        (matmul("fp32", m=128, n=8), 256),
        (matmul("fp32r"), 512),
    ],
)
def test_a_matmul_takes_max_of_64_or_columns_and_rows(name: str, params: Matmul, streaming: int) -> None:
    """max(min(64, columns), rows) PE cycles, four times that for fp32 (hardware facts 2.1)."""
    spec = ARCHS[name].unit("pe")
    assert pe.streaming_cycles(spec, params) == streaming + spec.swap_cycles
    assert pe.cycles(spec, params) == streaming + spec.swap_cycles + spec.latency_cycles


@pytest.mark.parametrize("name", [TRN2, TRN3])
@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "streaming"),
    [
        ("bf16", 128, 128, 128),
        ("bf16", 32, 128, 64),
        ("bf16", 32, 48, 48),
        ("bf16", 100, 16, 100),
        ("fp32", 128, 128, 256),
        ("fp32", 32, 128, 128),
        ("fp32r", 128, 128, 128),
        ("fp8_e5m2", 128, 64, 128),
    ],
)
def test_a_transpose_takes_max_of_partitions_and_64_or_elements(
    name: str, dtype: str, rows: int, columns: int, streaming: int
) -> None:
    """max(P, min(64, F)) PE cycles of data [P, F], twice that for fp32 (hardware facts 2.1)."""
    spec = ARCHS[name].unit("pe")
    params = Transpose(rows, columns, dtype, dtype)
    assert pe.streaming_cycles(spec, params) == streaming + spec.swap_cycles
    assert pe.cycles(spec, params) == streaming + spec.swap_cycles + spec.latency_cycles
    assert pe.UNIT.macs(params) == 0


def test_fp32_data_moves_in_half_the_passes_of_a_product() -> None:
    """A transpose of [96, 40] float32 on trn2: 2 x 96 cycles and its weights 2 x 40 / 4, a product four passes."""
    tensors = {
        "x": sbuf("float32", 96, 40, init=normal(1)),
        "w": sbuf("float32", 40, 40, init={"kind": "identity"}),
        "acc": psum(40, 96),
    }
    outcome = result(tensors, [matmult(transpose=True)], TRN2, overrides={"arch.units.pe.throttle": None})
    assert outcome.values.status == "bit_exact"
    moving, weights = row(outcome, "PE"), row(outcome, "PEW")
    assert [int(end - start) // 10 for start, end in ((moving.starts[0], moving.ends[0]),)] == [2 * 96 + 10 + 400]
    assert int(weights.ends[0] - weights.starts[0]) // 10 == 2 * 10
    assert outcome.stats is not None
    assert outcome.stats.macs == 0


@pytest.mark.parametrize(("flag", "passes"), [(None, 4), ("weights_onezero", 2), ("ifmap_onezero", 2)])
def test_fp32_operands_of_which_one_holds_only_0_and_1_take_two_passes(flag: str | None, passes: int) -> None:
    """2x in place of 4x where one side is flagged so (hardware facts 2.1): [40, 96] rows, 40 weight columns on trn2."""
    tensors = {
        "x": sbuf("float32", 40, 96, init={"kind": "constant", "value": 1.0}),
        "w": sbuf("float32", 40, 40, init={"kind": "identity"}),
        "acc": psum(40, 96),
    }
    flags = {} if flag is None else {flag: True}
    outcome = result(tensors, [matmult(**flags)], TRN2, overrides={"arch.units.pe.throttle": None})
    assert outcome.values.status == "bit_exact"
    moving, weights = row(outcome, "PE"), row(outcome, "PEW")
    assert int(moving.ends[0] - moving.starts[0]) // 10 == passes * 96 + 10 + 400
    assert int(weights.ends[0] - weights.starts[0]) // 10 == passes * 10


def test_mx_contracts_four_times_as_much_in_the_same_time() -> None:
    spec = ARCHS[TRN3].unit("pe")
    for dtype in ("mxfp8_e4m3", "mxfp4_e2m1"):
        assert pe.streaming_cycles(spec, matmul(dtype, k=512)) == pe.streaming_cycles(spec, matmul("bf16"))
        assert pe.peak_macs(spec, dtype, dtype) == 4 * pe.peak_macs(spec, "bf16", "bf16")


@pytest.mark.parametrize(("name", "tflops"), [(TRN1, 91.75), (TRN2, 78.64), (TRN3, 78.64)])
def test_peak_rates_are_the_published_ones(name: str, tflops: float) -> None:
    """128 x 128 x 2 x clock: one multiply-add an element of the array and cycle; fp32 a quarter (hardware facts 1)."""
    arch = ARCHS[name]
    peak = 2 * arch.peak_macs_per_cycle("bf16", "bf16") * float(arch.clock_hz) / 1e12
    assert peak == pytest.approx(tflops, rel=1e-3)
    assert arch.peak_macs_per_cycle("fp32", "fp32") * 4 == arch.peak_macs_per_cycle("bf16", "bf16")


def test_128_weight_columns_load_in_32_cycles() -> None:
    spec = ARCHS[TRN2].unit("pe")
    assert pe.cycles(spec, Weights(128, 128, "bf16")) == 32
    assert pe.cycles(spec, Weights(128, 128, "fp32")) == 128
    assert pe.cycles(spec, Weights(128, 5, "bf16")) == 2
    assert pe.cycles(spec, Weights(128, 128, "fp32", transpose=True)) == 64


PUBLISHED_SHARE = {
    32: 1.4, 64: 2.6, 128: 5.0, 256: 10.3, 512: 20.6, 1024: 42.2, 2048: 81.3, 4096: 96.6, 8192: 98.3, 16384: 99.0,
    32768: 100.0,
}  # fmt: skip


@pytest.mark.parametrize("row_bytes", PUBLISHED_SHARE)
def test_dma_efficiency_by_row_size_is_the_published_curve(row_bytes: int) -> None:
    """Transfers of 128 partitions back to back on one queue, as a share of the best rate, within 4 points."""
    spec = ARCHS[TRN2].unit("dma")

    def rate(size: int) -> float:
        timed = dma.timing(spec, Transfer(128, size, 128 * size, 0))
        return 128 * size / max(timed.issue, timed.work)

    share = 100 * rate(row_bytes) / rate(32768)
    assert share == pytest.approx(PUBLISHED_SHARE[row_bytes], abs=4)


def test_dma_rates_are_the_documented_ones() -> None:
    """Rows of 4 KiB move at 17 B/ns and ring on trn1, 23 on trn2, 33 on trn3; 32 KiB on one ring take about 1,416 ns.

    That of trn1 is a little faster: with the published peak one number is left for its 4 KiB and its tiled loop.
    """
    for name, rate, within in ((TRN1, 17, 0.08), (TRN2, 23, 0.02), (TRN3, 33, 0.02)):
        spec = ARCHS[name].unit("dma")
        assert 4096 / float(dma.row_cycles(spec, 4096)) == pytest.approx(rate, rel=within)
    assert float(dma.row_cycles(ARCHS[TRN2].unit("dma"), 32768)) == pytest.approx(1416, rel=0.02)


@pytest.mark.parametrize(("rows", "work_share"), [(128, 1.0), (64, 0.5), (8, 1 / 16), (1, 1 / 128)])
def test_a_transfer_of_few_partitions_uses_few_rings(rows: int, work_share: float) -> None:
    """8 partitions a ring: the time alone is that of the fullest ring, the load on all rings the sum."""
    spec = ARCHS[TRN2].unit("dma")
    full = dma.timing(spec, Transfer(128, 2048, 0, 0))
    timed = dma.timing(spec, Transfer(rows, 2048, 0, 0))
    assert timed.work == pytest.approx(full.work * work_share, abs=1)
    alone = min(rows, 8) * float(dma.row_cycles(spec, 2048))
    assert dma.cycles(spec, Transfer(rows, 2048, 0, 0)) == pytest.approx(alone + 1300, abs=2)


@pytest.mark.parametrize(
    ("name", "vector_ns", "scalar_ns", "fill_ns"), [(TRN1, 457, 366, 183), (TRN2, 533, 427, 213), (TRN3, 427, 427, 213)]
)
def test_emptying_a_bank_takes_the_published_time(
    name: str, vector_ns: float, scalar_ns: float, fill_ns: float
) -> None:
    """128 x 512 fp32 out of PSUM, and the bf16 matmul that fills it, fixed parts apart (hardware facts 2.3)."""
    arch = ARCHS[name]
    for engine, published in (("DVE", vector_ns), ("ACT", scalar_ns)):
        spec = arch.units[engine].spec
        streaming = evacuate.timing(spec, Evacuate("copy", 512)).before - spec.latency_cycles
        assert spec.clock_mhz is not None
        assert 1000 * streaming / float(spec.clock_mhz) == pytest.approx(published, abs=0.5)
    spec = arch.unit("pe")
    filling = pe.streaming_cycles(spec, matmul("bf16")) - spec.swap_cycles
    assert 1e9 * filling / float(arch.clock_hz) == pytest.approx(fill_ns, abs=0.5)


def test_passes_of_fp32_follow_as_published() -> None:
    """trn2: a pass of 1,024 cycles every 429 ns, done about 600 ns after its issue (hardware facts 2.5)."""
    timed = pe.timing(ARCHS[TRN2].unit("pe"), matmul("fp32", n=256))
    assert timed.issue / 2.4 == pytest.approx(429, rel=0.005)
    assert timed.before / 2.4 == pytest.approx(600, rel=0.01)


@pytest.mark.parametrize("name", ARCHS)
def test_a_mixed_pair_of_fp8_and_bf16_runs_as_bf16(name: str) -> None:
    spec = ARCHS[name].unit("pe")
    mixed = Matmul(128, 128, 512, "fp8_e5m2", "bf16", False)
    assert pe.timing(spec, mixed) == pe.timing(spec, matmul("bf16"))


# -- clocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARCHS)
def test_clocks_convert_exactly(name: str) -> None:
    """A tick is a whole part of every clock's cycle: nothing is rounded but the boundaries that are shown."""
    arch = ARCHS[name]
    for unit in arch.units.values():
        clock = unit.spec.clock_mhz or arch.spec.clock_mhz
        assert Fraction(unit.ticks_per_cycle) * clock == arch.tick_rate


def test_engines_keep_their_own_clocks() -> None:
    """A copy of 512 elements ends at a whole number of Vector cycles, not of PE cycles."""
    outcome = result(
        {"a": psum(128, 512, init=normal(1)), "b": sbuf("float32", 128, 512)},
        [{"op": "copy", "src": "a", "dst": "b"}],
        TRN2,
    )
    vector = row(outcome, "DVE")
    ticks = vector.ends[0] - vector.starts[0]
    assert ticks == (512 + 160) * 25  # ticks of 1/24 ns: a cycle of 960 MHz has 25
    assert outcome.cycles == -(-ticks // 10)


# -- overlap -----------------------------------------------------------------------------------------------------------

CHAIN = [matmult()] + [matmult(start=False, accumulate=True)] * 7


def test_weight_loads_hide_behind_the_running_matmul() -> None:
    """Eight matmuls back to back on trn1: one every 512 + 80 cycles, each weight load during the one before."""
    outcome = result(dense(128, 128, 512), CHAIN, TRN1)
    moving, weights = row(outcome, "PE"), row(outcome, "PEW")
    cycle = 10
    assert np.diff(moving.starts).tolist() == [592 * cycle] * 7
    assert [end - start for start, end in zip(moving.starts, moving.ends, strict=True)] == [992 * cycle] * 8
    for load_end, start in zip(weights.ends, moving.starts, strict=True):
        assert load_end <= start
    for load_start, previous in zip(weights.starts[2:], moving.starts, strict=False):
        assert load_start >= previous + 592 * cycle  # two copies: one is free when its matmul has streamed


def test_a_matmul_is_a_weight_load_followed_by_a_multiply_n035() -> None:
    mx = {
        "x": sbuf("float8_e4m3fn_x4", 128, 64, init=normal(1)),
        "xs": sbuf("uint8", 128, 64, init=integers(2, 125, 130)),
        "acc": psum(64, 64),
    }
    instruction = {
        "op": "matmult_mx", "ifmap": "x", "weights": "x", "ifmap_scales": "xs", "weights_scales": "xs", "dst": "acc",
        "start": True,
    }  # fmt: skip
    outcome = result(mx, [instruction])
    assert outcome.trace is not None
    spans = [
        (each.op, start, end)
        for row in outcome.trace.rows
        for each, start, end in zip(row.instructions, row.starts, row.ends, strict=True)
    ]
    assert [op for op, _, _ in sorted(spans, key=lambda span: span[1])] == ["load_weights", "matmult_mx"]
    assert spans[0][2] <= spans[1][1]


def test_transfers_of_one_queue_overlap_their_latency_and_follow_each_other_on_the_rings() -> None:
    outcome = result(
        {name: tensor("dram", "float32", 128, 512, init=normal(1)) for name in "ab"}
        | {f"s{name}": sbuf("float32", 128, 512) for name in "ab"},
        [{"op": "load", "src": name, "dst": f"s{name}"} for name in "ab"],
        TRN2,
    )
    queue = row(outcome, "DMA0")
    timed = dma.timing(ARCHS[TRN2].unit("dma"), Transfer(128, 2048, 0, 0))
    tick = 24
    assert queue.starts.tolist() == [0, timed.issue * tick]
    first = timed.before + timed.work + timed.after
    assert queue.ends[0] == first * tick
    assert queue.ends[1] == (timed.issue + first) * tick  # the rings are free again before it arrives


def test_two_queues_share_the_rings() -> None:
    tensors = {name: tensor("dram", "float32", 128, 2048, init=normal(1)) for name in "ab"}
    tensors |= {f"s{name}": sbuf("float32", 128, 2048) for name in "ab"}
    both = [{"op": "load", "src": name, "dst": f"s{name}", "queue": queue} for queue, name in enumerate("ab")]
    outcome = result(tensors, both, TRN2)
    timed = dma.timing(ARCHS[TRN2].unit("dma"), Transfer(128, 8192, 0, 0))
    together = (timed.before + 2 * timed.work + timed.after) * 24
    assert [row(outcome, f"DMA{queue}").ends[0] for queue in (0, 1)] == [together, together]


def test_a_unit_with_several_engines_is_busy_when_any_of_them_is() -> None:
    outcome = result(dense(128, 128, 512), CHAIN, TRN2)
    assert outcome.stats is not None
    assert outcome.trace is not None
    assert check_well_formed(outcome.trace) == []
    assert set(outcome.stats.units) == {"dma", "pe", "evacuate"}
    for unit in outcome.stats.units.values():
        parts = (unit.busy_cycles, unit.wait_input_cycles, unit.wait_space_cycles, unit.idle_cycles)
        assert min(parts) >= 0
        assert sum(parts) == outcome.cycles
    assert outcome.stats.units["pe"].busy_cycles == outcome.cycles


# -- throttle ----------------------------------------------------------------------------------------------------------


def test_the_throttle_halves_the_clock_at_the_start_of_a_burst() -> None:
    throttle = BurstThrottle(1000, Fraction(1, 2), Fraction(2))
    assert throttle.stretch(0, 100) == 200
    assert throttle.stretch(200, 300) == 600
    assert throttle.stretch(800, 300) == 400  # 100 of it in the 200 ticks that are left, 200 at full speed
    assert throttle.stretch(1200, 300) == 300


def test_the_throttle_comes_back_after_a_quiet_window() -> None:
    throttle = BurstThrottle(1000, Fraction(1, 2), Fraction(2))
    throttle.stretch(0, 2000)
    assert throttle.stretch(3500, 100) == 200  # busy until 3500: [2500, 3500]
    busy = BurstThrottle(1000, Fraction(1, 2), Fraction(2))
    busy.stretch(0, 2000)
    assert busy.stretch(4100, 100) == 200
    steady = BurstThrottle(1000, Fraction(1, 2), Fraction(2))
    now = steady.stretch(0, 2000)
    assert steady.stretch(now + 400, 100) == 100  # 600 of the last 1,000 busy


@pytest.mark.parametrize(("name", "throttled"), [(TRN1, False), (TRN2, True), (TRN3, True)])
def test_a_burst_begins_slowly_on_trn2_and_trn3(name: str, throttled: bool) -> None:
    """About 3 us at half rate; nothing comparable is published for trn1."""
    many = [matmult()] + [matmult(start=False, accumulate=True)] * 30
    outcome = result(dense(128, 128, 512), many, name)
    gaps = np.diff(row(outcome, "PE").starts) // ARCHS[name].ticks_per_cycle
    full = 512 + ARCHS[name].unit("pe").swap_cycles
    assert gaps[-1] == full
    assert (gaps[0] == 2 * full) == throttled
    if throttled:
        slow = [int(gap) for gap in gaps if gap > full]
        assert sum(slow) == pytest.approx(7200, abs=full)


# -- banks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bank", "together"), [(0, False), (1, True)])
def test_two_engines_in_one_psum_bank_take_turns(bank: int, together: bool) -> None:
    """A copy out of other elements of the bank that a matmul writes waits; out of another bank it does not."""
    tensors = {
        **dense(16, 8, 64),
        "acc": psum(8, 64, bank=0),
        "other": psum(8, 64, bank=bank, offset=1024, init=normal(5)),
        "y": sbuf("float32", 8, 64),
    }
    outcome = result(tensors, [matmult(start=False), {"op": "copy", "src": "other", "dst": "y"}], legality="off")
    moving, vector = row(outcome, "PE"), row(outcome, "DVE")
    overlap = moving.starts[0] < vector.ends[0] and vector.starts[0] < moving.ends[0]
    assert overlap == together


@pytest.mark.parametrize(("columns", "together"), [([0, 64], False), ([512, 64], True), ([448, 128], False)])
def test_a_part_of_a_tensor_holds_only_the_banks_that_it_lies_in(columns: list[int], together: bool) -> None:
    """A tensor of two banks: a copy out of the second one goes on beside the matmul into the first."""
    tensors = {
        **dense(16, 8, 64),
        "acc": psum(8, 1024, bank=0, init=normal(5)),
        "y": sbuf("float32", 8, columns[1]),
    }
    into = matmult(start=False, dst={"tensor": "acc", "cols": [256, 64]})
    copy = {"op": "copy", "src": {"tensor": "acc", "cols": columns}, "dst": "y"}
    outcome = result(tensors, [into, copy], TRN2)
    moving, vector = row(outcome, "PE"), row(outcome, "DVE")
    assert (moving.starts[0] < vector.ends[0] and vector.starts[0] < moving.ends[0]) == together


@pytest.mark.parametrize(
    ("name", "space", "together"), [(TRN1, "psum", False), (TRN2, "psum", True), (TRN1, "sbuf", True)]
)
def test_vector_and_scalar_engine_share_a_port_of_psum_on_trn1(name: str, space: str, together: bool) -> None:
    """Two copies out of different banks at once, but on trn1 (hardware facts 1); SBUF has no such limit."""
    tensors = {
        engine: tensor(space, "float32", 8, 64, init=normal(5), **({"bank": bank} if space == "psum" else {}))
        for bank, engine in enumerate(("vector", "scalar"))
    }
    tensors |= {f"to_{engine}": sbuf("float32", 8, 64) for engine in ("vector", "scalar")}
    copies = [{"op": "copy", "src": each, "dst": f"to_{each}", "engine": each} for each in ("vector", "scalar")]
    outcome = result(tensors, copies, name)
    vector, scalar = row(outcome, "DVE"), row(outcome, "ACT")
    assert vector.starts[0] == 0
    assert scalar.starts[0] == (0 if together else vector.ends[0])


# -- values know nothing of time ---------------------------------------------------------------------------------------


def slower() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in LATENCIES:
        value: Any = ARCHS[TRN3].spec
        for step in path.split("."):
            value = value[step] if isinstance(value, dict) else getattr(value, step)
        found[f"arch.{path}"] = float(10 * value) if isinstance(value, Fraction) else 10 * value
    return found


def everything() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    tensors = {
        **dense(64, 32, 96),
        "hx": tensor("dram", "bfloat16", 64, 96, init=normal(3)),
        "y": sbuf("bfloat16", 32, 96),
        "out": tensor("dram", "bfloat16", 32, 96),
    }
    del tensors["x"]["init"]
    return tensors, [
        {"op": "load", "src": "hx", "dst": "x"},
        matmult(stop=False),
        matmult(start=False, accumulate=True, stop=True),
        {"op": "copy", "src": "acc", "dst": "y"},
        {"op": "store", "src": "y", "dst": "out"},
    ]


def test_ten_times_the_latencies_same_bytes_n002() -> None:
    plain = result(*everything())
    slow = result(*everything(), overrides=slower())
    assert plain.cycles is not None
    assert slow.cycles is not None
    assert slow.cycles > 5 * plain.cycles
    assert slow.values.sha256 == plain.values.sha256
    assert slow.values.status == plain.values.status == "bit_exact"


def test_skipped_values_same_cycles_n002() -> None:
    prepared = ready(*everything())
    skipped, computed = run(prepared, values="skip"), run(prepared)
    assert skipped.cycles == computed.cycles
    assert skipped.stats == computed.stats
    assert skipped.values.status == "skipped"


@pytest.mark.parametrize("path", LATENCIES)
def test_every_latency_counts(path: str) -> None:
    """A program that keeps each unit waiting for the one before feels every one of them."""
    if path.startswith("units.scalar"):
        tensors, instructions = everything()
        instructions[3]["engine"] = "scalar"
    else:
        tensors, instructions = everything()
    loads = [
        {"op": "load", "src": "hx", "dst": "x"},
        {"op": "load", "src": "hx", "dst": "x"},
    ]
    instructions = [*loads, *instructions[1:4], {**instructions[3]}, instructions[4]]
    plain = prepare(scenario(tensors, instructions, TRN3))
    changed = prepare(scenario(tensors, instructions, TRN3, overrides={f"arch.{path}": slower()[f"arch.{path}"]}))
    before, after = run(plain, values="skip").cycles, run(changed, values="skip").cycles
    assert before is not None
    assert after is not None
    assert after > before
