"""From the arguments to the exit code."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from importlib import import_module
from pathlib import Path

from hwmodel.cli.console import Console, discard
from hwmodel.cli.interrupt import INTERRUPTED, interrupts
from hwmodel.config.resources import shortened
from hwmodel.errors import HwmodelError, InputError

COMMANDS = {
    "run": "hwmodel.cli.run",
    "check": "hwmodel.cli.check",
    "compare": "hwmodel.cli.compare",
    "sweep": "hwmodel.cli.sweep",
    "tune": "hwmodel.cli.tune",
    "explain": "hwmodel.cli.explain",
    "export": "hwmodel.cli.export",
    "list": "hwmodel.cli.list_",
    "schema": "hwmodel.cli.schema",
    "validate": "hwmodel.cli.validate",
    "calibrate": "hwmodel.cli.calibrate",
}
"""Module of each command; it has a function ``command``. Only the module of the one that is called is imported."""

GC_THRESHOLD = 200_000
"""Imports and programs make many objects that stay: looking for garbage among them that often costs a tenth."""
USAGE, FAILED = 2, 3
SIGNALLED = 128
"""A shell's exit code for a process that a signal ended, less the number of the signal."""


def run_process(arguments: list[str]) -> int:
    """Run one command in a process that ends with it."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # looking for some takes longer than reading a scenario
    gc.set_threshold(GC_THRESHOLD)
    _end_tidily()
    _open_streams()
    code = run(arguments)
    gc.freeze()  # or the interpreter looks through everything once more on its way out
    return code


def _end_tidily() -> None:
    """Let SIGTERM and a closed terminal unwind the stack like Ctrl-C: files aside are removed and processes ended."""

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second one ends at once
        sys.stderr.write("terminated\n")
        raise SystemExit(SIGNALLED + number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores one
            signal.signal(number, end)


def _open_streams() -> None:
    """Open what the caller has closed (``>&-``): else the next file that is opened becomes our stdout."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code. Errors are reported; only KeyboardInterrupt is raised."""
    console = Console(verbose="-v" in arguments or "--verbose" in arguments)
    try:
        try:
            code = _call(arguments, console)
        except BrokenPipeError:
            raise
        except Exception as error:
            if interrupts.came:  # what was interrupted may call it an error of its own
                raise KeyboardInterrupt from None
            code = _report(error, console)
        if code >= USAGE and "--json" in arguments:
            console.json_of_errors()
        console.flush()
    except BrokenPipeError:  # whoever read our output has gone, as with `| head`: say nothing, also not at exit
        discard(sys.stdout)
        return 0
    except InputError as error:
        return _report(error, console)
    finally:
        console.status("")
    return code


def _call(arguments: list[str], console: Console) -> int:
    import typer

    from hwmodel.cli.app import CarriedError, application

    try:
        Path.cwd()
    except OSError as error:
        raise InputError(f"expected a current folder, but {error.strerror or error}") from None

    wanted = next((argument for argument in arguments if argument in COMMANDS), None)
    commands = {name: import_module(module) for name, module in COMMANDS.items() if wanted in (None, name)}
    app = application({name: module.command for name, module in commands.items()})
    try:
        result = app(arguments, standalone_mode=False, obj=console, prog_name="hwmodel")
    except CarriedError as stop:
        raise stop.cause from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    if result == INTERRUPTED:  # typer's own answer to Ctrl-C while it reads the arguments
        raise KeyboardInterrupt
    return result if isinstance(result, int) else 0


def _report(error: Exception, console: Console) -> int:
    """One line on stderr (and the traceback with ``-v``) and the exit code."""
    if isinstance(error, HwmodelError):
        return console.fail(error)
    if console.verbose:
        import traceback

        traceback.print_exception(error)
    message = getattr(error, "format_message", None)
    if message is not None:
        context = getattr(error, "ctx", None)
        name = f" {context.info_name}" if context is not None and context.info_name in COMMANDS else ""
        text, code = f"hwmodel{name}: {message() or 'expected a command'} (see hwmodel{name} --help)", USAGE
    elif isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
        discard(sys.stdout)  # typer prints help and version itself
        text, code = f"stdout: cannot be written ({error.strerror})", USAGE
    elif isinstance(error, OSError) and error.filename is not None:
        text, code = f"{shortened(str(error.filename))}: {error.strerror}", USAGE
    elif isinstance(error, MemoryError):
        text, code = "out of memory", FAILED
    else:
        hint = "" if console.verbose else " (-v shows where)"
        text, code = f"internal error: {type(error).__name__}: {error}{hint}", FAILED
    console.errors.append(text)
    console.error(text)
    return code
