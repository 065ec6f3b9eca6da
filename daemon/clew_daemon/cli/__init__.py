"""The command line: one file a family of commands, each of which imports what it needs when called.

`main` is what `clew` and `python -m clew_daemon` run. Nothing here decides anything about goals.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

STDIN, STDOUT, STDERR = 0, 1, 2
GC_OBJECTS = 100_000
"""A short command ends before garbage matters: looking for it costs a fifth of its start."""


def main() -> None:
    """Run `clew` with the arguments of this process, and exit."""
    open_standard_streams()
    gc.set_threshold(GC_OBJECTS)
    os.environ.setdefault(
        "PYDANTIC_DISABLE_PLUGINS", "__all__"
    )  # else all installed packages are searched
    code = run(sys.argv[1:])
    gc.freeze()  # nor at the end: what the system is about to take back need not be looked through
    sys.exit(code)


def open_standard_streams() -> None:
    """Open /dev/null for standard input, output and error where they are closed, as by `clew run >&-`.

    A file opened later would get such a number, and be written into by what is printed.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(fd, True)
    os.close(fd)
    if sys.stdin is None:
        sys.stdin = open(STDIN, closefd=False)  # noqa: SIM115 - by number, and for good
    if sys.stdout is None:
        sys.stdout = open(STDOUT, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(STDERR, "w", closefd=False, buffering=1)  # noqa: SIM115


def run(args: Sequence[str]) -> int:
    """Run one command; its exit code. Errors are told on stderr, in a line or two."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _invoke(args)
    except BrokenPipeError:  # nobody reads on, as with `clew history GOAL | head`
        code = 1
    return code if _flushed() else 1


def _flushed() -> bool:
    """Write what is still to be printed, and say where that cannot be done."""
    from clew_daemon.cli.errors import tell

    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            tell(f"the output cannot be written: {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)  # where the rest goes at the end
        return False
    return True


def _invoke(args: Sequence[str]) -> int:
    from click.exceptions import Exit

    from clew_daemon.cli.app import clew
    from clew_daemon.cli.completion import answered
    from clew_daemon.cli.errors import CliError, tell, told
    from clew_shared.exit_codes import ExitCode

    try:
        if (code := answered(clew)) is not None:
            return code
        with clew.make_context("clew", list(args)) as context:
            clew.invoke(context)
    except Exit as done:
        return done.exit_code
    except CliError as error:
        tell(error.message)
        return error.code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        if (usage := told(error)) is None:
            raise
        if not isinstance(error, OSError) or _flushed():  # else that was said already
            tell(usage)
        return int(getattr(error, "exit_code", 1))
    return 0
