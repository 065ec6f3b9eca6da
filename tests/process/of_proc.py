"""Processes as /proc shows them, where any of them may end while it is looked at."""

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from forge import Process


@contextlib.contextmanager
def paused(process: subprocess.Popen | Process) -> Iterator[None]:
    """Stop a process for as long as several steps take that it must see as one."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def become_subreaper(*, on: bool = True) -> None:
    ctypes.CDLL(None).prctl(36, int(on), 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def of_process(pid: int | str, name: str) -> bytes:
    """What a file of a process in /proc says; nothing where the process is gone, or goes meanwhile."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


def children(pid: int | str = "self") -> list[int]:
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, of_process(pid, f"task/{task.name}/children").split())
    return found


def nursery(daemon: int) -> int:
    """The nursery of a daemon, 0 for none."""
    return next((pid for pid in children(daemon) if title(pid) == "clew: nursery"), 0)


def title(pid: int) -> str:
    """What `ps` shows of a process."""
    return of_process(pid, "cmdline").replace(bytes(1), b" ").decode().strip()


def alive(pid: int) -> bool:
    """It runs; a zombie does not."""
    state = of_process(pid, "stat").rpartition(b")")[2].split()[:1]
    return state not in ([], [b"Z"])


def running(marker: str) -> list[int]:
    """Processes with that word among their arguments."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if marker.encode() in of_process(pid, "cmdline").split(b"\0")]
