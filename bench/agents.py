"""The agents of the benches, run by a daemon as `python agents.py MODE …` with nothing but the standard library.

`step MANY [ROUNDS]` proposes and reports as cheaply as a process can (MANY is a number, or seconds as `3s`). A round
begins when its file `go.N` is there (with no ROUNDS at once); the seconds of its steps go to `times.N`, the moment of
its start to `began.N`. `grow STEPS FILE` appends its steps to a file and waits to be killed. `act ROUNDS` uses clew's
tools, `write CALLS` one of them. `durable PORT` does durable steps as `bench.peers` asks for them.
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
    seq = verdict.split(b'"seq":', 1)[1].split(b",", 1)[0]
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
        while rounds and not Path(f"go.{number}").exists():
            time.sleep(0.005)
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


def one_act(client, tool, **args):
    began = time.perf_counter()
    answer = client.call("act", tool=tool, args=args)
    took_ms = (time.perf_counter() - began) * 1e3
    if answer["verdict"] != "allowed" or answer["outcome"]["result"] != "success":
        sys.exit(f"{tool} {args}: {answer}")
    print(f"{tool} {took_ms:.3f} {answer['outcome']['duration_s'] * 1e3:.1f}", flush=True)


def write(client, calls):
    client.call("hello", protocol=1, agent="write/1")
    for n in range(int(calls)):
        one_act(client, "write_file", path="w", content=f"{n}\n")
    client.call("finish", success=False, summary="measured")


def act(client, rounds):
    client.call("hello", protocol=1, agent="act/1")
    for n in range(int(rounds)):
        one_act(client, "write_file", path="written.txt", content=f"{n}\n")
        one_act(client, "run_cmd", cmd=["true", str(n)])
        one_act(client, "read_file", path="written.txt", start_line=1, max_lines=n + 1)
    print("the bench is over", flush=True)
    client.call("finish", success=False, summary="measured")


def next_step(hello, effects, line):
    """Return where to continue: an interrupted step is repeated only if it was not carried out."""
    state = hello["state"]
    task = state["goal"]["tasks"][state["current_task_idx"]]
    actions = task["subtasks"][state["current_subtask_idx"]]["actions"]
    if not actions:
        return 0
    last = int(actions[-1]["args"]["line"])
    if actions[-1]["result"] != "interrupted":
        return last + 1
    carried_out = effects.has(last)
    line.say({"interrupted": last, "carried_out": carried_out})
    return last + 1 if carried_out else last


def durable(client, port):
    from peers import steps_line

    hello = client.call("hello", protocol=1, agent="durable/1")
    line = steps_line.Line(int(port), hello["goal_id"])
    effects = steps_line.Effects(Path("steps.effects"))
    number = next_step(hello, effects, line)
    while True:
        line.turn(client.heartbeat)
        verdict = client.call("propose", **steps_line.action(number))
        if verdict["verdict"] != "allowed":
            sys.exit(f"step {number} was refused: {verdict}")
        effects.carry_out(number)
        client.call("outcome", seq=verdict["seq"], changed=True, **steps_line.result(number))
        line.done(number)
        number += 1


if __name__ == "__main__":
    mode, *arguments = sys.argv[1:]
    modes = {"step": step, "grow": grow, "act": act, "write": write, "durable": durable}
    modes[mode](Client(), *arguments)
