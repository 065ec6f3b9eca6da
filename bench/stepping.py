"""The agent of the step benches: proposes and reports as cheaply as a process can, with prepared bytes.

`python stepping.py STEPS [ROUNDS]`, with the daemon (or a bench) at the other end of CLEW_FD; STEPS is a number, or
seconds as `3s`. Each step's seconds go to `times.N` in its folder, one file a round, and the moment when they began
(CLOCK_MONOTONIC) to `began.N`. A round begins when there is a file `go.N`, so that a bench can measure other things in
between; ROUNDS 0 is one round that begins at once. What a step proposes names it (`step-00017`), and so does what it
reports.
"""

import os
import socket
import sys
import time
from pathlib import Path


class Line:
    """A connection that sends a request and waits for its answer."""

    def __init__(self) -> None:
        self._socket = socket.socket(fileno=int(os.environ["CLEW_FD"]))
        self._id = 0

    def ask(self, method: bytes, params: bytes) -> bytes:
        """Give the answer's line; what else the daemon says in between is read over."""
        self._id += 1
        head = b'{"jsonrpc":"2.0","id":%d,' % self._id
        self._socket.sendall(head + b'"method":"%s","params":%s}\n' % (method, params))
        came = b""
        while True:
            data = self._socket.recv(1 << 16)
            if not data:
                sys.exit(0)
            came += data
            while b"\n" in came:
                line, came = came.split(b"\n", 1)
                if line.startswith(head):
                    return line


def step(line: Line, name: bytes) -> float:
    """One step: propose, hear the verdict, report, hear that it is recorded; its seconds."""
    proposal = b'{"tool":"edit","args":{"path":"a.py","text":"%s"}}' % name
    began = time.perf_counter()
    verdict = line.ask(b"propose", proposal)
    if b'"verdict":"allowed"' not in verdict:
        sys.exit(f"refused: {verdict!r}")
    seq = verdict.split(b'"seq":', 1)[1].split(b",", 1)[0]
    report = b'{"seq":%s,"result":"success","output":"done %s","changed":true}' % (seq, name)
    line.ask(b"outcome", report)
    return time.perf_counter() - began


def steps(line: Line, first: int, many: str) -> list[float]:
    """So many steps, or steps for so long."""
    if not many.endswith("s"):
        return [step(line, b"step-%05d" % one) for one in range(first, first + int(many))]
    until, times = time.monotonic() + float(many[:-1]), []
    while time.monotonic() < until:
        times.append(step(line, b"step-%05d" % (first + len(times))))
    return times


def main() -> None:
    many, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    line, made = Line(), 0
    line.ask(b"hello", b'{"protocol":1,"agent":"stepping/1"}')
    if rounds:
        step(line, b"the first")  # it waits for the executor's first look at the workspace
    Path("here").touch()
    for number in range(max(1, rounds)):
        while rounds and not Path(f"go.{number}").exists():
            time.sleep(0.005)
        began = time.monotonic()
        times = steps(line, made, many)
        Path(f"began.{number}").write_text(f"{began:.9f}")
        made += len(times)
        part = Path(f"times.{number}.part")
        part.write_text("".join(f"{one:.9f}\n" for one in times))
        part.rename(f"times.{number}")
    line.ask(b"finish", b'{"success":false,"summary":"the bench is over"}')


if __name__ == "__main__":
    main()
