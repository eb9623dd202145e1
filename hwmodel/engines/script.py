"""Starting processes that do not run the caller's script again.

A spawned process imports the main module of its parent first. What our workers do lies in this package, so they have no
use for it; and a script that calls ``hwmodel.sweep`` at its top level would start a sweep in every one of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def without_script() -> Iterator[None]:
    """While this lasts there is no script to be seen by processes that are started."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
