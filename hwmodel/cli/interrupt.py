"""Ctrl-C as one line and exit code 130, whenever it comes.

Python raises KeyboardInterrupt wherever the program happens to be. Inside an import that is too early: the set-up of a
compiled module turns it into an ImportError (which a caller may take for "not installed") or leaves the module half
made, and the process dies on its way out. So until the command itself starts, when nothing is written yet, the process
ends at once; later an interrupt waits until the import that is under way is over.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

INTERRUPTED = 130
MESSAGE = "interrupted\n"
IMPORTING = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
"""Where the code is that Python imports with."""
AGAIN_SECONDS = 0.01
_STDERR = 2


class Interrupts:
    """How this process takes Ctrl-C."""

    def __init__(self) -> None:
        self.came = False
        """Whether there was one."""
        self._at_work = False
        self._process = os.getpid()

    def listen(self) -> None:
        """From now on end at once, without a trace. Where SIGINT is ignored (``nohup``, ``&`` in a script) it stays so.

        Call it first of all, in the main thread.
        """
        if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
            signal.signal(signal.SIGINT, self._take)
            sys.unraisablehook = self._unraisable

    def work(self) -> None:
        """From now on there is something to tidy up: raise KeyboardInterrupt, outside of imports."""
        self._at_work = True

    def close(self) -> None:
        """The work is done and the result stands: nothing to stop any more."""
        if signal.getsignal(signal.SIGINT) == self._take:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _take(self, _number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            os._exit(INTERRUPTED)
        self.came = True
        if not self._at_work:
            _end()
        if _importing(frame):
            _again()
        else:
            raise KeyboardInterrupt

    def _unraisable(self, found: Any) -> None:
        """An interrupt that came in a place that cannot raise, as a destructor, comes again in another one."""
        if issubclass(found.exc_type, KeyboardInterrupt):
            _again()
        else:
            sys.__unraisablehook__(found)


interrupts = Interrupts()
"""Those of this process; they are left to Python until ``listen``."""


def _end() -> None:
    """End the process now: taking half-made modules down may crash."""
    try:  # noqa: SIM105  nothing more is imported here
        os.write(_STDERR, MESSAGE.encode())
    except OSError:
        pass
    os._exit(INTERRUPTED)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename in IMPORTING:
            return True
        frame = frame.f_back
    return False


def _again() -> None:
    """Let it come once more in a moment."""
    import threading

    timer = threading.Timer(AGAIN_SECONDS, _send)
    timer.daemon = True
    timer.start()


def _send() -> None:
    import _thread
    import threading

    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)  # wakes it as well
    else:
        _thread.interrupt_main()
