"""The table of claims: every row has a test that names it, and the page names no test that is gone."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "reports" / "claims"


def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("claims_build", FOLDER / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILD = builder()
SHOWN = BUILD.shown()


@pytest.mark.parametrize("row", [claim.id for claim in BUILD.claims()])
def test_every_claim_is_shown_by_a_test(row: str) -> None:
    assert SHOWN.get(row), f"no test is called test_..._{row.lower()}"


def test_no_test_names_a_claim_that_is_not_there() -> None:
    assert set(SHOWN) <= {claim.id for claim in BUILD.claims()}


def test_rows_are_complete() -> None:
    rows = [claim.id for claim in BUILD.claims()]
    assert rows == [
        *(f"N{number:03}" for number in range(1, 109)),
        *(f"A{number:02}" for number in range(1, 34)),
        *(f"C{number}" for number in range(1, 10)),
    ]


def test_the_page_has_every_row_and_no_test_that_is_gone() -> None:
    """Otherwise run ``python reports/claims/build.py``."""
    page = (FOLDER / "report.md").read_text(encoding="utf-8")
    for claim in BUILD.claims():
        assert f"\n| {claim.id} | {claim.section}: {claim.claim}" in page
    known = {name for names in SHOWN.values() for name in names}
    assert set(re.findall(r"`([^`]+\.py::[^`]+)`", page)) <= known
    assert [point for point in ("G1", "G2", "G3", "G4", "G5", "G6") if f"\n| {point} |" in page] == [
        "G1",
        "G2",
        "G3",
        "G4",
        "G5",
        "G6",
    ]
