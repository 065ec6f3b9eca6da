"""A foreign agent for benches: it proposes and reports in a loop, and notes how long each step took.

Started by a daemon as a command agent; arguments: how many steps, the file in the workspace for their times.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any


class Daemon:
    """The other end of the inherited socket."""

    def __init__(self) -> None:
        self._file = socket.socket(fileno=int(os.environ["CLEW_FD"])).makefile("rwb")
        self._asked = 0

    def call(self, method: str, **params: Any) -> Any:
        """Ask, and give the answer's result; notifications between are read over."""
        self._asked += 1
        message = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        self._file.write((json.dumps(message) + "\n").encode())
        self._file.flush()
        while line := self._file.readline():
            answer = json.loads(line)
            if answer.get("id") == self._asked:
                return answer["result"]
        sys.exit(1)


def main() -> None:
    steps, times = int(sys.argv[1]), Path(sys.argv[2])
    daemon = Daemon()
    told = daemon.call("hello", protocol=1, agent="bench/1")
    with times.open("a", buffering=1) as out:
        out.write(f"hello {told['epoch']} {time.time():.6f}\n")
        for number in range(steps):
            began = time.perf_counter()
            args = {"path": "a.py", "line": f"{told['epoch']}.{number}"}
            verdict = daemon.call("propose", tool="edit", args=args)
            said = {"output": f"edited line {number}", "changed": True}
            daemon.call("outcome", seq=verdict["seq"], result="success", **said)
            out.write(f"step {number} {time.perf_counter() - began:.9f}\n")
        out.write("end\n")
    while True:  # until it is killed, with its daemon
        time.sleep(0.5)
        daemon.call("heartbeat")


if __name__ == "__main__":
    main()
