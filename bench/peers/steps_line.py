"""How a program whose steps are measured hears from the bench and answers: a connection for each workflow.

Run by the peers' own interpreters and by an agent of clew, so: the standard library alone. The bench says how many
steps it wants (`{"steps": 20}`), the program does them and says how long each took. With `"tell": true` each step is
told when it is done. When the connection ends, the program ends.
"""

from __future__ import annotations

import json
import os
import select
import socket
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Line:
    """One workflow's connection to the bench."""

    def __init__(self, port: int, workflow: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("r")
        self._left, self._tell = 0, False
        self._took: list[float] = []
        self._began = 0.0
        self.say({"workflow": workflow})

    def say(self, what: dict[str, Any]) -> None:
        """Tell the bench something; ends the process where nobody listens any more."""
        try:
            self._socket.sendall((json.dumps(what) + "\n").encode())
        except OSError:
            os._exit(0)

    def turn(self, idle: Callable[[], None] | None = None) -> None:
        """Wait until a step is wanted, and start its clock; `idle` is called every third second of waiting."""
        while self._left == 0:
            self._hear(idle)
        self._began = time.monotonic()

    def done(self, step: int) -> None:
        """The step is durable, and the next one could begin."""
        now = time.monotonic()
        self._took.append(now - self._began)
        self._left -= 1
        if self._tell:
            self.say({"done": step, "at": now})
        if self._left == 0:
            self.say({"took_s": self._took})
            self._took = []

    def _hear(self, idle: Callable[[], None] | None) -> None:
        while idle and not select.select([self._socket], [], [], 3.0)[0]:
            idle()
        try:
            order = json.loads(self._file.readline())
        except (OSError, ValueError):
            os._exit(0)
        self._left, self._tell = order["steps"], order.get("tell", False)


class Effects:
    """What the steps of a workflow carried out: a file to which each appends its number."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def carry_out(self, step: int) -> None:
        os.write(self._file, b"%d\n" % step)

    def has(self, step: int) -> bool:
        """Was it carried out before? Reads the file's end alone."""
        with self._path.open("rb") as file:
            file.seek(max(0, self._path.stat().st_size - 200))
            return str(step).encode() in file.read().split()


def action(step: int) -> dict[str, Any]:
    """What is decided in a step."""
    return {"tool": "edit", "args": {"path": "a.py", "line": step}}


def result(step: int) -> dict[str, Any]:
    """What comes of it."""
    return {"result": "success", "output": f"edited line {step}"}
