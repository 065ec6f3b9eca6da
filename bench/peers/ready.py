"""The pipe on which children report that they are ready, the same for all supervisors.

A line is `NAME PID SECONDS`: seconds of the monotonic clock taken by the child, so that the moment of reading does not
matter.
"""

import os
import select
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

REPORT_S = 0.01


class Ready(NamedTuple):
    """A child's report: its pid as it sees it, and the monotonic time."""

    pid: int
    at_s: float


class ReadyPipe:
    """The last report of each child."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        path.chmod(0o666)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # open for writing, too: it never ends
        self._rest = b""
        self.last: dict[str, Ready] = {}
        self.reporter: Callable[[], None] | None = None  # called while the bench waits

    def close(self) -> None:
        os.close(self._fd)

    def report(self, name: str, pid: int, at_s: float) -> None:
        """Report for a child that cannot."""
        os.write(self._fd, f"{name} {pid} {at_s:.6f}\n".encode())

    def wait(self, names: Collection[str], since_s: float, timeout_s: float) -> dict[str, Ready]:
        """Wait until all these were ready after `since_s`; TimeoutError."""
        until = time.monotonic() + timeout_s
        while missing := [name for name in names if self._at(name) <= since_s]:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{len(missing)} of {len(names)} are not up: {missing[:3]}")
            self._read(left)
        return {name: self.last[name] for name in names}

    def when(self, name: str) -> float:
        """Return when a child was last ready, as of now; 0 if it never was."""
        while self._read(0):
            pass
        return self._at(name)

    def _at(self, name: str) -> float:
        return self.last[name].at_s if name in self.last else 0.0

    def _read(self, timeout_s: float) -> bool:
        if self.reporter:
            self.reporter()
            timeout_s = min(timeout_s, REPORT_S)
        if not select.select([self._fd], [], [], timeout_s)[0]:
            return False
        *lines, self._rest = (self._rest + os.read(self._fd, 65536)).split(b"\n")
        for line in lines:
            name, pid, at_s = line.decode().split()
            self.last[name] = Ready(int(pid), float(at_s))
        return True
