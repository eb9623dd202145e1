"""The report command: what it writes, and that a difference from the reference is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwmodel import numerics as nm
from hwmodel.numerics.report import __main__ as command
from hwmodel.numerics.report import conformance, speed

QUICK = ["--every", "2000", "--seconds", "0", "--scale", "16"]


def test_the_report_lists_every_format_and_counts_no_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["-o", str(tmp_path / "new" / "folder"), *QUICK]) == 0
    folder = tmp_path / "new" / "folder"
    assert capsys.readouterr().out.strip() == str(folder / "report.md")
    data = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    subjects = {row["subject"] for row in data["conformance"]}
    assert subjects >= set(conformance.NARROW) | {"hif4", "mxfp8_e4m3", "mxfp8_e5m2", "mxfp4_e2m1", "mxfp4_e1m2", "NZ"}
    assert all(row["differences"] == 0 and row["cases"] > 0 for row in data["conformance"])
    assert data["date"]
    assert data["load"]
    assert data["versions"]["numpy"] == np.__version__
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "python -m hwmodel.numerics.report" in text
    assert "one case in 2000" in text


@pytest.mark.parametrize(
    ("name", "wrong", "row"),
    [
        ("encode", lambda real: lambda *a, **k: real(*a, **k) ^ (a[1] == "fp8_e5m2"), "fp8_e5m2"),
        ("cast_out", lambda real: lambda *a, **k: real(*a, **k) ^ (a[1] == "int8"), "int8"),
        ("dequantize", lambda real: lambda tensor: real(tensor) * np.float32(1 + (tensor.dtype == "hif4")), "hif4"),
    ],
)
def test_a_difference_is_found_and_ends_with_1(
    name: str, wrong: Any, row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nm, name, wrong(getattr(nm, name)))
    assert command.main(["-o", str(tmp_path), *QUICK]) == 1
    rows = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["conformance"]
    assert {found["subject"] for found in rows if found["differences"]} == {row}


def test_every_speed_case_runs_and_is_written(tmp_path: Path) -> None:
    measured = [speed.measure(case, 0.0) for case in speed.cases(scale=32)]
    assert all(each.rate > 0 for each in measured)
    about = {"date": "2000-01-01", "machine": "none", "versions": {"numpy": "0"}, "every": 1, "load": "0.0 to 1.0"}
    text = command.markdown([], measured, about)
    for each in measured:
        assert each.case.name in text
    listed = command.as_json([], measured, about)["speed"]
    assert len(listed) == len(measured)
    assert {row["unit"] for row in listed} == {"elements per second", "multiply-adds per second"}


def test_rates_read_well() -> None:
    assert command.rate_text(22.04e9, "multiply-adds") == "22.0 GMAC/s"
    assert command.rate_text(150e6, "elements") == "150 M/s"
    assert command.rate_text(0.0, "elements") == "-"
