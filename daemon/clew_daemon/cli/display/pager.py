"""Long text on a terminal goes through the person's pager: `$PAGER`, or `less`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from clew_daemon.cli.display.output import on_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LESS = "less -FRX"
"""Colours, no screen of its own, and an end at once where all fits on the screen."""

NONE = ("", "cat")


@contextmanager
def paged() -> Iterator[Callable[[str], object]]:
    """Yield a function that writes text; the block ends early if the person closes the pager."""
    command = _command() if on_terminal() else ""
    if not command:
        yield sys.stdout.write
        return
    sys.stdout.flush()
    pager = subprocess.Popen(  # noqa: S602 - the person's own command, as other programs run it
        command,
        shell=True,
        stdin=subprocess.PIPE,
        text=True,
        errors="backslashreplace",
        env={"LESS": "FRX", **os.environ},
    )
    assert pager.stdin is not None  # noqa: S101 - a pipe
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pager
    try:
        with suppress(BrokenPipeError):
            yield pager.stdin.write
        with suppress(BrokenPipeError):
            pager.stdin.close()
        pager.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _command() -> str:
    """Return the command of the pager, "" for none."""
    named = os.environ.get("PAGER")
    if named is not None:
        return "" if named.strip() in NONE else named
    return LESS if shutil.which("less") else ""
