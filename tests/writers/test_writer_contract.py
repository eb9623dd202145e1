"""What every writer must do, over the table: a new one is tested before its author writes a test."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hwmodel import numerics as nm
from hwmodel.errors import InputError
from hwmodel.result import Result
from hwmodel.writers import DEFAULT, WRITERS, Writer, writer


def digests(one: Writer, result: Result, folder: Path) -> dict[str, str]:
    folder.mkdir()
    written = one.write(result, folder / one.filename)
    assert written[0] == folder / one.filename
    assert sorted(written) == sorted(folder.iterdir())
    assert all(path.stat().st_size for path in written)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in written}


@pytest.mark.parametrize("name", {one.name: one for one in WRITERS.values()})
def test_writes_every_result_it_has_something_for_with_the_same_bytes_twice(
    name: str, timed: Result, tmp_path: Path
) -> None:
    one = writer(name)
    if one.missing(timed):
        with pytest.raises(InputError, match=one.name):
            one.write(timed, tmp_path / one.filename)
        assert not list(tmp_path.iterdir())
        return
    again = replace(timed)
    assert digests(one, timed, tmp_path / "a") == digests(one, again, tmp_path / "b")


@pytest.mark.parametrize("name", WRITERS)
def test_an_operation_without_timing(name: str, quantized: Result, tmp_path: Path) -> None:
    one = writer(name)
    assert bool(one.missing(quantized)) == (one.needs == "trace")
    if not one.missing(quantized):
        assert digests(one, quantized, tmp_path / "a")


@pytest.mark.parametrize("name", WRITERS)
def test_table_entries_are_complete(name: str) -> None:
    one = WRITERS[name]
    assert one.extension
    assert one.summary
    assert one.needs in ("", "trace", "values")
    assert one.name in WRITERS


def test_the_contract_names_are_there() -> None:
    assert {"result", "out", "trace", "timeline", "perfetto", "csv", "json", "md", "png", "svg"} <= set(WRITERS)
    assert DEFAULT == ("result", "out", "trace", "timeline")
    files = {name: WRITERS[name].filename for name in DEFAULT}
    assert files == {
        "result": "result.json", "out": "out.bin", "trace": "trace.perfetto.json", "timeline": "timeline.png",
    }  # fmt: skip


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'perfetto'"):
        writer("perfeto")


def test_a_trace_that_is_off_is_not_written(split: Result) -> None:
    off = replace(split, trace_level="off")
    assert WRITERS["trace"].missing(off)
    assert not WRITERS["timeline"].missing(off)


def test_nothing_is_imported_before_it_is_used() -> None:
    code = "import sys, hwmodel.writers; print([m for m in ('matplotlib', 'PIL', 'numpy', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_same_bytes_in_another_process_with_another_hash_seed(split: Result, tmp_path: Path) -> None:
    names = ["trace", "timeline", "svg", "csv", "md"]
    code = f"""
import sys
from pathlib import Path
from hwmodel.experiment import simulate
from hwmodel.scenario import load
from hwmodel.writers import WRITERS
result = simulate(load(sys.argv[1]))
for name in {names}:
    WRITERS[name].write(result, Path(sys.argv[2]) / WRITERS[name].filename)
"""
    assert split.scenario is not None
    path = tmp_path / "sample.yaml"
    path.write_text(split.scenario.resolved(tmp_path))
    (tmp_path / "other").mkdir()
    environment = {**os.environ, "PYTHONHASHSEED": "77", "MPLCONFIGDIR": str(tmp_path)}
    (tmp_path / "matplotlibrc").write_text("text.hinting: no_hinting\nhatch.linewidth: 3\nfont.size: 40\n")
    command = [sys.executable, "-c", code, str(path), str(tmp_path / "other")]
    subprocess.run(command, check=True, env=environment)
    (tmp_path / "here").mkdir()
    for name in names:
        one = WRITERS[name]
        one.write(split, tmp_path / "here" / one.filename)
        assert (tmp_path / "here" / one.filename).read_bytes() == (tmp_path / "other" / one.filename).read_bytes(), name


def test_out_holds_the_bits_and_the_values(split: Result, tmp_path: Path) -> None:
    written = writer("out").write(split, tmp_path / "out.bin")
    assert [path.name for path in written] == ["out.bin", "out.npy"]
    codes = np.frombuffer((tmp_path / "out.bin").read_bytes(), "<u2").reshape(64, 192)
    values = np.load(tmp_path / "out.npy")
    assert (values.dtype, values.shape) == (np.float32, (64, 192))
    assert np.array_equal(values.view(np.uint32), codes.astype(np.uint32) << 16)
    assert hashlib.sha256((tmp_path / "out.bin").read_bytes()).hexdigest() == split.values.sha256


def test_out_of_a_quantisation_has_scales_and_what_both_stand_for(quantized: Result, tmp_path: Path) -> None:
    written = writer("out").write(quantized, tmp_path / "out.bin")
    assert [path.name for path in written] == ["out.bin", "out.scales.bin", "out.npy"]
    packed = np.frombuffer((tmp_path / "out.bin").read_bytes(), np.uint8)
    cells = np.frombuffer((tmp_path / "out.scales.bin").read_bytes(), np.uint8)
    assert (packed.size, cells.size) == (3 * 33, 2 * 64)
    codes = nm.unpack_rows(packed, 3, 65, "hif4")
    tensor = nm.BlockTensor(codes, nm.read_scale_cells(cells, 3, 65, "hif4"), "hif4", 1, (1, 64))
    values = np.load(tmp_path / "out.npy")
    assert values.dtype == np.float32
    assert np.any(values != 0)
    assert np.array_equal(values, nm.dequantize(tensor))


@pytest.mark.parametrize(("to", "expected"), [("fp8_e4m3", np.float32), ("fp4_e2m1", np.float32)])
def test_out_of_an_element_format_has_values(
    make: Callable[..., Result], to: str, expected: type, tmp_path: Path
) -> None:
    result = make(values="check", quantize=to)
    writer("out").write(result, tmp_path / "out.bin")
    values = np.load(tmp_path / "out.npy")
    assert (values.dtype, values.shape) == (expected, (3, 65))
