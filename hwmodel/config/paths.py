"""Dotted paths to a field: ``arch.units.cube.startup_cycles``, ``tiling.base[1]`` or ``tiling.base.1``."""

from __future__ import annotations

import re

FieldPath = tuple[str | int, ...]
"""One step a name or a list index, from the root of the file."""

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def format_path(path: FieldPath) -> str:
    """Text of a path for people: ``tiling.base[1]``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def parse_path(text: str) -> FieldPath | None:
    """Steps of a path as a user types it; None where it is none. A list index may be ``[1]`` or ``.1``.

    Whether a number is a list index or a name can only be told beside the data: here a bare number stays text.
    """
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        if steps and text[at] == ".":
            at += 1
        elif steps and text[at] != "[":
            return None
        match = _STEP.match(text, at)
        if match is None:
            return None
        steps.append(match[1] if match[2] is None else int(match[2]))
        at = match.end()
    return tuple(steps) if steps and isinstance(steps[0], str) else None
