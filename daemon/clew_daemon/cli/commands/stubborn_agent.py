"""An example of a worker, which imports nothing of clew: it repeats a failing command until clew refuses it twice."""

import json
import os
import socket
from typing import Any, TextIO

FAILING = {"cmd": "sh check.sh"}
RIGHT = "def change(paid, price):\n    return paid - price\n"
ATTEMPTS_MAX = 5


def call(daemon: TextIO, method: str, **params: Any) -> Any:
    """Send the daemon a request and return its result; notifications in between are ignored."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    print(json.dumps(request), file=daemon, flush=True)
    for line in daemon:
        answer = json.loads(line)
        if "error" in answer:
            raise SystemExit(f"{method}: {answer['error']['message']}")
        if "result" in answer:
            return answer["result"]
    raise SystemExit("the daemon is gone")


def main() -> None:
    """Claim to be done, loop until the command is refused, try it again, and then correct the file."""
    connection = socket.socket(fileno=int(os.environ["CLEW_FD"]))
    daemon = connection.makefile("rw", encoding="utf-8", newline="\n")
    call(daemon, "hello", protocol=1, agent="stubborn/1")
    call(daemon, "finish", success=True, summary="It works.")  # the check says that it does not
    for _ in range(ATTEMPTS_MAX):
        if call(daemon, "act", tool="run_cmd", args=FAILING)["verdict"] == "blocked":
            break
    call(daemon, "act", tool="wait", args={"seconds": 1, "why": "sulking"})
    call(daemon, "act", tool="run_cmd", args=FAILING)  # still refused, also after a restart
    call(daemon, "act", tool="write_file", args={"path": "change.py", "content": RIGHT})
    call(daemon, "complete_subtask", success=True)
    call(daemon, "finish", success=True, summary="The two numbers were the wrong way round.")


if __name__ == "__main__":
    main()
