"""The four loop structures: bits, orders, traffic, what fits, what waits."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwmodel import numerics as nm
from hwmodel.errors import CapacityError, InputError
from hwmodel.experiment import Prepared, prepare, run
from hwmodel.program.instructions import Matmul
from hwmodel.program.neuron import Transfer
from hwmodel.result import Result
from hwmodel.scenario import loads
from hwmodel.tiling.neuron.geometry import spans

LOOPS = ["tiled", "hoisted", "blocked_free", "fully_blocked"]
FULL = (4096, 8192, 8192)


def built(kind: str, m: int, k: int, n: int, a: str = "bf16", b: str = "", out: str = "bf16", **rest: Any) -> Prepared:
    arch = rest.pop("arch", "neuron_trn2")
    data = {
        "name": "test",
        "arch": arch,
        "problem": {"op": "matmul", "m": m, "k": k, "n": n, "a": a, "b": b or a, "out": out, **rest.pop("problem", {})},
        "tiling": {"kind": kind, **rest.pop("tiling", {})},
        **rest,
    }
    return prepare(loads(json.dumps(data), Path()))


def simulated(*args: Any, **how: Any) -> Result:
    outcome = run(built(*args, **how))
    assert outcome.values.status == "bit_exact"
    assert outcome.hazards == ()
    return outcome


SHAPES = [(1, 1, 1), (128, 128, 512), (129, 128, 513), (100, 300, 600), (300, 257, 1100), (5, 700, 3)]


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_size_is_bit_exact(kind: str, shape: tuple[int, int, int]) -> None:
    block = {"tiling": {"block": [2, 1, 2]}} if kind == "fully_blocked" else {}
    outcome = simulated(kind, *shape, **block)
    assert outcome.stats is not None
    assert outcome.stats.macs == shape[0] * shape[1] * shape[2]


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize(
    ("a", "b", "out"),
    [
        ("fp32", "fp32", "fp32"),
        ("fp16", "bf16", "fp16"),
        ("fp8_e4m3", "fp8_e5m2", "bf16"),
        ("bf16", "fp8_e3m4", "fp32"),
    ],
)
def test_every_pair_of_operands(kind: str, a: str, b: str, out: str) -> None:
    simulated(kind, 130, 200, 520, a, b, out)


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize(("a", "b"), [("mxfp8_e4m3", "mxfp8_e4m3"), ("mxfp4_e2m1", "mxfp8_e5m2")])
@pytest.mark.parametrize("k", [32, 520, 1024])
def test_mx_operands_on_trn3(kind: str, a: str, b: str, k: int) -> None:
    outcome = simulated(kind, 60, k, 70, a, b, arch="neuron_trn3")
    assert outcome.values.order.startswith("seq/")


def test_loops_over_m_and_n_give_the_same_bits() -> None:
    """K is added in the same order by all of them but the one that adds K blocks outside the bank."""
    found = {kind: simulated(kind, 300, 700, 600) for kind in LOOPS}
    digests = {kind: outcome.values.sha256 for kind, outcome in found.items()}
    assert digests["tiled"] == digests["hoisted"] == digests["blocked_free"]
    assert {outcome.values.order for kind, outcome in found.items() if kind != "fully_blocked"} == {"seq/128"}


def operands(m: int, k: int, n: int) -> tuple[Any, Any]:
    a = np.random.RandomState(0).normal(0, 1, m * k).astype(np.float32).reshape(m, k)
    b = np.random.RandomState(1).normal(0, 1, k * n).astype(np.float32).reshape(k, n)
    return (nm.decode(nm.encode(x, "bf16"), "bf16") for x in (a, b))


def test_each_order_is_the_one_it_states() -> None:
    """One bank: products of 128 added one by one. K blocks of 256: their sums are added in fp32, in block order."""
    m, k, n = 40, 900, 30
    a, b = operands(m, k, n)

    def products(first: int, last: int) -> Any:
        total = np.zeros((m, n), np.float32)
        for start in range(first, last, 128):
            part = np.zeros((m, n), np.float32)
            for at in range(start, min(start + 128, last)):
                part = part + a[:, at][:, None] * b[at][None, :]
            total = total + part
        return total

    whole = simulated("tiled", m, k, n, out="fp32")
    assert whole.out is not None
    assert np.array_equal(whole.out, products(0, k))
    split = simulated("fully_blocked", m, k, n, out="fp32", tiling={"block": [1, 1, 2]})
    assert split.values.order == "seq/256"
    expected = products(0, 256)
    for start in range(256, k, 256):
        expected = expected + products(start, min(start + 256, k))
    assert split.out is not None
    assert np.array_equal(split.out, expected)
    assert not np.array_equal(split.out, whole.out)


def test_orders_agree_where_sums_are_exact() -> None:
    small = {"inputs": {name: {"kind": "integers", "low": -3, "high": 4, "seed": 5} for name in "ab"}}
    one = simulated("tiled", 50, 600, 70, out="fp32", **small)
    other = simulated("fully_blocked", 50, 600, 70, out="fp32", tiling={"block": [1, 1, 1]}, **small)
    assert one.values.order == "seq/128"
    assert other.values.sha256 == one.values.sha256


@pytest.mark.parametrize("order", ["f64", "blas"])
def test_other_orders_are_taken_inside_an_instruction(order: str) -> None:
    outcome = simulated("tiled", 64, 300, 64, accumulate={"order": order})
    assert outcome.values.order == f"{order}/128"


TRAFFIC = {"tiled": 5.436, "hoisted": 4.429, "blocked_free": 2.282, "fully_blocked": 0.738}


@cache
def moved(kind: str) -> tuple[int, int, int]:
    """(bytes read, bytes written, matmuls) of the tutorial's GEMM, from the program alone."""
    program = built(kind, *FULL).program
    assert program is not None
    transfers = [i.params for i in program.cores[0].instructions if isinstance(i.params, Transfer)]
    matmuls = sum(isinstance(i.params, Matmul) for i in program.cores[0].instructions)
    return sum(t.read_bytes for t in transfers), sum(t.written_bytes for t in transfers), matmuls


@pytest.mark.parametrize("kind", LOOPS)
def test_hbm_traffic_is_that_of_the_published_loops(kind: str) -> None:
    read, written, matmuls = moved(kind)
    assert (read + written) / 1e9 == pytest.approx(TRAFFIC[kind], abs=0.0005)
    assert written == 4096 * 8192 * 2
    assert matmuls == 32768


def test_the_loops_rank_as_their_traffic_does() -> None:
    cycles = [run(built(kind, 1024, 2048, 2048), values="skip").cycles or 0 for kind in LOOPS]
    assert cycles == sorted(cycles, reverse=True)
    assert min(cycles) > 0


@pytest.mark.parametrize("kind", LOOPS)
def test_skipping_values_takes_the_same_cycles(kind: str) -> None:
    prepared = built(kind, 200, 300, 700)
    assert run(prepared, values="skip").stats == run(prepared).stats


@pytest.mark.parametrize("engine", ["vector", "scalar"])
def test_either_engine_empties_psum(engine: str) -> None:
    outcome = simulated("tiled", 128, 256, 512, tiling={"evacuate": engine})
    assert outcome.trace is not None
    used = {row.engine for row in outcome.trace.rows if row.unit == "evacuate" and row.starts}
    assert used == {"DVE" if engine == "vector" else "ACT"}


def test_blocks_are_clamped_to_the_problem() -> None:
    outcome = simulated("fully_blocked", 128, 128, 512)
    assert outcome.values.order == "seq/128"
    assert outcome.tiling["block"] == [1, 1, 1]
    assert outcome.tiling["tiles"] == [1, 1, 1]


@pytest.mark.parametrize(
    ("kind", "chosen"),
    [
        ("hoisted", {"lhs_buffers": 2}),
        ("blocked_free", {"block": [1, 2], "lhs_buffers": 2}),
        ("fully_blocked", {"block": [1, 2, 3], "lhs_buffers": 2, "rhs_buffers": 2}),
    ],
)
def test_a_plan_names_the_blocks_and_buffers_it_chose_and_gives_the_same_run_again(
    kind: str, chosen: dict[str, Any]
) -> None:
    first = simulated(kind, 100, 300, 600)
    assert {name: first.tiling[name] for name in chosen} == chosen
    again = simulated(kind, 100, 300, 600, tiling=chosen)
    assert (again.cycles, again.tiling) == (first.cycles, first.tiling)


def test_the_largest_block_fills_sbuf_exactly() -> None:
    """fp32 on trn2: 128 KiB of sums, 64 of lhs and 32 of rhs are all that a partition has."""
    prepared = built("fully_blocked", *FULL, "fp32", out="fp32")
    assert prepared.plan is not None
    assert prepared.plan.summary()["sbuf_bytes_per_partition"] == 229376


@pytest.mark.parametrize(
    ("kind", "tiling", "shape", "words"),
    [
        ("fully_blocked", {"block": [32, 2, 8]}, FULL, ("sbuf", "229,376", "smaller blocks")),
        ("tiled", {"in_flight": 400}, (128, 128, 512), ("sbuf", "229,376", "smaller in_flight")),
        ("hoisted", {}, (128, 1 << 20, 512), ("sbuf", "8192 tiles)")),
        ("blocked_free", {"block": [4, 3]}, (1024, 1024, 2048), ("psum", "24,576", "16,384")),
    ],
)
def test_what_does_not_fit_is_refused_before_cycle_0(
    kind: str, tiling: dict[str, Any], shape: tuple[int, int, int], words: tuple[str, ...]
) -> None:
    with pytest.raises(CapacityError) as refused:
        built(kind, *shape, "fp32", out="fp32", tiling=tiling)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"a": "fp32", "b": "bf16"}, "no matmul of fp32 x bf16"),
        ({"a": "fp8_e4m3", "b": "fp8_e4m3_ieee"}, "legal pairs"),
        ({"a": "mxfp8_e4m3"}, "no matmul of mxfp8_e4m3"),
        ({"a": "hif4"}, "no matmul of hif4"),
        ({"problem": {"epilogue": {"relu": True}}}, "problem.epilogue"),
        ({"problem": {"layout": {"b": "nk"}}}, "problem.layout.b"),
        ({"accumulate": {"order": "seq", "scale_on": "block"}}, "accumulate.scale_on"),
        ({"tiling": {"block": [0, 1]}}, "tiling.block"),
    ],
)
def test_what_the_machine_has_not_is_refused(how: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as refused:
        built("blocked_free", 64, 64, 64, **how)
    assert text in str(refused.value)


def test_a_tiling_of_the_other_family_is_refused() -> None:
    with pytest.raises(InputError, match="neuron_trn2 has tiled, hoisted, blocked_free, fully_blocked, not n_split"):
        built("n_split", 64, 64, 64)


def test_tiles_cover_an_axis_once() -> None:
    for extent in (1, 127, 128, 129, 1000):
        tiles = spans(extent, 128)
        assert tiles[0].start == 0
        assert [tile.start + tile.size for tile in tiles[:-1]] == [tile.start for tile in tiles[1:]]
        assert tiles[-1].start + tiles[-1].size == extent


def test_packed_mx_operands_come_in_partition_slots(tmp_path: Path) -> None:
    """Scale byte of k run i and column in slot (i & 3) + 32 (i >> 2) of its instruction's partitions."""
    m, k, n = 6, 256, 10
    rng = np.random.RandomState(2)
    entry = {}
    for name, rows in (("a", m), ("b", n)):
        codes = rng.randint(0, 0x78, (rows, k) if name == "a" else (k, rows)).astype(np.uint8)
        codes.tofile(tmp_path / f"{name}.bin")
        slots = np.full((64, rows), 0xEE, np.uint8)
        for run_index in range(k // 32):
            slots[(run_index & 3) + 32 * (run_index >> 2)] = 120 + run_index
        slots.tofile(tmp_path / f"{name}_scales.bin")
        entry[name] = {
            "kind": "packed",
            "data": str(tmp_path / f"{name}.bin"),
            "scales": str(tmp_path / f"{name}_scales.bin"),
        }
    outcome = simulated("tiled", m, k, n, "mxfp8_e4m3", out="fp32", arch="neuron_trn3", inputs=entry)
    a = nm.decode(np.fromfile(tmp_path / "a.bin", np.uint8).reshape(m, k), "fp8_e4m3")
    b = nm.decode(np.fromfile(tmp_path / "b.bin", np.uint8).reshape(k, n), "fp8_e4m3")
    factors = np.ldexp(np.float32(1), np.repeat(np.arange(k // 32) + 120 - 127, 32)).astype(np.float32)
    assert outcome.out is not None
    assert np.array_equal(outcome.out, nm.matmul(a * factors, b * factors[:, None], k_tile=512))
    (tmp_path / "a_scales.bin").write_bytes(b"short")
    with pytest.raises(InputError, match="expected 384 bytes"):
        built("tiled", m, k, n, "mxfp8_e4m3", out="fp32", arch="neuron_trn3", inputs=entry)


def test_rules_of_generated_mx_operands() -> None:
    """8 x 4 blocks by default on Neuron; other rules are allowed; Ascend has no 8 x 4 blocks."""
    source = {"kind": "normal", "seed": 1}
    shape = ("tiled", 40, 64, 40, "mxfp8_e4m3")
    found = {}
    for rule in (None, "neuron", "neuron_hw", "rceil"):
        chosen = {} if rule is None else {"rule": rule}
        inputs = {"a": {**source, **chosen}, "b": {**source, "seed": 2, **chosen}}
        found[rule] = simulated(*shape, arch="neuron_trn3", inputs=inputs).values.sha256
    assert found[None] == found["neuron"]
    assert found["neuron"] != found["neuron_hw"]  # the latter never saturates
    with pytest.raises(InputError, match=r"inputs\.a\.rule: expected a rule for blocks along K"):
        run(built("blocked", 64, 64, 64, "mxfp8_e4m3", arch="ascend_a6", inputs={"a": {**source, "rule": "neuron"}}))


@pytest.mark.parametrize("rule", ["neuron", "neuron_alt_emax", "neuron_hw"])
@pytest.mark.parametrize("rows", [16, 160])
def test_a_quantize_problem_writes_partition_slots(rule: str, rows: int, tmp_path: Path) -> None:
    problem = {"op": "quantize", "rows": rows, "cols": 12, "source": "bf16", "to": "mxfp8_e4m3"}
    data = {"name": "q", "arch": "neuron_trn3", "problem": problem, "inputs": {"a": {"kind": "normal", "rule": rule}}}
    outcome = run(prepare(loads(json.dumps(data), Path())))
    assert outcome.values.status == "bit_exact"
    slots = outcome.outputs["out.scales"]
    used = [row for row in range(rows) if slots[row].any()]
    assert used == [128 * (i // 16) + (i % 16 & 3) + 32 * (i % 16 >> 2) for i in range(rows // 8)][: len(used)]
    golden = tmp_path / "scales.bin"
    golden.write_bytes(slots.tobytes())
    with_golden = {**data, "expect": {"scales": {"path": str(golden)}}}
    assert run(prepare(loads(json.dumps(with_golden), Path()))).expect.status == "met"
