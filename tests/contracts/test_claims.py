"""Every claim of the HiF4 requirement (rows A) and of the user (rows C) is named by a test that shows it.

``python tests/contracts/test_claims.py`` prints the table row -> tests.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
ROWS = [f"a{number:02}" for number in range(1, 34)] + [f"c{number}" for number in range(1, 10)]
NAMED = re.compile(r"_(a\d\d|c\d|n\d{3})(?=_|$)")


def shown() -> dict[str, list[str]]:
    """Tests by the row they name: ``test_..._a19_a20`` names two."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for row in NAMED.findall(node.name):
                    found[row].append(f"{path.relative_to(TESTS).as_posix()}::{node.name}")
    return found


FOUND = shown()


@pytest.mark.parametrize("row", ROWS)
def test_a_test_names_the_row(row: str) -> None:
    assert FOUND.get(row), f"no test is called test_..._{row}"


def test_no_test_names_a_row_that_is_not_there() -> None:
    others = {row for row in FOUND if row[0] in "ac"} - set(ROWS)
    assert not others


if __name__ == "__main__":
    for name in sorted(FOUND):
        sys.stdout.write("".join(f"{name.upper():5} {test}\n" for test in FOUND[name]))
