"""``python -m hwmodel.study.reports NAME [FOLDER]``: rebuild a report, by default into ``reports/NAME``."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from hwmodel.study.reports import COMMAND, REPORTS


def main() -> int:
    """Build the report that is named on the command line."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Rebuild a report.")
    parser.add_argument("name", choices=sorted(REPORTS))
    parser.add_argument("folder", nargs="?", type=Path)
    given = parser.parse_args()
    folder = given.folder or Path("reports") / given.name
    folder.mkdir(parents=True, exist_ok=True)
    for path in import_module(REPORTS[given.name]).build(folder):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
