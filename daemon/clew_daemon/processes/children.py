"""The daemon's children and what is below them: ends are noticed at once, orphans of cells are killed and reaped.

The daemon is a subreaper, so that whatever a cell leaves behind becomes its child and can be ended. A pidfd reports
the end of a child; ECHILD means that the child was reaped elsewhere and its exit code is lost.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from clew_shared.exit_codes import SIGNAL_BASE

PR_SET_CHILD_SUBREAPER = 36
LOST_CODE = 255
POLL_S = 0.05
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
HAS_LISTS = Path("/proc/thread-self/children").exists()  # CONFIG_PROC_CHILDREN


def become_subreaper() -> None:
    """Let orphaned descendants become children of this process; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER was refused")


@dataclass(slots=True)
class Child:
    """A child process that is watched; the result of `ended` is its exit code, or 128 + signal."""

    pid: int
    ended: asyncio.Future[int]

    def kill(self, signum: int = signal.SIGKILL) -> None:
        if not self.ended.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)


async def ends_within(child: Child, seconds: float) -> None:
    """Wait for the end of a child, which SIGKILL brings about after that time."""
    await asyncio.wait([child.ended], timeout=seconds)
    if not child.ended.done():
        child.kill()
        await asyncio.wait([child.ended], timeout=seconds)


class Children:
    """The children that are watched; all others are orphans of cells."""

    def __init__(self) -> None:
        self._known: dict[int, Child] = {}
        self._starting = 0

    def watch(self, pid: int) -> Child:
        """Watch a child of this process, before anything else could reap it; return the known Child if called again."""
        if known := self._known.get(pid):
            return known
        loop = asyncio.get_running_loop()
        child = Child(pid, loop.create_future())
        self._known[pid] = child
        self._await(child)
        return child

    def _await(self, child: Child) -> None:
        """Have the event loop report a child's end; without a descriptor for that, poll."""
        loop = asyncio.get_running_loop()
        try:
            fd = os.pidfd_open(child.pid)
        except OSError:
            if not self._reaped(child):
                loop.call_later(POLL_S, self._await, child)
        else:
            loop.add_reader(fd, self._exited, fd, child)

    def _exited(self, fd: int, child: Child) -> None:
        asyncio.get_running_loop().remove_reader(fd)  # out of epoll before it is closed
        os.close(fd)
        self._reaped(child)

    def _reaped(self, child: Child) -> bool:
        """Reap a child and pass on its exit code; False while it runs."""
        try:
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            pid, code = child.pid, LOST_CODE
        if pid:
            self._known.pop(pid, None)
            if not child.ended.done():
                child.ended.set_result(code if code >= 0 else 128 - code)
        return bool(pid)

    @contextlib.contextmanager
    def starting_own(self) -> Iterator[None]:
        """Count no unknown child as an orphan meanwhile: it may be new, or a program that a thread has started."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1

    def sweep(self) -> None:
        """Reap and kill the orphans that cells have left."""
        for pid in () if self._starting else children(os.getpid()):
            with contextlib.suppress(ChildProcessError, ProcessLookupError):
                if pid not in self._known and os.waitpid(pid, os.WNOHANG)[0] == 0:
                    os.kill(pid, signal.SIGKILL)


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
    """Return the resident memory of whole process trees, in MiB; 0 if /proc cannot tell. psutil takes longer."""
    total = 0
    if not is_proc_ours():
        return 0.0
    for pid in (member for guard in guards for member in tree(guard)):
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return total * PAGE_BYTES / (1 << 20)


def tree(pid: int) -> list[int]:
    """Return a process and all its descendants; psutil would read every process of the machine to find them."""
    found = [pid]
    for member in found:  # grows while it is walked
        found += children(member)
    return found


def children(pid: int) -> list[int]:
    """Return the children of a process, of all its threads; one may be left out while another ends (proc(5))."""
    found: list[int] = []
    with contextlib.suppress(OSError, psutil.Error):
        if is_proc_ours() and not HAS_LISTS:
            return [child.pid for child in psutil.Process(pid).children()]
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
