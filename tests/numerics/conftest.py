"""What numerics tests share: both backends, bit-exact comparison, awkward blocks."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from hwmodel import numerics as nm


@pytest.fixture(params=["numpy", "numba"] if importlib.util.find_spec("numba") else ["numpy"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test once with numpy alone and once with compiled kernels."""
    before = nm.set_backend(request.param)
    yield request.param
    nm.set_backend(before)


@pytest.fixture(autouse=True)
def no_leftover_choice() -> Iterator[None]:
    """Leave backend and thread count as every other test expects them."""
    yield
    nm.set_backend("auto")
    nm.set_threads(None)
