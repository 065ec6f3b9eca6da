"""Homes whose ledger has grown: one goal with many recorded actions, or many goals that are over.

Made through the real book and core, many events to a commit, so that minutes of work are recorded in seconds. What
is in them is made up, in the proportions of an agent that edits, reads and tests.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from clew_daemon.record.goals import GoalStore
from clew_shared.config.settings import load
from clew_shared.core.answers import ActionReport
from clew_shared.ledger import Ledger
from clew_shared.record import events as ev
from clew_shared.record.snapshot import STATE_VERSION
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clew_shared.core.core import Core

GOAL = "grow-7f3a"
CONFIG = "[limits]\nmax_actions = 100000000\n"
BATCH = 250  # actions to a commit
FILES = 200
_EDITS_BEFORE = (1, 1, 1, 2, 2, 3, 3, 3, 4, 4)
"""Which world of its ten an action leads to, or is done in: each edit makes another."""


def deeds(count: int, first: int = 0) -> Iterator[tuple[str, dict[str, Any], ActionReport]]:
    """Edits (each another one), looks into files, and tests whose output moves: 4 to 3 to 3."""
    for n in range(first, first + count):
        path, world = f"src/part_{n % FILES:03}.py", f"{n - n % 10 + _EDITS_BEFORE[n % 10]:064x}"
        if n % 10 in (0, 3, 5, 8):
            args = {"path": path, "old": f"x = {n}", "new": f"x = {n + 1}"}
            yield (
                "edit_file",
                args,
                ActionReport("success", f"edited {path}: x = {n + 1}", True, world),
            )
        elif n % 10 in (1, 4, 7):
            text = f"def part_{n}():\n    return {n}\n" * 20
            args = {"path": path, "start_line": n}
            yield "read_file", args, ActionReport("success", text, False, world)
        else:
            said = f"{n} passed, {n % 7} failed\n" + "E   assert x == y\n" * 10
            yield "run_cmd", {"cmd": "pytest -q"}, ActionReport("failure", said, False, world)


async def live_goal(state: Path, actions: int, workspace: Path, agent: str = "bench") -> None:
    """Record a goal in progress with so many actions in its one subtask, and a worker that died with its daemon."""
    ledger, book = _opened(state)
    now = time.time()
    spec = Spec(description="Grow", workspace=str(workspace), agent=agent)
    await book.accept(
        ev.GoalAccepted(at=now, goal_id=GOAL, spec=spec, identity=("grow",)), b"# Grow\n"
    )
    core = book.cores[GOAL]
    with book.entering(core):
        core.emit(ev.GoalStarted(at=now))
        core.emit(ev.WorkerStarted(at=now, epoch=1, agent=agent, pid=2**22 - 1))
        core.start(now)
    for first in range(0, actions, BATCH):
        with book.entering(core):
            for tool, args, report in deeds(min(BATCH, actions - first), first):
                verdict = core.propose(tool, args, time.time())
                if verdict.allowed:
                    core.outcome(verdict.seq, report, time.time())
        await book.commit(core)
        if core.state.goal.status != "in_progress":
            raise AssertionError(f"the goal is {core.state.goal.status}: {core.state.reason}")
    await _closed(ledger)


async def idle_goal(state: Path, workspace: Path) -> None:
    """Record one goal, `one`, that was only accepted."""
    ledger, book = _opened(state)
    spec = Spec(description="One", workspace=str(workspace))
    event = ev.GoalAccepted(at=time.time(), goal_id="one", spec=spec, identity=("one",))
    await book.accept(event, b"# One\n")
    await _closed(ledger)


async def ended_goals(state: Path, count: int, workspaces: Path, actions: int = 20) -> None:
    """Record so many goals that were completed, reported and reviewed, in ten subtasks each."""
    ledger, book = _opened(state)
    for number in range(count):
        await _ended(book, f"over-{number:05}", workspaces, actions)
        if number % 100 == 99:
            await asyncio.sleep(0)
    for goal, core in book.cores.items():
        await book.commit(core)
        book.evict(goal)
    while len(ledger.snapshots(STATE_VERSION)) < len(book.cores):  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.01)
    await _closed(ledger)


async def _ended(book: GoalStore, goal: str, workspaces: Path, actions: int) -> None:
    now = time.time()
    parts = tuple(PlannedSubtask(description=f"Part {n} of it") for n in range(10))
    tasks = (PlannedTask(description="All of it", subtasks=parts),)
    spec = Spec(
        description=f"Do {goal}", notes="as agreed\n" * 20, workspace=str(workspaces / goal)
    )
    accepted = ev.GoalAccepted(at=now, goal_id=goal, spec=spec, tasks=tasks, identity=(goal,))
    await book.accept(accepted, b"# Do it\n")
    core = book.cores[goal]
    with book.entering(core):
        core.emit(ev.GoalStarted(at=now))
        core.emit(ev.WorkerStarted(at=now, epoch=1, agent="bench", pid=2**22 - 1))
        core.start(now)
        for _ in parts:
            _work(core, actions // len(parts))
            core.complete_subtask(time.time(), success=True, failure="", summary="done")
            core.advance(time.time())
        core.emit(ev.GoalEnded(at=now, status="completed", summary="done"))
        core.emit(ev.WorkerExited(at=now, epoch=1, reason="finished"))
        core.emit(ev.Reported(at=now))
        core.emit(ev.Reviewed(at=now, of=core.state.rested_seq))


def _work(core: Core, actions: int) -> None:
    for tool, args, report in deeds(actions):
        verdict = core.propose(tool, args, time.time())
        core.outcome(verdict.seq, report, time.time())


def _opened(state: Path) -> tuple[Ledger, GoalStore]:
    state.mkdir(parents=True, exist_ok=True)
    ledger = Ledger.open(state / "ledger.db")
    book = GoalStore(ledger, load(CONFIG, {}, "config.toml").settings)
    book.listeners.clear()
    return ledger, book


async def _closed(ledger: Ledger) -> None:
    if not await ledger.sync(600):
        raise TimeoutError("the ledger was not written within ten minutes")
    await ledger.close(60)
