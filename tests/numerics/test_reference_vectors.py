"""Files made by the vendor's public generators, where they lie beside the project: skipped without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwmodel import numerics as nm

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "vectors"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no reference vectors beside the project")
NAMES = {"hif4": "hif4", "e1m2": "mxfp4_e1m2", "e2m1": "mxfp4_e2m1", "e4m3": "mxfp8_e4m3", "bf16": "bf16"}
FILES = sorted(FOLDER.glob("matmul_*.npz"))


def operand(data: Any, cells: Any, dtype: str, rows: int, cols: int, axis: int) -> Any:
    codes = nm.unpack_rows(np.frombuffer(data.tobytes(), np.uint8), rows, cols, dtype)
    if nm.DTYPES[dtype].block is None:
        return nm.decode(codes, dtype)
    k, outer = (cols, rows) if axis == -1 else (rows, cols)
    scales = nm.read_scale_cells(np.frombuffer(cells.tobytes(), np.uint8), outer, k, dtype)
    return nm.decode_operand(codes, scales, dtype, axis)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_products_have_the_golden_bits(backend: str, path: Path) -> None:
    left, right = path.stem.split("_")[1:3]
    with np.load(path) as file:
        m, k, n = (int(file[name]) for name in "mkn")
        a = operand(file["a_data"], file["a_scale"], NAMES[left], m, k, -1)
        b = operand(file["b_data"], file["b_scale"], NAMES[right], k, n, 0)
        golden = file["golden"].view(np.uint16).reshape(m, n)
    assert (nm.cast_out(nm.matmul(a, b), "bf16") == golden).all()
    half = k // 128 * 64
    if half:
        first = nm.matmul(a[:, :half], b[:half])
        assert (nm.cast_out(nm.matmul(a[:, half:], b[half:], acc=first), "bf16") == golden).all()


@pytest.mark.parametrize("path", [path for path in FILES if "hif4_hif4" in path.stem], ids=lambda path: path.stem)
def test_scale_cells_are_read_and_written_alike(path: Path) -> None:
    with np.load(path) as file:
        m, k = int(file["m"]), int(file["k"])
        cells = np.frombuffer(file["a_scale"].tobytes(), np.uint8)
    scales = nm.read_scale_cells(cells, m, k, "hif4")
    assert (nm.scale_cells(scales, "hif4") == cells).all()


@pytest.mark.parametrize("rule", ["a6", "vendor_golden"])
def test_the_quantiser_has_the_golden_bits(backend: str, rule: str) -> None:
    with np.load(FOLDER / "quantise_hif4_16x64.npz") as file:
        golden = {name: file[name] for name in file.files}
    x = nm.decode(golden["input1"].reshape(16, 64), "bf16")
    tensor = nm.quantize(x, "hif4", rule=rule)
    scales = tensor.scales
    assert isinstance(scales, nm.Hif4Scales)
    assert (scales.ea[:, 0] == golden["ea"][::2]).all()
    assert (scales.eb[:, 0] == golden["eb"]).all()
    assert (scales.ec[:, 0] == golden["ec"].view("<u2")).all()
    assert (nm.pack_rows(tensor.codes, "hif4") == golden["fp4"]).all()
    assert (nm.scale_cells(scales, "hif4") == golden["exp_dst"]).all()
