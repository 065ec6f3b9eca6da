"""Durable steps under clew: an agent with its own tools that proposes, carries out and reports. Started by the daemon.

steps_clew.py PORT. After a crash it goes on from what `hello` says was recorded; a step that was under way is told
to it as `interrupted`: it looks whether it was carried out, and does it only where it was not.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from steps_line import Effects, Line, action, result


class Daemon:
    """The daemon, over the socket that the agent was started with."""

    def __init__(self) -> None:
        self._file = socket.socket(fileno=int(os.environ["CLEW_FD"])).makefile("rwb")
        self._calls = 0

    def call(self, method: str, **params: Any) -> Any:
        self._calls += 1
        self._send({"jsonrpc": "2.0", "id": self._calls, "method": method, "params": params})
        while True:
            answer = json.loads(self._file.readline())
            if answer.get("id") == self._calls:
                return answer["result"]

    def heartbeat(self) -> None:
        self._send({"jsonrpc": "2.0", "method": "heartbeat"})

    def _send(self, message: dict[str, Any]) -> None:
        self._file.write(json.dumps(message).encode() + b"\n")
        self._file.flush()


def last(hello: dict[str, Any]) -> dict[str, Any] | None:
    """The last action on record, or None at the beginning."""
    state = hello["state"]
    task = state["goal"]["tasks"][state["current_task_idx"]]
    actions = task["subtasks"][state["current_subtask_idx"]]["actions"]
    return actions[-1] if actions else None


def next_step(hello: dict[str, Any], effects: Effects, line: Line) -> int:
    """Where to go on."""
    action = last(hello)
    if action is None:
        return 0
    step = int(action["args"]["line"])
    if action["result"] != "interrupted":
        return step + 1
    carried_out = effects.has(step)
    line.say({"interrupted": step, "carried_out": carried_out})
    return step + 1 if carried_out else step


def main() -> None:
    daemon = Daemon()
    hello = daemon.call("hello", protocol=1, agent="bench/1")
    line = Line(int(sys.argv[1]), hello["goal_id"])
    effects = Effects(Path("steps.effects"))
    step = next_step(hello, effects, line)
    while True:
        line.turn(daemon.heartbeat)
        decided = action(step)
        verdict = daemon.call("propose", **decided)
        if verdict["verdict"] != "allowed":
            sys.exit(f"step {step} was refused: {verdict}")
        effects.carry_out(step)
        daemon.call("outcome", seq=verdict["seq"], changed=True, **result(step))
        line.done(step)
        step += 1


if __name__ == "__main__":
    main()
