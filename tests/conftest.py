"""Options and settings that all tests share. Helpers to import are in ``support.py`` beside this file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fixed", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", settings.get_profile("fixed"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write today's cycles and digests of the shipped scenarios where they differ, and show old -> new",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest test, which runs the README: at the end the other processes would wait for it."""
    items.sort(key=lambda item: item.path.name != "test_readme.py")


@pytest.fixture(autouse=True)
def _no_stray_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal of whoever runs the tests changes nothing."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Root of the checkout."""
    return Path(__file__).resolve().parent.parent
