"""Who wrote a record: the goal, by its text, and the process, by its number and the time when it started."""

import hashlib
import os
import re
from contextlib import suppress

import psutil

ID_CHARS_MAX = 40


def goal_id(text: str) -> str:
    """Return a name for a goal's text: its first words and 8 hex digits of its SHA-256."""
    words = "-".join(re.findall(r"[a-z0-9]+", text.lower())[:6])[:ID_CHARS_MAX].rstrip("-")
    return f"{words or 'goal'}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


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
