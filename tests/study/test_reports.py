"""Reports: each is rebuilt by its command, says so first, and shows its pictures."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from hwmodel.study.reports import COMMAND, REPORTS, tiling_gemm, tiling_hif4


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_the_committed_report_starts_with_its_command_and_has_its_pictures(name: str, checkout: Path) -> None:
    folder = checkout / "reports" / name
    lines = (folder / "report.md").read_text().splitlines()
    assert lines[2].startswith(f"Rebuild with `{COMMAND} {name}`")
    pictures = re.findall(r"\]\(([^)]+\.png)\)", "\n".join(lines))
    assert pictures
    assert sorted(pictures) == sorted(path.name for path in folder.glob("*.png"))
    assert callable(import_module(REPORTS[name]).build)


def test_the_hif4_report_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkout: Path) -> None:
    monkeypatch.setattr(tiling_hif4, "SHAPES", ((64, 64, 64), (128, 128, 128)))
    files = tiling_hif4.build(tmp_path)
    assert all(path.stat().st_size for path in files)
    rows = [line for line in (tmp_path / "report.md").read_text().splitlines() if re.match(r"\| \d", line)]
    committed = (checkout / "reports" / "tiling_hif4" / "report.md").read_text().splitlines()
    assert len(rows) == 2
    assert set(rows) <= set(committed)


def test_the_gemm_report_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling_gemm, "SIZES", (4096,))
    monkeypatch.setattr(tiling_gemm, "MACHINES", {"ascend_a3": ("A3, fp16", "silicon/a3_gemm_1536")})
    monkeypatch.setattr(tiling_gemm, "TRIALS", 2)
    fields = tiling_gemm._fields
    monkeypatch.setattr(tiling_gemm, "_fields", lambda n, **more: fields(min(n, 256), **more))
    files = tiling_gemm.build(tmp_path)
    assert all(path.stat().st_size for path in files)
