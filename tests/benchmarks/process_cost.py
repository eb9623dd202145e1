"""Wall time and peak memory of a whole process."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    """What a process took."""

    seconds: float
    megabytes: float


def cost_of(command: list[str], folder: Path, timeout: float = 600) -> Cost:
    """Run a command to its end; AssertionError with its output where it fails."""
    output = folder / "output.txt"
    begin = time.perf_counter()
    with output.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file, cwd=folder) as process:
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except KeyboardInterrupt:
            process.kill()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begin
    assert process.returncode == 0, output.read_text()[-2000:]
    assert seconds < timeout
    return Cost(seconds, usage.ru_maxrss / 1024)
