"""Bytes from outside, through the command line: packed operands in, golden bytes out.

``vectors/`` holds our own set, made by the scalar reference (``make_vectors.py``). The vendor's set lies elsewhere:
``HWMODEL_VECTORS`` names its folder, else ``../shared/data/vectors`` beside the checkout; where there is none, these
cases are skipped.

Fields of ``matmul_<a>_<b>_<m>x<k>x<n>.npz``: ``a_data``, ``a_scale``, ``b_data``, ``b_scale`` as they lie in global
memory, ``golden`` bf16 bits [M, N]. Of ``quantise_hif4_<rows>x<cols>.npz``: ``input1`` bf16 bits, ``fp4`` packed codes,
``exp_dst`` the scale cells.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from hwmodel.cli import main

OWN = Path(__file__).with_name("vectors")
BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data" / "vectors"
OUTSIDE = Path(os.environ.get("HWMODEL_VECTORS") or BESIDE)
NAMES = {"hif4": "hif4", "bf16": "bf16", "e1m2": "mxfp4_e1m2", "e2m1": "mxfp4_e2m1", "e4m3": "mxfp8_e4m3"}
VENDOR = [
    "matmul_hif4_hif4_64x64x64", "matmul_hif4_hif4_256x128x512", "matmul_e1m2_e1m2_64x64x64",
    "matmul_e4m3_e2m1_128x128x128", "matmul_bf16_hif4_1x256x64",
]  # fmt: skip
needs_vendor = pytest.mark.skipif(not OUTSIDE.is_dir(), reason=f"no reference vectors in {OUTSIDE.name}")

MATMULS = [pytest.param(path, id=path.stem) for path in sorted(OWN.glob("matmul_*.npz"))]
MATMULS += [pytest.param(OUTSIDE / f"{name}.npz", id=f"vendor-{name}", marks=needs_vendor) for name in VENDOR]
QUANTISED = [
    pytest.param(OWN / "quantise_hif4_4x128.npz", id="quantise_hif4_4x128"),
    pytest.param(OUTSIDE / "quantise_hif4_16x64.npz", id="vendor-quantise_hif4_16x64", marks=needs_vendor),
]
TILINGS: list[dict[str, Any]] = [
    {"kind": "n_split"},
    {"kind": "n_split", "tile_n": 64, "buffers": {"l0": 2, "l0c": 2}},
    {"kind": "blocked", "base": [16, 64, 64], "panel_slices": 2},
]


def run(folder: Path, scenario: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Exit code and document of ``hwmodel run`` on a scenario file in ``folder``."""
    (folder / "scenario.yaml").write_text(yaml.safe_dump(scenario), encoding="utf-8")
    code = main(["run", str(folder / "scenario.yaml"), "-o", str(folder / "run"), "--json", "--write", "result,out"])
    out = capsys.readouterr().out
    return code, json.loads(out)


def test_our_own_set_is_there() -> None:
    assert len(list(OWN.glob("matmul_*.npz"))) == 4
    assert len(list(OWN.glob("quantise_*.npz"))) == 1


@pytest.mark.parametrize("tiling", TILINGS, ids=lambda tiling: "-".join(str(value) for value in tiling.values()))
@pytest.mark.parametrize("path", MATMULS)
def test_packed_operands_give_the_golden_bits(
    path: Path, tiling: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, left, right, shape = path.stem.split("_")
    m, k, n = (int(extent) for extent in shape.split("x"))
    with np.load(path) as file:
        vector = {name: file[name] for name in file.files}
    for name in ("a_data", "a_scale", "b_data", "b_scale", "golden"):
        if name in vector:
            (tmp_path / f"{name}.bin").write_bytes(vector[name].tobytes())
    inputs = {
        side: {"kind": "packed", "data": f"{side}_data.bin"}
        | ({"scales": f"{side}_scale.bin"} if f"{side}_scale" in vector else {})
        for side in ("a", "b")
    }
    problem = {"op": "matmul", "m": m, "k": k, "n": n, "a": NAMES[left], "b": NAMES[right], "out": "bf16"}
    scenario = {
        "name": path.stem, "arch": "ascend_a6", "problem": problem, "tiling": tiling, "inputs": inputs,
        "expect": {"values": "bit_exact", "out": {"path": "golden.bin"}},
    }  # fmt: skip
    code, document = run(tmp_path, scenario, capsys)
    assert (code, document["values"]["status"]) == (0, "bit_exact")
    assert document["expect"] == {"status": "met", "failures": []}
    assert (tmp_path / "run" / "out.bin").read_bytes() == vector["golden"].tobytes()
    # and one wrong bit in the golden is found
    wrong = vector["golden"].copy()
    wrong[m - 1, n - 1] ^= 1
    (tmp_path / "golden.bin").write_bytes(wrong.tobytes())
    code, document = run(tmp_path, scenario, capsys)
    assert code == 1
    assert document["expect"]["failures"][0].startswith(f"out: 1 of {m * n} elements differ from the golden file")


@pytest.mark.parametrize("path", QUANTISED)
def test_quantised_values_give_the_golden_bytes(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, cols = (int(extent) for extent in path.stem.split("_")[2].split("x"))
    with np.load(path) as file:
        vector = {name: file[name] for name in file.files}
    (tmp_path / "in.bin").write_bytes(vector["input1"].astype("<u2").tobytes())
    (tmp_path / "codes.bin").write_bytes(vector["fp4"].tobytes())
    (tmp_path / "cells.bin").write_bytes(vector["exp_dst"].tobytes())
    scenario = {
        "name": path.stem, "arch": "ascend_a6",
        "problem": {"op": "quantize", "rows": rows, "cols": cols, "source": "bf16", "to": "hif4"},
        "inputs": {"a": {"kind": "packed", "data": "in.bin"}},
        "expect": {"out": {"path": "codes.bin"}, "scales": {"path": "cells.bin"}},
    }  # fmt: skip
    code, document = run(tmp_path, scenario, capsys)
    assert (code, document["expect"]["failures"], document["cycles"]) == (0, [], None)
    assert (tmp_path / "run" / "out.bin").read_bytes() == vector["fp4"].tobytes()
    assert (tmp_path / "run" / "out.scales.bin").read_bytes() == vector["exp_dst"].tobytes()


def test_our_own_set_is_what_the_scalar_reference_makes() -> None:
    from make_vectors import matmul, quantise

    for made, name in ((matmul("matmul_bf16_hif4_1x64x10"), "matmul_bf16_hif4_1x64x10"),
                       (quantise(), "quantise_hif4_4x128")):  # fmt: skip
        with np.load(OWN / f"{name}.npz") as file:
            assert set(file.files) == set(made)
            for field in file.files:
                assert np.array_equal(file[field], made[field]), field
