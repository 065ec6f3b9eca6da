"""The errors of commands: a line or two on stderr, and an exit code. It imports nothing expensive."""

import os
import sys

from clew_daemon.reading.sanitize import clean
from clew_shared.exit_codes import ExitCode

TO_START = "`clew run` in another terminal; where it is a service: `clew start`"


class CliError(Exception):
    """The command failed; `message` names what failed, on what, and what to do."""

    def __init__(self, message: str, code: int = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def print_error(message: str) -> None:
    """Print an error on stderr; a stderr that cannot be written is ignored, the exit code still counts."""
    try:
        print_note(f"clew: {clean(message, lines=True).rstrip()}")
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # for what is still in the buffer


def print_note(text: str) -> None:
    """Print a text on stderr, beside what a command prints."""
    print(text, file=sys.stderr, flush=True)


def explained(error: Exception) -> str | None:
    """Return the message for an error that click or the system raised; None for others: a bug needs its traceback."""
    if isinstance(error, OSError):
        name = f": {error.filename}" if error.filename else ""
        return f"{error.strerror or error}{name}"
    formatted = getattr(error, "format_message", None)
    if formatted is None:
        return None
    path = getattr(getattr(error, "ctx", None), "command_path", "clew")
    return f"{formatted()}\nSee `{path} --help`."
