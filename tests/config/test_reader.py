"""Strict YAML: what is read, what is refused, and that every error says the line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hwmodel.config import reader
from hwmodel.config.dump import dump
from hwmodel.config.reader import read_file, read_text
from hwmodel.errors import ConfigError

SCALARS = [
    ("1e3", 1000.0), ("1.5", 1.5), ("-.5", -0.5), ("+1", 1), ("010", 10), ("0x1F", 31), ("0o17", 15), ("12", 12),
    ("off", "off"), ("yes", "yes"), ("No", "No"), ("1:30", "1:30"), ("2001-01-01", "2001-01-01"), ("1_000", "1_000"),
    ("0b1", "0b1"), ("true", True), ("FALSE", False), ("~", None), ("", None), ("Null", None), (".inf", math.inf),
    ("-.INF", -math.inf), ("'1'", "1"), ('"true"', "true"), ("!!str 12", "12"), ("!!int '12'", 12), ("!!float 3", 3.0),
    ("=", "="), ("-x", "-x"), (".", "."), ("1e", "1e"), ("1.e2", 100.0),
]  # fmt: skip

BAD = [
    ("a: 1\nb: 2\na: 3\n", 3, "a: expected each key once, not again (first in line 1)"),
    ("a: {b: 1,\n  b: 2}", 2, "a.b: expected each key once"),
    ("a: 1\n'a': 2", 2, "each key once"),
    ("a: [1,\n", 2, "expected YAML text"),
    ("a: b: c", 1, "mapping values are not allowed"),
    ("x: 1\na: *y", 2, "undefined alias"),
    ("a: &x [*x]", 1, "a[0]: expected a value, not an alias of what it is part of"),
    ("a: !!python/object:os.system x", 1, "expected plain data, not the tag"),
    ("a: !!binary aGk=", 1, "expected plain data, not the tag"),
    ("a: !!int yes", 1, "a: expected what the tag"),
    ("a:\n- !!set {b}", 2, "expected plain data"),
    ("? [a]\n: 1", 1, "expected a name as key, not a sequence"),
    ("---\na\n---\nb", 3, "another document"),
    ("\ta: 1", 1, "cannot start any token"),
    ("a: 'x", None, "expected YAML text"),
    ("a: " + "9" * 5000, 1, "not one of 5000 digits"),
    ("[" * 30000, 1, "expected YAML text"),
]


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    data = read_text(f"x: {text}", "f").data["x"]
    assert data == value
    assert type(data) is type(value)


def test_nan() -> None:
    assert math.isnan(read_text("x: .NaN", "f").data["x"])


@pytest.mark.parametrize(("text", "line", "problem"), BAD)
def test_bad_text_is_one_line_with_its_line(text: str, line: int | None, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_text(text, "file.yaml")
    assert "\n" not in str(caught.value)
    assert problem in str(caught.value)
    if line is not None:
        assert caught.value.where == f"file.yaml:{line}"


@pytest.mark.parametrize("text", [b"a: \xff\xfe", b"a: \x01", b"\x80"])
def test_bytes_that_are_no_text(text: bytes) -> None:
    with pytest.raises(ConfigError, match="expected YAML text, but") as caught:
        read_text(text, "file.yaml")
    assert caught.value.where.startswith("file.yaml")


def test_keys_are_text() -> None:
    assert read_text("{1: a, off: b, null: c}", "f").data == {"1": "a", "off": "b", "null": "c"}


def test_lines_of_fields() -> None:
    document = read_text("# a comment\na:\n  b: 1\n  c: [1,\n      2]\nd: {e: 1}\n", "f")
    lines = {("a",): 2, ("a", "b"): 3, ("a", "c"): 4, ("a", "c", 0): 4, ("a", "c", 1): 5, ("d", "e"): 6}
    for path, line in lines.items():
        assert document.line(path) == line
    assert document.line(("a", "x")) is None
    assert document.line(("a", "b", "x")) is None
    assert document.line(()) == 2


def test_aliases_are_copies_with_their_own_lines() -> None:
    document = read_text("a: &x {k: [1]}\nb: *x\n", "f")
    assert document.data == {"a": {"k": [1]}, "b": {"k": [1]}}
    document.data["a"]["k"].append(2)
    assert document.data["b"] == {"k": [1]}
    assert document.line(("b",)) == 2


def test_alias_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_NODES", 1000)
    text = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 20))
    with pytest.raises(ConfigError, match="expected at most 1,000 values"):
        read_text(text, "f")


def test_files_of_too_many_values_are_refused_while_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_NODES", 1000)
    assert len(read_text("- 1\n" * 999, "f").data) == 999
    with pytest.raises(ConfigError, match="f: expected YAML text, but it has more than 1,000 values"):
        read_text("- 1\n" * 100_000, "f")


def test_two_documents_are_one_line_of_english() -> None:
    with pytest.raises(ConfigError, match="expected YAML text, but found another document"):
        read_text("a: 1\n---\nb: 2\n", "f")


def test_empty_files() -> None:
    assert read_text("", "f").data is None
    assert read_text("# only a comment\n", "f").data is None


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1\n")
    assert read_file(tmp_path / "a.yaml").data == {"a": 1}
    with pytest.raises(ConfigError, match=r"shown.yaml: expected a file, but there is none"):
        read_file(tmp_path / "b.yaml", "shown.yaml")
    with pytest.raises(ConfigError, match="not a folder"):
        read_file(tmp_path)


def test_a_mark_at_the_start_of_the_file_is_no_text() -> None:
    assert read_text("\ufeffa: 1".encode(), "f").data == {"a": 1}


def test_without_the_c_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    reader._loader.cache_clear()
    try:
        assert read_text("a: 1e3\nb: off\nc: '1'", "f").data == {"a": 1000.0, "b": "off", "c": "1"}
        with pytest.raises(ConfigError, match=r"f:2: a: expected each key once"):
            read_text("a: 1\na: 2", "f")
        with pytest.raises(ConfigError, match="nested too deeply"):
            read_text("[" * 30000, "f")
    finally:
        reader._loader.cache_clear()


names = st.text(min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(names, values, min_size=1, max_size=5))
def test_what_is_written_is_read_back_equal(data: dict[str, Any]) -> None:
    assert read_text(dump(data), "f").data == data


@given(st.dictionaries(names, st.integers(), min_size=1, max_size=5), st.data())
def test_a_key_that_comes_twice_is_found_in_its_line(data: dict[str, int], draw: st.DataObject) -> None:
    again = draw.draw(st.sampled_from(sorted(data)))
    text = dump(data) + dump({again: 1})
    with pytest.raises(ConfigError) as caught:
        read_text(text, "f")
    assert caught.value.where == f"f:{len(data) + 1}"
    assert caught.value.problem.endswith(f"(first in line {list(data).index(again) + 1})")


@given(st.dictionaries(names, values, min_size=1, max_size=5))
def test_other_readers_see_the_same(data: dict[str, Any]) -> None:
    assert yaml.safe_load(dump(data)) == data
