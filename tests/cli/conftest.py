"""A small scenario in an empty folder, and a way to call the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hwmodel.cli import main

TEXT = """\
name: small
question: Does it run?
arch: ascend_a6
problem: {op: matmul, m: 32, k: 64, n: 64, a: hif4, b: hif4, out: bf16}
tiling: {kind: n_split}
"""


@dataclass(frozen=True)
class Call:
    """What one call returned and printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line on stderr; nothing on stdout but, with ``--json``, the document that says the same."""
        assert self.err.count("\n") == 1, self.err
        assert not self.out or self.json == {"schema_version": 1, "error": self.err.rstrip("\n")}
        return self.err.rstrip("\n")


Cli = Callable[..., Call]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], here: Path) -> Cli:
    def call(*arguments: object) -> Call:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Call(code, out, err)

    return call


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder with ``small.yaml``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(TEXT)
    return tmp_path


@pytest.fixture
def scenario(here: Path) -> Callable[..., str]:
    """Write a variant of the scenario: text replacements in pairs."""

    def write(name: str, *pairs: tuple[str, str]) -> str:
        text = TEXT
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        (here / name).write_text(text)
        return name

    return write
