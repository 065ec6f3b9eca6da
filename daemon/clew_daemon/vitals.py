"""How a worker's processes are: memory, creation times, and exit codes in words."""

from __future__ import annotations

import contextlib
import signal

import psutil

SIGNAL_BASE = 128


def memory_mb(guards: list[int]) -> float:
    """Give the resident memory of whole process trees, in MiB."""
    total = 0
    for pid in guards:
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(pid)
            for process in [root, *root.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    total += process.memory_info().rss
    return total / (1 << 20)


def created(pid: int) -> float:
    """Give a process's creation time, in seconds since 1970; 0 where it is gone."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return 0.0


def exit_words(code: int) -> str:
    """Say an exit code: `exit 3`, or `killed by SIGSEGV`."""
    if code > SIGNAL_BASE:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(code - SIGNAL_BASE).name}"
    return f"exit {code}"
