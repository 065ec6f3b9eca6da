"""Which process wrote something: told by its number and the time when it started, since numbers are reused."""

import os
from contextlib import suppress

import psutil


def started_at() -> float:
    """Return the time when this process started, in seconds since 1970."""
    return psutil.Process().create_time()


def runs_elsewhere(pid: int | None, since: float) -> bool:
    """Return whether a process is another one than this, and still running."""
    if not pid or pid == os.getpid():
        return False
    with suppress(psutil.Error):
        return abs(psutil.Process(pid).create_time() - since) < 1
    return False
