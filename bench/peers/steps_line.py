"""The connection of a program whose steps are measured to the bench, one for each workflow.

Run by the peers' own interpreters and by an agent of clew, so: the standard library alone. The bench orders steps
(`{"steps": 20}`), the program does them and answers how long each took; with `"tell": true` it reports each step, too.
When the connection ends, the program ends.
"""

import json
import os
import select
import socket
import time


class Line:
    """One workflow's connection to the bench."""

    def __init__(self, port, workflow):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("r")
        self._left, self._tell, self._took, self._began = 0, False, [], 0.0
        self.say({"workflow": workflow})

    def say(self, what):
        """Send a message; end the process if the bench has ended."""
        try:
            self._socket.sendall((json.dumps(what) + "\n").encode())
        except OSError:
            os._exit(0)

    def turn(self, idle=None):
        """Wait until a step is wanted, and start its clock; call `idle` every third second of waiting."""
        while self._left == 0:
            while idle and not select.select([self._socket], [], [], 3.0)[0]:
                idle()
            try:
                order = json.loads(self._file.readline())
            except (OSError, ValueError):
                os._exit(0)
            self._left, self._tell = order["steps"], order.get("tell", False)
        self._began = time.monotonic()

    def done(self, step):
        """The step is durable, and the next one could begin."""
        now = time.monotonic()
        self._took.append(now - self._began)
        self._left -= 1
        if self._tell:
            self.say({"done": step, "at": now})
        if self._left == 0:
            self.say({"took_s": self._took})
            self._took = []


class Effects:
    """What the steps of a workflow carried out: a file to which each appends its number."""

    def __init__(self, path):
        self._path = path
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def carry_out(self, step):
        os.write(self._file, b"%d\n" % step)

    def has(self, step):
        """Return whether it was carried out, by the end of the file."""
        with self._path.open("rb") as file:
            file.seek(max(0, self._path.stat().st_size - 200))
            return str(step).encode() in file.read().split()


def action(step):
    """Return what is decided in a step."""
    return {"tool": "edit", "args": {"path": "a.py", "line": step}}


def result(step):
    """Return what comes of it."""
    return {"result": "success", "output": f"edited line {step}"}
