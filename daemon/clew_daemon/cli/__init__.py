"""The command line: `main` is the entry point of `clew`; each command imports what it needs when it is called."""

import gc
import os
import sys
from collections.abc import Sequence

from clew_shared.exit_codes import ExitCode

STDIN, STDOUT, STDERR = 0, 1, 2
COMPLETE = "_CLEW_COMPLETE"
GC_OBJECTS = 100_000  # before the garbage is collected: a fifth of the time of a short command


def main() -> None:
    """Run `clew` with the arguments of this process, and exit."""
    open_standard_streams()
    gc.set_threshold(GC_OBJECTS)
    # Otherwise pydantic searches all installed packages for plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    code = run(sys.argv[1:])
    gc.freeze()  # the process ends: no collection is worth its time
    sys.exit(code)


def open_standard_streams() -> None:
    """Open /dev/null for standard streams that are closed, as by `clew run >&-`: no later file gets their numbers."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(fd, True)
    os.close(fd)
    for name, fd, mode in (("stdin", STDIN, "r"), ("stdout", STDOUT, "w"), ("stderr", STDERR, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, mode, closefd=False, buffering=1))  # noqa: SIM115 - stays open


def run(args: Sequence[str]) -> int:
    """Run one command and return its exit code; errors are printed on stderr, in a line or two."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _invoke(args)
    except BrokenPipeError:  # the reader has ended, as with `clew history GOAL | head`
        code = 1
    return code if _flushed() else 1


def _flushed() -> bool:
    """Flush stdout and return whether that worked; an error other than a closed pipe is printed."""
    from clew_daemon.reading.errors import print_error

    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print_error(f"the output cannot be written: {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)  # for what is still in the buffer
        return False
    return True


def _invoke(args: Sequence[str]) -> int:
    from click.exceptions import Exit

    from clew_daemon.cli.app import clew
    from clew_daemon.reading.errors import CliError, explained, print_error

    try:
        if asked := os.environ.get(COMPLETE):  # a shell asks what a line may go on with
            from click.shell_completion import shell_complete

            return shell_complete(clew, {}, "clew", COMPLETE, asked)
        with clew.make_context("clew", list(args)) as context:
            clew.invoke(context)
    except Exit as done:
        return done.exit_code
    except CliError as error:
        print_error(error.message)
        return error.code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        if (message := explained(error)) is None:
            raise
        if not isinstance(error, OSError) or _flushed():  # otherwise it is printed already
            print_error(message)
        return int(getattr(error, "exit_code", ExitCode.FAILED))
    return 0
