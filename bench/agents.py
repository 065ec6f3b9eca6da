"""The agents of the benches, run by a daemon as `python agents.py MODE …` with nothing but the standard library.

`step MANY [ROUNDS]` proposes and reports as cheaply as a process can (MANY is a number, or seconds as `3s`). A round
begins when its file `go.N` is there (with no ROUNDS at once); the seconds of its steps go to `times.N`, the moment of
its start to `began.N`. `grow STEPS FILE` appends its steps to a file and waits to be killed.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path


class Client:
    """The agent's connection to its daemon; notifications are skipped."""

    def __init__(self):
        self._socket = socket.socket(fileno=int(os.environ["CLEW_FD"]))
        self._id, self._rest = 0, b""

    def ask(self, method, params):
        """Send a request and return the line of its answer."""
        self._id += 1
        head = b'{"jsonrpc":"2.0","id":%d,' % self._id
        self._socket.sendall(head + b'"method":"%s","params":%s}\n' % (method, params))
        while True:
            while b"\n" in self._rest:
                line, self._rest = self._rest.split(b"\n", 1)
                if line.startswith(head):
                    return line
            data = self._socket.recv(1 << 16)
            if not data:
                sys.exit(0)
            self._rest += data

    def call(self, method, **params):
        return json.loads(self.ask(method.encode(), json.dumps(params).encode()))["result"]

    def heartbeat(self):
        self._socket.sendall(b'{"jsonrpc":"2.0","method":"heartbeat"}\n')


def one_step(client, name):
    """Propose and report; return the seconds until both were answered."""
    proposal = b'{"tool":"edit","args":{"path":"a.py","text":"%s"}}' % name
    began = time.perf_counter()
    verdict = client.ask(b"propose", proposal)
    if b'"verdict":"allowed"' not in verdict:
        sys.exit(f"refused: {verdict!r}")
    seq = verdict.split(b'"seq":', 1)[1].split(b",", 1)[0].rstrip(b"}")
    report = b'{"seq":%s,"result":"success","output":"done %s","changed":true}' % (seq, name)
    client.ask(b"outcome", report)
    return time.perf_counter() - began


def many_steps(client, first, many):
    if not many.endswith("s"):
        return [one_step(client, b"step-%05d" % n) for n in range(first, first + int(many))]
    until, times = time.monotonic() + float(many[:-1]), []
    while time.monotonic() < until:
        times.append(one_step(client, b"step-%05d" % (first + len(times))))
    return times


def step(client, many, rounds="0"):
    client.call("hello", protocol=1, agent="step/1")
    rounds, done = int(rounds), 0
    if rounds:
        one_step(client, b"the first")  # it waits for the executor's first look at the workspace
    Path("here").touch()
    for number in range(max(1, rounds)):
        waits = 0
        while rounds and not Path(f"go.{number}").exists():
            time.sleep(0.02)
            waits += 1
            if waits % 100 == 0:
                client.heartbeat()
        began = time.monotonic()
        times = many_steps(client, done, many)
        Path(f"began.{number}").write_text(f"{began:.9f}")
        done += len(times)
        part = Path(f"times.{number}.part")
        part.write_text("".join(f"{took:.9f}\n" for took in times))
        part.rename(f"times.{number}")
    client.call("finish", success=False, summary="the bench is over")


def grow(client, steps, file):
    epoch = client.call("hello", protocol=1, agent="grow/1")["epoch"]
    with Path(file).open("a", buffering=1) as out:
        out.write(f"hello {epoch} {time.time():.6f}\n")
        for n in range(int(steps)):
            took_s = one_step(client, b"%d.%d" % (epoch, n))
            out.write(f"step {n} {took_s:.9f}\n")
        out.write("end\n")
    while True:
        time.sleep(0.5)
        client.call("heartbeat")


if __name__ == "__main__":
    mode, *arguments = sys.argv[1:]
    modes = {"step": step, "grow": grow}
    modes[mode](Client(), *arguments)
