"""SIGKILL of any process of a coding agent's goals, at drawn moments: SEED and ROUNDS (kills) from the environment."""

import contextlib
import itertools
import os
import random
import re
import signal
import time
from collections import Counter

import psutil
import pytest
from scripted_endpoint import Call, Say

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

SEED = int(os.environ.get("SEED") or random.randrange(1 << 20))
KILLS = int(os.environ.get("ROUNDS") or 50)
GOAL_DEADLINE_S = 1200
FAILING = Call("clew_run", {"cmd": "cat nothere"})
BURST = 4
"""Equal failing calls one after the other: the third and the fourth are refused, whatever dies between them."""

DONE = Call("clew_done", {"success": True, "summary": "counted"})
CONFIG = {
    "loops.crash_limit": 50,  # what dies with its worker is not its own fault here
    "loops.failure_limit": 50,
    "restart.max_restarts": 1000,
    "restart.backoff_max_s": 0.2,
}
GOAL = """\
---
agent: coder
checks:
  counted: test -s effects
---
# Count
## Numbers
- [ ] Count the first half
- [ ] Count the second half
"""


class Counting:
    """A model that writes numbers, each one once, and now and then tries what fails, or says that it is done."""

    def __init__(self, chance):
        self._chance = chance
        self._numbers = itertools.count(1)
        self._failing = self._bursts = 0

    def begin(self):
        """Begin another goal."""
        self._failing, self._bursts = 0, 2

    def __call__(self, seen):
        last = seen.results[-1] if seen.results else ""
        if "The goal is completed" in last:
            return Say("Everything is counted.")
        if "is over for you" in last:  # its worker is ending, or has: what follows is another one
            time.sleep(0.5)
        drawn = self._chance.random()
        if not self._failing and self._bursts and drawn < 0.15:
            self._failing, self._bursts = BURST, self._bursts - 1
        if self._failing:
            self._failing -= 1
            return FAILING
        if drawn > 0.9:
            return DONE
        pause_s = self._chance.choice((0, 0, 0.5))
        return Call("clew_run", {"cmd": f"echo {next(self._numbers)} >> effects; sleep {pause_s}"})


class Victims:
    """The processes of a goal, by what they are."""

    def __init__(self, daemon):
        self._found = {"daemon": [daemon.pid]}
        with contextlib.suppress(psutil.Error):
            for one in psutil.Process(daemon.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    self._sort(one)

    def _sort(self, one):
        words, above = one.cmdline(), one.parent()
        title = words[0] if words else ""
        role = next(
            (r for r in ("cli", "agent", "executor") if title.startswith(f"clew: {r} ")), ""
        )
        if role and above:
            self._found.setdefault("guard", []).append(above.pid)
        if role in ("agent", "executor"):
            self._found.setdefault(role, []).append(one.pid)
        elif any("relay.py" in word for word in words):
            self._found.setdefault("relay", []).append(one.pid)
        elif above and above.cmdline()[:1] and above.cmdline()[0].startswith("clew: cli "):
            self._found.setdefault("cli", []).append(one.pid)

    def draw(self, chance):
        """One of them, every role as likely as the others; before the CLI is at work seldom one."""
        if "relay" not in self._found and chance.random() < 0.95:
            return "", 0
        role = chance.choice(sorted(self._found))
        return role, chance.choice(self._found[role])


def strike(clew, chance):
    """Kill a process; return what it was, "" for none."""
    role, pid = Victims(clew.daemon).draw(chance)
    if role == "daemon":
        clew.kill()
        clew.start()
    elif role:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return role


def live_dangerously(clew, goal, chance, struck, kills):
    """Kill processes of a goal until it is over."""
    deadline = time.monotonic() + GOAL_DEADLINE_S
    while (status := clew.goal(goal)["status"]) != "completed":
        assert status in ("pending", "in_progress", "waiting"), clew.goal(goal)
        assert time.monotonic() < deadline, clew.goal(goal)
        time.sleep(chance.choice((chance.uniform(0, 0.5), chance.uniform(0, 3))))
        if struck.total() < kills and (role := strike(clew, chance)):
            struck[role] += 1


def number_of(entry):
    found = re.match(r"echo (\d+) ", entry["args"]["cmd"])
    return found and found[1]


def check(clew, goal):
    """Nothing twice, nothing lost, and what was refused once stays refused."""
    effects = Counter(clew.lines(goal, "effects"))
    assert [one for one, times in effects.items() if times > 1] == []
    history = clew.history(goal)
    carried_out = [e for e in history if e["result"] != "blocked"]
    recorded = Counter(n for n in map(number_of, carried_out) if n)
    assert [one for one, times in recorded.items() if times > 1] == []
    assert set(effects) <= set(recorded)
    succeeded = {n for e in history if e["result"] == "success" and (n := number_of(e))}
    assert succeeded <= set(effects)
    failures = 0
    for entry in history:
        if entry["args"]["cmd"] != FAILING.args["cmd"]:
            failures = 0  # the workspace has changed, or may have
        elif entry["result"] != "blocked":
            failures += 1
        assert failures <= 2, history


def test_processes_killed_at_random_cost_nothing_but_time(coder, cli):
    print(f"SEED={SEED} ROUNDS={KILLS} of {cli}")  # noqa: T201 - to be tried again
    chance, struck, goals = random.Random(SEED), Counter(), 0
    model = Counting(random.Random(SEED))
    clew = coder(model, **CONFIG).clew
    while struck.total() < KILLS:
        model.begin()
        goals += 1
        goal = clew.submit(GOAL, f"count-{goals}.md")
        live_dangerously(clew, goal, chance, struck, KILLS)
        check(clew, goal)
    print(f"{struck.total()} kills, {goals} goals: {dict(struck)}")  # noqa: T201 - as above
    assert clew.verified()
