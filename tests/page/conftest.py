"""One browser for all tests of the page, and pages at three lengths."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Browser

from hwmodel.experiment import simulate
from hwmodel.explain import Explanation, explain
from hwmodel.scenario import load
from hwmodel.writers.html import write_pages

Page = tuple[Path, Explanation]

SCENARIOS: dict[int, tuple[str, dict[str, Any]]] = {
    10: ("hif4_512x128x512", {}),
    10_000: ("blocked_remainders", {
        "problem.m": 512, "problem.k": 2048, "problem.n": 768, "tiling.core_grid": [1, 1], "expect": {},
    }),
    100_000: ("blocked_remainders", {
        "problem.m": 1024, "problem.k": 4096, "problem.n": 1792, "tiling.core_grid": [1, 1], "expect": {},
    }),
}  # fmt: skip
"""About so many instructions."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    if not CHROMIUM:
        if os.environ.get("CI"):
            pytest.fail("chromium is missing: .ci/run installs it")
        pytest.skip("chromium is not installed")
    one = Browser()
    yield one
    one.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Page]:
    """The page of a run of about so many instructions, made once."""
    folder = tmp_path_factory.mktemp("pages")
    known: dict[int, Page] = {}

    def made(length: int) -> Page:
        if length not in known:
            name, overrides = SCENARIOS[length]
            values: Any = "check" if length == 10 else "skip"
            explanation = explain(simulate(load(name, overrides), values=values), whatif=length == 10)
            path = folder / f"{length}.html"
            write_pages([explanation], path)
            known[length] = path, explanation
        return known[length]

    return made
