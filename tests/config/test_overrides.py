"""``--set``: paths, values, and what changing a kind drops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodel.config.overrides import Override, parse_override, parse_overrides
from hwmodel.config.paths import format_path, parse_path
from hwmodel.errors import ConfigError, InputError


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("problem.m=256", ("problem", "m"), 256),
        ("tiling.core_grid=[1,1]", ("tiling", "core_grid"), [1, 1]),
        ("tiling.base[1]=8", ("tiling", "base", 1), 8),
        ("tiling.base.1=8", ("tiling", "base", "1"), 8),
        ("expect={}", ("expect",), {}),
        ("question=a: b", ("question",), {"a": "b"}),
        ("question='a = b'", ("question",), "a = b"),
        ("expect.out=", ("expect", "out"), None),
        ("a.b=1e3", ("a", "b"), 1000.0),
    ],
)
def test_reading(text: str, path: tuple[str | int, ...], value: object) -> None:
    assert parse_override(text) == Override(path, value)


@pytest.mark.parametrize("text", ["problem.m", "=3", "a..b=3", ".a=3", "a.=3", "[0]=3", "a[x]=3", "a[0=1"])
def test_no_path(text: str) -> None:
    with pytest.raises(InputError, match="--set: expected PATH=VALUE"):
        parse_override(text)


def test_no_yaml() -> None:
    with pytest.raises(ConfigError, match=r"--set problem.m: expected YAML text"):
        parse_override("problem.m={a")


def test_python_values_become_plain() -> None:
    given = {"a": np.int64(3), "b": (1, np.float32(0.5)), "c": {"d": Path("x/y")}, "e": None}
    values = [override.value for override in parse_overrides(given)]
    assert values == [3, [1, 0.5], {"d": "x/y"}, None]
    assert type(values[0]) is int


def test_both_forms() -> None:
    assert parse_overrides({"problem.m": 256}) == parse_overrides(["problem.m=256"])
    assert parse_overrides(None) == []


@given(st.lists(st.from_regex(r"[a-z_]+", fullmatch=True) | st.integers(0, 99), min_size=1).filter(
    lambda path: isinstance(path[0], str)
))  # fmt: skip
def test_paths_round_trip(path: list[str | int]) -> None:
    assert parse_path(format_path(tuple(path))) == tuple(path)
