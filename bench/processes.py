"""What processes weigh and do, from /proc, and the end of all processes that a bench started.

`become_subreaper`: whatever loses its parent, even a daemon that detached itself, becomes a child of the bench.
"""

import contextlib
import ctypes
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import psutil

PR_SET_CHILD_SUBREAPER = 36
_GONE = (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError)


class Spent(NamedTuple):
    """Processor time, and how often processes gave the processor up to wait."""

    cpu_s: float
    switches: int


def become_subreaper() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def tree(root: int) -> list[psutil.Process]:
    """Return a process and all its descendants; none when it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)] if alive(process) else []
    return []


def command(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def alive(process: psutil.Process) -> bool:
    """Return whether it runs: neither ended nor a zombie."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def pss_mb(processes: Iterable[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        with contextlib.suppress(*_GONE):
            total += process.memory_full_info().pss / 1e6
    return total


def spent(processes: Iterable[psutil.Process]) -> Spent:
    """Return what their threads have spent so far."""
    nanoseconds, switches = 0, 0
    for process in processes:
        for thread in Path(f"/proc/{process.pid}/task").glob("*"):
            with contextlib.suppress(*_GONE):
                nanoseconds += int((thread / "schedstat").read_text().split()[0])
                switches += _number(thread / "status", r"voluntary_ctxt_switches:\s+(\d+)")
    return Spent(nanoseconds / 1e9, switches)


def pid_inside(process: psutil.Process) -> int:
    """Return the pid in the innermost PID namespace; 0 when it has ended."""
    with contextlib.suppress(*_GONE):
        return _number(Path(f"/proc/{process.pid}/status"), r"NSpid:.*\s(\d+)$")
    return 0


def _number(path: Path, pattern: str) -> int:
    found = re.search(f"^{pattern}", path.read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def end(processes: Iterable[psutil.Process], timeout_s: float = 10.0) -> None:
    """SIGKILL them, and wait until they have ended."""
    left = list(processes)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout_s)


def end_all(timeout_s: float = 20.0) -> None:
    """End and reap every descendant of this process."""
    until = time.monotonic() + timeout_s
    while (left := psutil.Process().children(recursive=True)) and time.monotonic() < until:
        end(left, 1.0)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
