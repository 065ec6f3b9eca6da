"""Which processes a process has started, directly and indirectly, and how they are ended."""

import contextlib
import os
import signal
import time
from pathlib import Path

_TICK_S = 0.001


def descendants(root: int) -> list[int]:
    """List every process beneath `root`, from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):  # gone meanwhile
                stat = (entry / "stat").read_text(errors="replace")
                parent = int(stat.rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    todo = [root]
    while todo:
        below = children.pop(todo.pop(), [])
        found += below
        todo += below
    return found


def end_descendants(within_s: float, *, alone: bool = False) -> None:
    """End and collect every descendant of this process, which must be a subreaper; give up after `within_s` seconds.

    `alone` says that its PID namespace has no other processes but the init: one signal then reaches all of them at
    once, also a process that forks all the time (kill(2): pid -1). Otherwise they are stopped first, so that none forks
    while the others are being ended.
    """
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if alone:
            _signal(-1, signal.SIGKILL)
        else:
            for signum in (signal.SIGSTOP, signal.SIGKILL):
                for pid in descendants(os.getpid()):
                    _signal(pid, signum)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_TICK_S)


def _signal(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signum)
