"""What can go wrong in a command, and how it is told: a line or two on stderr, and an exit code.

Imported by every command, so it imports nothing of weight.
"""

from __future__ import annotations

import os
import sys

from clew_daemon.cli.printable import clean
from clew_shared.exit_codes import ExitCode

"""`clew run` with a config that cannot be used: systemd does not start it again (EX_CONFIG)."""


class CliError(Exception):
    """The command cannot do what was asked; `message` says what failed, on what, and what to do."""

    def __init__(self, message: str, code: int = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def tell(message: str) -> None:
    """Print an error on stderr, if it can be written."""
    try:
        print(f"clew: {clean(message, lines=True).rstrip()}", file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # where the rest goes: the exit code counts


def told(error: Exception) -> str | None:
    """Give the words of an error that click or the system raised, if it is one.

    None is for an error that nobody expected: its traceback is worth more than a sentence.
    """
    if isinstance(error, OSError):
        name = f": {error.filename}" if error.filename else ""
        return f"{error.strerror or error}{name}"
    words = getattr(error, "format_message", None)
    if words is None:
        return None
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "clew")
    if getattr(error, "option_name", None) == "--home" and " " in path:
        usage = path.replace(" ", " --home DIR ", 1)
        return f"{getattr(error, 'message', words())}\n--home goes before the command: {usage}"
    return f"{words()}\nSee `{path} --help`."
