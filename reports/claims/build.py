"""Writes report.md beside this file: every claim of the requirement documents, and the tests that show it.

A test shows a claim by naming its row: ``test_..._n051`` shows N051. The claims are in claims.csv, in our own words.
"""

from __future__ import annotations

import ast
import csv
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
TESTS = HERE.parents[1] / "tests"
NAMED = re.compile(r"_(a\d\d|c\d|n\d{3})(?=_|$)")
PARTS = {
    "N": "Neuron: matmul, MX quantise and dequantise",
    "A": "HiF4 Cube matmul on Ascend A6",
    "C": "What the user asked for",
}
HEAD = """# Claims and the tests that show them

Made by `python reports/claims/build.py` from [claims.csv](claims.csv) and the names of the tests (`test_..._n051` shows
row N051). A dagger marks a claim that the documents leave open or state in two ways: its test shows the convention
taken. `tests/neuron/test_neuron_claims.py` fails when a row has no test or this page names one that is gone.
"""


class Claim(NamedTuple):
    """One row of claims.csv."""

    id: str
    section: str
    open: str
    claim: str


def claims() -> list[Claim]:
    """All rows in the order of the file."""
    with (HERE / "claims.csv").open(encoding="utf-8", newline="") as file:
        return [Claim(**row) for row in csv.DictReader(file)]


def shown() -> dict[str, list[str]]:
    """Tests by the row they name, as ``folder/file.py::test``."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for row in NAMED.findall(node.name):
                    found[row.upper()].append(f"{path.relative_to(TESTS).as_posix()}::{node.name}")
    return found


def report() -> str:
    """The page."""
    tests = shown()
    lines = [HEAD]
    rows = claims()
    missing = [claim.id for claim in rows if not tests.get(claim.id)]
    lines.append(f"{len(rows)} rows, {sum(map(len, tests.values()))} entries; without a test: "
                 f"{', '.join(missing) or 'none'}.\n")  # fmt: skip
    for part, title in PARTS.items():
        lines += [f"## {part}. {title}\n", "| row | claim | tests |", "| --- | --- | --- |"]
        for claim in rows:
            if claim.id[0] == part:
                names = "<br>".join(f"`{name}`" for name in tests.get(claim.id, ())) or "**none**"
                dagger = " †" if claim.open else ""
                lines.append(f"| {claim.id} | {claim.section}: {claim.claim}{dagger} | {names} |")
        lines.append("")
    lines += [
        "## Open points of the Neuron requirement\n",
        "| point | about | convention taken |",
        "| --- | --- | --- |",
    ]
    with (HERE / "open_points.csv").open(encoding="utf-8", newline="") as file:
        lines += [f"| {row['point']} | {row['about']} | {row['convention']} |" for row in csv.DictReader(file)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page; 1 when a row has no test."""
    text = report()
    (HERE / "report.md").write_text(text, encoding="utf-8", newline="\n")
    return int("**none**" in text)


if __name__ == "__main__":
    sys.exit(main())
