"""The agent of bench/digest.py: asks for actions in turns, and prints what each took, in ms.

It runs in clew's sandbox with nothing but the standard library, and can write no file: the log has what it prints.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from itertools import count
from typing import Any

stream = socket.socket(fileno=int(os.environ["CLEW_FD"])).makefile("rwb")
numbers = count(1)


def call(method: str, **params: Any) -> dict[str, Any]:
    asked = next(numbers)
    message = {"jsonrpc": "2.0", "id": asked, "method": method, "params": params}
    stream.write(json.dumps(message).encode() + b"\n")
    stream.flush()
    while True:
        answer = json.loads(stream.readline())
        if answer.get("id") == asked:
            return answer["result"]


def act(tool: str, **args: Any) -> None:
    began = time.perf_counter()
    answer = call("act", tool=tool, args=args)
    took_ms = (time.perf_counter() - began) * 1e3
    if answer["verdict"] != "allowed" or answer["outcome"]["result"] != "success":
        raise SystemExit(f"{tool} {args}: {answer}")
    print(f"{tool} {took_ms:.3f} {answer['outcome']['duration_s'] * 1e3:.1f}", flush=True)


call("hello", protocol=1, agent="bench/1")
for number in range(int(sys.argv[1])):
    act("write_file", path="written.txt", content=f"{number}\n")
    act("run_cmd", cmd=["true", str(number)])
    act("read_file", path="written.txt", start_line=1, max_lines=number + 1)
print("the bench is over", flush=True)
call("finish", success=False, summary="measured")
