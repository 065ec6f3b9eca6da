"""An agent for `clew demo` that loops: it says that it is done, and repeats a failing command until clew refuses that.

It speaks the worker protocol on CLEW_FD (docs/protocol.md) and imports nothing of clew, so it can serve as an
example. After the first refusal it tries the same command once more, is refused again, even if it was killed and
restarted in between, and only then corrects the fault.
"""

import json
import os
import socket
from typing import Any

FAILING = {"cmd": "sh check.sh"}
RIGHT = "def change(paid, price):\n    return paid - price\n"
ATTEMPTS_MAX = 5


class DaemonConnection:
    """The connection to the daemon."""

    def __init__(self, fd: int) -> None:
        self._stream = socket.socket(fileno=fd).makefile("rw", encoding="utf-8", newline="\n")
        self._last = 0

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its result; notifications in between are ignored."""
        self._last += 1
        request = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        self._stream.write(json.dumps(request) + "\n")
        self._stream.flush()
        for line in self._stream:
            answer = json.loads(line)
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
        raise SystemExit("the daemon is gone")


def main() -> None:
    """Claim to be done, loop until the command is refused, try it again, and then correct the file."""
    daemon = DaemonConnection(int(os.environ["CLEW_FD"]))
    daemon.call("hello", protocol=1, agent="stubborn/1")
    daemon.call("finish", success=True, summary="It works.")  # the check says that it does not
    for _ in range(ATTEMPTS_MAX):
        if daemon.call("act", tool="run_cmd", args=FAILING)["verdict"] == "blocked":
            break
    daemon.call("act", tool="wait", args={"seconds": 1, "why": "sulking"})
    daemon.call("act", tool="run_cmd", args=FAILING)  # still refused, also after a restart
    daemon.call("act", tool="write_file", args={"path": "change.py", "content": RIGHT})
    daemon.call("complete_subtask", success=True)
    daemon.call("finish", success=True, summary="The two numbers were the wrong way round.")


if __name__ == "__main__":
    main()
