"""Facts about a worker's processes: memory, descendants, creation times, and exit codes as text."""

from __future__ import annotations

import contextlib
import os
import signal
from functools import cache
from pathlib import Path

import psutil

from clew_shared.exit_codes import SIGNAL_BASE

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@cache
def is_proc_ours() -> bool:
    """Return whether /proc shows this process's PID namespace.

    In a PID namespace without a /proc of its own (`unshare --pid`) the same numbers there are other processes.
    """
    try:
        return os.readlink("/proc/self") == str(os.getpid())  # noqa: PTH115 - a number, no path
    except OSError:
        return False


def memory_mb(guards: list[int]) -> float:
    """Return the resident memory of whole process trees, in MiB; 0 if /proc cannot tell.

    Read from /proc directly, without psutil: it is asked twice a second for every process of every worker.
    """
    total = 0
    if not is_proc_ours():
        return 0.0
    for pid in (member for guard in guards for member in tree(guard)):
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return total * PAGE_BYTES / (1 << 20)


def tree(pid: int) -> list[int]:
    """Return a process and all its descendants.

    From /proc/PID/task/*/children: psutil would read every process of the machine to find them.
    """
    found = [pid]
    for member in found:  # grows while it is walked
        found += children(member)
    return found


def children(pid: int) -> list[int]:
    """Return the children of a process, of all its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.scandir(f"/proc/{pid}/task") if is_proc_ours() else ():
            with contextlib.suppress(OSError):
                found += map(int, Path(task, "children").read_text().split())
    return found


def created(pid: int) -> float:
    """Return a process's creation time, in seconds since 1970; 0 if it has ended or /proc cannot tell."""
    if not is_proc_ours():
        return 0.0
    try:
        return psutil.Process(pid).create_time()
    except (psutil.Error, OSError):
        return 0.0


def exit_words(code: int) -> str:
    """Return an exit code as text: `exit 3`, or `killed by SIGSEGV`."""
    if code > SIGNAL_BASE:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(code - SIGNAL_BASE).name}"
    return f"exit {code}"
