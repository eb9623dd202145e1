"""From a scenario to a result in Python: what is promised in the contract, section 5."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support import prepared, program_of, scenario, simulated, waits_of, without, write_packed

import hwmodel
from hwmodel import numerics as nm
from hwmodel.errors import CapacityError, HwmodelError, InputError
from hwmodel.experiment import prepare, run
from hwmodel.scenario import loads


def test_load_and_simulate() -> None:
    result = hwmodel.simulate(hwmodel.load("hif4_64x64x64", overrides={"problem.m": 32, "expect": {}}))
    assert isinstance(result, hwmodel.Result)
    assert isinstance(result.cycles, int)
    assert result.time_us == result.cycles / 1650
    assert result.out is not None
    assert result.out.shape == (32, 64)
    assert result.trace is not None
    assert result.stats is not None
    assert result.stats.cycles == result.cycles


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ({"values": "skipp"}, "values: expected one of check, skip, not 'skipp', did you mean 'skip'?"),
        ({"trace": "none"}, "trace: expected one of off, summary, full, not 'none'"),
    ],
)
@pytest.mark.parametrize("name", ["hif4_64x64x64", "quantize_hif4", "program_ascend_hif4"])
def test_modes_of_other_names_are_refused(name: str, mode: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as raised:
        hwmodel.simulate(hwmodel.load(name), **mode)
    assert str(raised.value) == words


def test_public_names() -> None:
    names = {"HwmodelError", "Result", "__version__", "compare", "load", "simulate", "sweep"}
    assert set(hwmodel.__all__) == names
    assert set(hwmodel.__all__) <= set(dir(hwmodel))
    assert hwmodel.HwmodelError is HwmodelError
    with pytest.raises(AttributeError, match="has no attribute 'lod'"):
        hwmodel.lod  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("out", "dtype"),
    [("fp32", np.float32), ("fp16", np.float16), ("bf16", ml_dtypes.bfloat16), ("fp8_e4m3", ml_dtypes.float8_e4m3fn),
     ("fp8_e5m2", ml_dtypes.float8_e5m2), ("int8", np.int8), ("uint8", np.uint8)],
)  # fmt: skip
def test_the_output_has_the_dtype_of_its_bits(out: str, dtype: Any) -> None:
    result = simulated(16, 64, 16, out=out)
    assert result.out is not None
    assert result.out.dtype == dtype
    assert np.array_equal(result.out.view(result.outputs["out"].dtype), result.outputs["out"])


def test_integers_stay_int32() -> None:
    result = simulated(16, 64, 16, "int8", "int8", out="int32", inputs={
        "a": {"kind": "integers", "low": -128, "high": 128}, "b": {"kind": "integers", "low": -128, "high": 128},
    })  # fmt: skip
    assert result.values.status == "bit_exact"
    assert result.out is not None
    assert result.out.dtype == np.int32
    assert abs(result.out).max() > 10_000


def test_hif8_comes_as_fp32_values() -> None:
    result = simulated(16, 64, 16, out="hif8")
    assert result.out is not None
    assert result.out.dtype == np.float32
    assert np.array_equal(result.out, nm.decode(result.outputs["out"], "hif8"))


# -- expectations ------------------------------------------------------------------------------------------------------


def test_a_failed_expectation_is_in_the_result_and_not_raised() -> None:
    result = simulated(64, 64, 64, expect={"cycles": 1, "values": "bit_exact"})
    assert (result.expect.status, result.exit_code) == ("failed", 1)
    assert result.expect.failures == ("cycles: expected 1, not 875",)
    assert simulated(64, 64, 64, expect={"cycles": 875}).expect.status == "met"
    assert simulated(64, 64, 64).expect.status == "none"


def test_an_outside_golden_that_differs_says_where(tmp_path: Path) -> None:
    right = simulated(16, 64, 32)
    golden = right.outputs["out"].copy()
    golden.tofile(tmp_path / "golden.bin")
    met = simulated(16, 64, 32, base=tmp_path, expect={"out": {"path": "golden.bin"}})
    assert met.expect.status == "met"
    first = int(golden[3, 7])
    golden[3, 7] ^= 1
    golden[9, 0] ^= 0x8000
    golden.tofile(tmp_path / "golden.bin")
    failed = simulated(16, 64, 32, base=tmp_path, expect={"out": {"path": "golden.bin"}})
    where = f"first [3, 7] is 0x{first:04X}, expected 0x{first ^ 1:04X}"
    assert failed.expect.failures == (f"out: 2 of 512 elements differ from the golden file, {where}",)
    assert failed.exit_code == 1
    assert failed.values.status == "bit_exact"  # against the reference it is right


def test_a_golden_of_values(tmp_path: Path) -> None:
    right = simulated(16, 64, 32)
    assert right.out is not None
    np.save(tmp_path / "golden.npy", right.out.astype(np.float32))
    assert simulated(16, 64, 32, base=tmp_path, expect={"out": {"path": "golden.npy"}}).expect.status == "met"


def test_a_golden_of_the_wrong_size_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "golden.bin").write_bytes(b"x" * 1000)
    with pytest.raises(InputError, match=r"expect.out.path: .*golden.bin: expected 1,024 bytes .*, not 1,000"):
        prepared(16, 64, 32, base=tmp_path, expect={"out": {"path": "golden.bin"}})


def test_expected_values_are_not_judged_where_values_are_skipped() -> None:
    ready = prepare(scenario(64, 64, 64, expect={"values": "bit_exact"}))
    assert run(ready, values="skip").expect.status == "none"


def test_a_race_that_is_lost_ends_as_mismatch() -> None:
    """`run` goes on after a hazard: the program runs, the bits differ, the exit code is 1."""
    ready = prepared(64, 64, 64)
    number, wait = next((n, w) for n, w in waits_of(program_of(ready)) if w.signal == "MTE1>M:0")
    ready.__dict__["program"] = without(program_of(ready), number, wait)  # as if it had been written so
    ready.__dict__.pop("_hazards", None)  # which preparing may have looked for
    result = run(ready)
    assert result.values.status == "mismatch"
    assert result.values.mismatches > 0
    assert result.values.first.startswith("[0, 0] is 0x")
    assert result.exit_code == 1
    assert any(hazard.startswith("race: ") for hazard in result.hazards)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("field", "value"), [
    ("launch_cycles", 10**19), ("units__tload__startup_cycles", 10**19), ("units__fixpipe__bytes_per_cycle", 1e-17),
])  # fmt: skip
def test_time_beyond_64_bits_is_bad_input(field: str, value: float) -> None:
    with pytest.raises(InputError, match=r"^arch: expected rates and latencies that end within 9\.2e\+18 cycles, but"):
        simulated(64, 64, 64, **{f"arch__{field}": value})


def test_what_does_not_fit_is_refused_before_cycle_0() -> None:
    with pytest.raises(CapacityError) as caught:
        hwmodel.simulate(scenario(128, 576, 128))
    assert caught.value.exit_code == 2
    assert isinstance(caught.value, hwmodel.HwmodelError)


def test_a_tiling_of_another_family_is_refused() -> None:
    with pytest.raises(InputError, match=r"^tiling.kind: ascend_a6 has n_split, blocked, auto, not tiled$"):
        prepared(64, 64, 64, "bf16", "bf16", tiling={"kind": "tiled"})


# -- quantise ----------------------------------------------------------------------------------------------------------


def quantised(folder: Path, **fields: Any) -> hwmodel.Result:
    data = {
        "name": "q",
        "arch": "ascend_a6",
        "problem": {"op": "quantize", "rows": 20, "cols": 100, "source": "bf16", "to": "hif4"},
        "inputs": {"a": {"kind": "normal"}},
        **fields,
    }
    return run(prepare(loads(json.dumps(data), folder)))


def test_quantise_writes_codes_and_scale_cells(tmp_path: Path) -> None:
    result = quantised(tmp_path)
    assert (result.cycles, result.trace, result.stats) == (None, None, None)
    assert result.values.status == "bit_exact"
    assert result.outputs["out"].nbytes == 20 * 50
    assert result.outputs["out.scales"].nbytes == 2 * 2 * 64
    document = result.to_dict()
    assert document["cycles"] is None
    assert document["bound"] is None


def test_codes_with_block_scales_are_not_compared_with_values(tmp_path: Path) -> None:
    quantised(tmp_path).save(tmp_path / "run", ("out",))
    assert quantised(tmp_path, expect={"out": {"path": "run/out.bin"}}).expect.status == "met"
    with pytest.raises(InputError, match=r"expect.out.path: .*out.npy: expected packed codes, as hif4 has block scal"):
        quantised(tmp_path, expect={"out": {"path": "run/out.npy"}})


def test_quantised_bytes_are_a_packed_operand(tmp_path: Path) -> None:
    """out.bin and out.scales.bin of a quantisation are what `packed` reads: the same operand as value inputs."""
    saved = quantised(tmp_path).save(tmp_path / "run")
    values = {"a": {"kind": "normal"}, "b": {"kind": "normal", "seed": 1}}
    direct = simulated(20, 100, 32, out="fp32", inputs=values)
    packed = {"kind": "packed", "data": str(saved / "out.bin"), "scales": str(saved / "out.scales.bin")}
    through = simulated(20, 100, 32, out="fp32", inputs={**values, "a": packed})
    assert through.values.sha256 == direct.values.sha256


def test_quantise_against_goldens(tmp_path: Path) -> None:
    first = quantised(tmp_path)
    first.outputs["out"].tofile(tmp_path / "codes.bin")
    first.outputs["out.scales"].tofile(tmp_path / "scales.bin")
    expect = {"out": {"path": "codes.bin"}, "scales": {"path": "scales.bin"}}
    assert quantised(tmp_path, expect=expect).expect.status == "met"
    (tmp_path / "scales.bin").write_bytes(bytes(256))
    failed = quantised(tmp_path, expect=expect)
    assert failed.expect.status == "failed"
    assert failed.expect.failures[0].startswith("out.scales: ")
    codes = first.outputs["out"].copy()
    codes.flat[5] ^= 0xF0
    codes.tofile(tmp_path / "codes.bin")
    (failure,) = quantised(tmp_path, expect={"out": {"path": "codes.bin"}}).expect.failures
    assert failure.startswith(f"out: 1 of {codes.size} bytes differ from the golden file, first [")


# -- inputs ------------------------------------------------------------------------------------------------------------


def test_b_may_lie_transposed(tmp_path: Path) -> None:
    """layout.b: nk reads the file as [N, K]; the same operand, the same bits."""
    ready = prepared(16, 70, 33, "bf16", "hif4", out="fp32")
    straight = simulated(16, 70, 33, "bf16", "hif4", out="fp32")
    inputs = {
        "a": write_packed(tmp_path, ready.operands["a"], "bf16", "a"),
        "b": write_packed(tmp_path, ready.operands["b"], "hif4", "b", transposed=True),
    }
    result = simulated(
        16, 70, 33, "bf16", "hif4", out="fp32", base=tmp_path, inputs=inputs, problem={"layout": {"b": "nk"}}
    )
    assert result.values.sha256 == straight.values.sha256
    assert result.stats is not None
    assert straight.stats is not None
    # rows of K are 35 bytes each, rows of N 17: 33 x 35 against 70 x 17
    assert result.stats.gm_read_bytes - straight.stats.gm_read_bytes == 33 * 35 - 70 * 17


# -- run folders -------------------------------------------------------------------------------------------------------


def test_a_saved_run_holds_what_the_contract_names_c4(tmp_path: Path) -> None:
    result = simulated(40, 64, 48)
    folder = result.save(tmp_path / "run")
    assert {path.name for path in folder.iterdir()} == {
        "scenario.resolved.yaml", "result.json", "out.bin", "out.npy", "trace.perfetto.json", "timeline.png",
    }  # fmt: skip
    raw = (folder / "out.bin").read_bytes()
    assert raw == result.outputs["out"].tobytes()
    values = np.load(folder / "out.npy")
    assert values.dtype == np.float32
    assert np.array_equal(values, result.out.astype(np.float32))  # type: ignore[union-attr]
    document = json.loads((folder / "result.json").read_text())
    assert document == json.loads(json.dumps(result.to_dict()))
    again = hwmodel.simulate(hwmodel.load(folder / "scenario.resolved.yaml"))
    assert again.to_dict() == result.to_dict()


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = (simulated(40, 64, 48).save(tmp_path / name) for name in ("one", "two"))
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes(), path.name


KEYS = {
    "schema_version", "name", "arch", "calibrated", "cycles", "time_us", "values", "expect", "hazards", "bound",
    "units", "traffic", "work", "tiling", "provenance",
}  # fmt: skip


def test_the_document_has_the_promised_keys() -> None:
    document = simulated(64, 64, 64).to_dict()
    assert set(document) >= KEYS
    assert set(document["values"]) >= {"status", "order", "elements", "mismatches", "sha256"}
    assert set(document["expect"]) == {"status", "failures"}
    assert list(document["units"]) == ["tload", "textract", "cube", "fixpipe"]
    for unit in document["units"].values():
        assert set(unit) >= {
            "busy_cycles", "wait_input_cycles", "wait_space_cycles", "idle_cycles", "utilization", "alone_cycles",
        }  # fmt: skip
    assert set(document["provenance"]) >= {"hwmodel", "numpy", "simpy", "python"}
    assert set(document["work"]) == {"macs", "flops", "tflops", "peak_fraction"}


# -- what is imported --------------------------------------------------------------------------------------------------

HEAVY = ["matplotlib", "typer", "rich", "numba", "polars", "ml_dtypes", "scipy", "optuna", "distributed", "click"]


def in_a_fresh_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_hwmodel_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import hwmodel; print(sorted(set(sys.modules) - before))"
    added = eval(in_a_fresh_process(code))
    assert [name for name in added if name.split(".")[0] not in sys.stdlib_module_names] == ["hwmodel"]


def test_load_and_simulate_need_only_the_cards_packages() -> None:
    """simpy, numpy, pydantic and a YAML reader; everything else is blocked here."""
    code = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {HEAVY!r}:
            raise ImportError(f"{{name}} is blocked")
sys.meta_path.insert(0, Blocked())
import hwmodel
result = hwmodel.simulate(hwmodel.load("hif4_128x128x128"))
assert result.values.status == "bit_exact", result.values
print(result.cycles)
"""
    assert int(in_a_fresh_process(code)) == hwmodel.load("hif4_128x128x128").expect.cycles


def test_the_numerics_core_runs_without_simpy_c3() -> None:
    code = """
import sys
sys.modules["simpy"] = None
from hwmodel import numerics as nm
import numpy as np
t = nm.quantize(np.full((1, 64), 1.75, np.float32), "hif4")
print(nm.matmul(nm.dequantize(t), np.ones((64, 1), np.float32))[0, 0])
assert not any(name.startswith(("hwmodel.sim", "hwmodel.units", "hwmodel.machine")) for name in sys.modules)
"""
    assert float(in_a_fresh_process(code)) == 64 * 1.75
