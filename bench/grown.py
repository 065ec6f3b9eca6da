"""Homes with a long record: one goal with many actions, or many goals that are over.

Made through the real goal store and core, many events to a commit, so that minutes of work are recorded in seconds;
invented, in the proportions of an agent that edits, reads and tests.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from clew_daemon.ledger.ledger import Ledger
from clew_daemon.record.goals import GoalStore
from clew_shared.config.settings import load
from clew_shared.core.answers import ActionReport
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record.codec import STATE_VERSION
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec

GOAL = "grow-7f3a"
CONFIG = "[limits]\nmax_actions = 100000000\n"
BATCH = 250  # actions to a commit
FILES = 200
_EDITS_BEFORE = (1, 1, 1, 2, 2, 3, 3, 3, 4, 4)
"""The world of each of ten actions: every edit leads to another one."""


def actions_of(count: int, first: int = 0) -> Iterator[tuple[str, dict[str, Any], ActionReport]]:
    """Yield edits (each another one), reads, and tests whose output changes: 4 to 3 to 3."""
    for n in range(first, first + count):
        path, world = f"src/part_{n % FILES:03}.py", f"{n - n % 10 + _EDITS_BEFORE[n % 10]:064x}"
        if n % 10 in (0, 3, 5, 8):
            args, text = {"path": path, "old": f"x = {n}", "new": f"x = {n + 1}"}, f"edited {path}"
            yield "edit_file", args, ActionReport("success", f"{text}: x = {n + 1}", True, world)
        elif n % 10 in (1, 4, 7):
            text = f"def part_{n}():\n    return {n}\n" * 20
            args = {"path": path, "start_line": n}
            yield "read_file", args, ActionReport("success", text, False, world)
        else:
            output = f"{n} passed, {n % 7} failed\n" + "E   assert x == y\n" * 10
            yield "run_cmd", {"cmd": "pytest -q"}, ActionReport("failure", output, False, world)


@asynccontextmanager
async def opened(state: Path) -> AsyncIterator[GoalStore]:
    os.makedirs(state, exist_ok=True)  # noqa: PTH103 - nothing else runs in this loop
    ledger = Ledger.open(state / "ledger.db")
    goals = GoalStore(ledger, load(CONFIG, {}, "config.toml").settings)
    goals.listeners.clear()
    yield goals
    if not await ledger.sync(600):
        raise TimeoutError("the ledger was not written within ten minutes")
    await ledger.close(60)


async def accept(goals: GoalStore, goal: str, workspace: Path, **more: Any) -> Core:
    tasks = more.pop("tasks", ())
    spec = Spec(description=f"Do {goal}", workspace=str(workspace), **more)
    event = ev.GoalAccepted(at=time.time(), goal_id=goal, spec=spec, tasks=tasks, identity=(goal,))
    await goals.accept(event, b"# Do it\n")
    return goals.cores[goal]


def start(core: Core) -> None:
    """Record that a worker started; its process is none of this machine."""
    now = time.time()
    core.emit(ev.GoalStarted(at=now))
    core.emit(ev.WorkerStarted(at=now, epoch=1, agent="bench", pid=2**22 - 1))
    core.start(now)


def work(core: Core, count: int, first: int = 0) -> None:
    for tool, args, report in actions_of(count, first):
        verdict = core.propose(tool, args, time.time())
        if verdict.allowed:
            core.outcome(verdict.seq, report, time.time())


async def live_goal(state: Path, actions: int, workspace: Path) -> None:
    """Record a goal in progress with its actions in one subtask; its worker died with its daemon."""
    async with opened(state) as goals:
        core = await accept(goals, GOAL, workspace, agent="bench")
        with goals.entering(core):
            start(core)
        for first in range(0, actions, BATCH):
            with goals.entering(core):
                work(core, min(BATCH, actions - first), first)
            await goals.commit(core)
            if core.state.goal.status != "in_progress":
                raise AssertionError(f"the goal is {core.state.goal.status}: {core.state.reason}")


async def idle_goal(state: Path, workspace: Path) -> None:
    """Record one goal, `one`, that was only accepted."""
    async with opened(state) as goals:
        await accept(goals, "one", workspace)


async def ended_goals(state: Path, count: int, workspaces: Path, actions: int = 20) -> None:
    """Record goals that were completed, reported and reviewed, in ten subtasks each."""
    async with opened(state) as goals:
        for number in range(count):
            await _ended_goal(goals, f"over-{number:05}", workspaces, actions)
            if number % 100 == 99:
                await asyncio.sleep(0)
        for goal, core in goals.cores.items():
            await goals.commit(core)
            goals.evict(goal)
        while len(goals.ledger.snapshots(STATE_VERSION)) < len(goals.cores):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)


async def _ended_goal(goals: GoalStore, goal: str, workspaces: Path, actions: int) -> None:
    parts = tuple(PlannedSubtask(description=f"Part {n} of it") for n in range(10))
    tasks = (PlannedTask(description="All of it", subtasks=parts),)
    core = await accept(goals, goal, workspaces / goal, notes="as agreed\n" * 20, tasks=tasks)
    with goals.entering(core):
        start(core)
        for _ in parts:
            work(core, actions // len(parts))
            core.complete_subtask(time.time(), success=True, failure="", summary="done")
            core.advance(time.time())
        now = time.time()
        core.emit(ev.GoalEnded(at=now, status="completed", summary="done"))
        core.emit(ev.WorkerExited(at=now, epoch=1, reason="finished"))
        core.emit(ev.Reported(at=now))
        core.emit(ev.Reviewed(at=now, of=core.state.rested_seq))
