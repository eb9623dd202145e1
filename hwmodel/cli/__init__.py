"""The command line: parse, call the library, print, and turn errors into exit codes. One file for each command.

Adding a command is one file with a function ``command`` and one entry in ``hwmodel.cli.entry.COMMANDS``.
"""

from __future__ import annotations

import sys

from hwmodel.cli.interrupt import INTERRUPTED, MESSAGE, interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are reported here, never raised.

    Without ``argv`` this is the process's own entry: it is then set up for one short run, and ends at once on Ctrl-C.
    """
    if argv is None:
        interrupts.listen()
    try:
        from hwmodel.cli.entry import run, run_process

        code = run_process(sys.argv[1:]) if argv is None else run(list(argv))
        interrupts.close()
        return code if not interrupts.came else _interrupted()
    except KeyboardInterrupt:
        interrupts.close()
        return _interrupted()


def _interrupted() -> int:
    exec("")  # CPython would end with the signal if it had passed some exec(), as those of dataclasses; this resets
    sys.stdout.flush()
    sys.stderr.write(MESSAGE)
    return INTERRUPTED


__all__ = ["main"]
