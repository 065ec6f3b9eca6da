"""What processes are, weigh and do, from /proc; and the end of all that this bench started.

The bench is made a subreaper: whoever loses its parent, a daemon that detached itself too, becomes its child, and so
nothing gets away.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable

PR_SET_CHILD_SUBREAPER = 36
_GONE = (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError)


@dataclass(frozen=True, slots=True)
class Spent:
    """Processor time, and how often a process gave the processor up to wait."""

    cpu_s: float
    switches: int


def become_subreaper() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def tree(root: int) -> list[psutil.Process]:
    """A process and all its descendants; empty when it is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    return []


def command(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def alive(process: psutil.Process) -> bool:
    """Whether it runs: neither gone nor only waiting to be reaped."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def pss_mb(processes: Iterable[psutil.Process]) -> float:
    total = 0
    for process in processes:
        with contextlib.suppress(*_GONE):
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            total += int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1])
    return total * 1024 / 1e6


def spent(processes: Iterable[psutil.Process]) -> Spent:
    """What their threads have spent so far."""
    nanoseconds, switches = 0, 0
    for process in processes:
        for thread in Path(f"/proc/{process.pid}/task").glob("*"):
            with contextlib.suppress(*_GONE):
                nanoseconds += int((thread / "schedstat").read_text().split()[0])
                status = (thread / "status").read_text()
                switches += int(
                    re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[1]
                )
    return Spent(nanoseconds / 1e9, switches)


def pid_inside(process: psutil.Process) -> int:
    """The pid as the process sees it itself, in the innermost PID namespace; 0 when it is gone."""
    with contextlib.suppress(*_GONE):
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(re.search(r"^NSpid:.*\s(\d+)$", status, re.MULTILINE)[1])
    return 0


def end(processes: Iterable[psutil.Process], timeout_s: float = 10.0) -> None:
    """SIGKILL them, and wait until they are gone."""
    left = list(processes)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout_s)


def end_all(timeout_s: float = 20.0) -> None:
    """End every descendant of this process, and reap it."""
    until = time.monotonic() + timeout_s
    me = psutil.Process()
    while (left := me.children(recursive=True)) and time.monotonic() < until:
        end(left, 1.0)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
