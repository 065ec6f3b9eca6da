"""What each does when its process hangs, and when one failing step is tried again and again: facts, not figures."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from bench.peers.install import ENV
from bench.peers.steppers import (
    CONFIG,
    HERE,
    TIMES,
    Clew,
    Kind,
    Running,
    folder_on_disk,
    running,
)

if TYPE_CHECKING:
    from bench.peers.options import Options

HEARTBEAT_S = 10  # clew's default
HANG = CONFIG + "[heartbeat]\ntimeout_s = {}\n"
FAIL_S = 120


def hangs(kinds: dict[str, Kind], options: Options) -> dict[str, float | None]:
    """Stop the process that does the steps (SIGSTOP); seconds until its workflow did the next one, or None."""
    timeout_s = 3 if options.quick else HEARTBEAT_S
    wanted = {way: kinds[way] for way in ("clew", "dbos", "langgraph") if way in kinds}
    if "clew" in kinds:
        wanted["clew"] = Kind("clew", "clew", lambda f, n: Clew(f, n, HANG.format(timeout_s)))
    with running(*((kind, 1) for kind in wanted.values())) as everyone:
        for one in everyone:
            one.steps(10)
            _worker(one).send_signal(signal.SIGSTOP)
            one.wires[0].ask(1)
        began = time.monotonic()
        return {
            way: _next_step_s(one, began, timeout_s + 5)
            for way, one in zip(wanted, everyone, strict=True)
        }


def _worker(one: Running) -> Any:
    program = one.program
    return program.agents()[0] if isinstance(program, Clew) else program.processes()[0]


def _next_step_s(one: Running, began: float, patience_s: float) -> float | None:
    """Wait for a new process of this workflow."""
    wire = one.accept_within(began + patience_s - time.monotonic())
    if wire is None:
        return None
    one.wires.append(wire)
    wire.ask(1, tell=True)
    return float(wire.hear("done")["at"] - began)


def failing(kinds: dict[str, Kind]) -> dict[str, dict[str, Any]]:
    """Try one failing step 500 times; what was carried out, and what stopped it."""
    facts: dict[str, dict[str, Any]] = {}
    for way in ("dbos", "langgraph"):
        if way in kinds:
            python = str(ENV / way / "bin" / "python")
            with folder_on_disk() as folder:
                command = [python, str(HERE / f"fails_{way}.py"), str(folder), str(TIMES)]
                done = subprocess.run(command, check=True, capture_output=True, timeout=FAIL_S)
            facts[way] = json.loads(done.stdout.splitlines()[-1])
    if "clew" in kinds:
        facts["clew"] = _failing_clew()
    return facts


def _failing_clew() -> dict[str, Any]:
    kind = Kind("clew", "clew", lambda f, n: Clew(f, n, script="fails_clew.py"))
    with running((kind, 1)) as (one,):
        tries = [said for said in one.wires[0].rest() if "tried" in said]
        (goal,) = one.program.asked("status")["goals"]  # type: ignore[attr-defined]
    answers = Counter(said["tried"] for said in tries)
    return {
        "tried": len(tries),
        "ran": answers.pop("ran", 0),
        "refused": dict(answers),
        "escalated_to": [said["escalated_to"] for said in tries if said["escalated_to"]],
        "goal": goal["status"],
    }
