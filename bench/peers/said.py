"""The pipe on which children say that they are ready, and when: the same for all supervisors.

A line is `NAME PID SECONDS`: seconds of the monotonic clock, taken by the child itself, so that it does not matter when
the line is read. Nobody polls: the pipe is waited for.
"""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Ready:
    """A child that said so: its pid as it sees it, and the monotonic time."""

    pid: int
    at_s: float


class Said:
    """What was said so far: the last word of each child."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        path.chmod(0o666)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # writing too: it never ends
        self._rest = b""
        self.last: dict[str, Ready] = {}

    def close(self) -> None:
        os.close(self._fd)

    def say(self, name: str, pid: int, at_s: float) -> None:
        """Say it for a child that cannot."""
        os.write(self._fd, f"{name} {pid} {at_s:.6f}\n".encode())

    def wait(self, names: Collection[str], since_s: float, timeout_s: float) -> dict[str, Ready]:
        """Wait until all these said that they were ready after `since_s`; raises TimeoutError."""
        until = time.monotonic() + timeout_s
        while missing := [name for name in names if self._at(name) <= since_s]:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{len(missing)} of {len(names)} are not up: {missing[:3]}")
            self._read(left)
        return {name: self.last[name] for name in names}

    def when(self, name: str) -> float:
        """Tell when a child said last that it was ready, as of now; 0 where it never did."""
        while self._read(0):
            pass
        return self._at(name)

    def _at(self, name: str) -> float:
        found = self.last.get(name)
        return found.at_s if found else 0.0

    def _read(self, timeout_s: float) -> bool:
        """Take in what is there, or comes in this time."""
        if not select.select([self._fd], [], [], timeout_s)[0]:
            return False
        *lines, self._rest = (self._rest + os.read(self._fd, 65536)).split(b"\n")
        for line in lines:
            name, pid, at_s = line.decode().split()
            self.last[name] = Ready(int(pid), float(at_s))
        return True
