"""The twelve checks that catch most mistakes: each has a test that carries its number."""

from __future__ import annotations

import re
from pathlib import Path


def test_every_check_has_a_test() -> None:
    here = Path(__file__)
    text = "".join(path.read_text(encoding="utf-8") for path in here.parent.glob("test_*.py") if path != here)
    numbers = {int(each) for each in re.findall(r"def test_\w*_check_(\d+)", text)}
    numbers |= {int(each) for each in re.findall(r"_check_(\d+)", text)}
    assert numbers >= set(range(1, 13))
