"""Decides which goals run; `goal_run` runs each of them.

It decides by pure rules (`schedule`) and is called with every durable event.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import structlog

from clew_daemon.host import background
from clew_daemon.record.dependencies import KnownGoals
from clew_daemon.session.launcher import Launcher
from clew_daemon.supervision import schedule
from clew_daemon.supervision.goal_run import GoalRun, block_goal
from clew_daemon.supervision.history import RestartHistory
from clew_daemon.supervision.reports import ReportWriter
from clew_daemon.supervision.waits import Waits
from clew_shared.ledger import LedgerError
from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus

if TYPE_CHECKING:
    from clew_daemon.parts import DaemonParts
    from clew_daemon.session.session import Session
    from clew_shared.core.core import Core
    from clew_shared.core.journal import RecordedEvent

log = structlog.get_logger()

IDLE_S = 60.0
"""The longest delay of a goal that became due while the machine slept, or when the wall clock was set."""


class Supervisor:
    """Starts goals when they are due, and stops them; `start` and `stop` once each."""

    def __init__(self, daemon: DaemonParts, launcher: Launcher | None = None) -> None:
        self._d = daemon
        self._launcher = launcher or Launcher(daemon.nursery)
        self._runs: dict[str, GoalRun] = {}
        self._wake = asyncio.Event()
        self._loop_task: asyncio.Task[None] | None = None
        self._waits = Waits()
        self._history = RestartHistory()
        self._reports = ReportWriter(daemon, self._task_of)
        self._awaited: dict[str, str] = {}
        self.last_restart = ""
        daemon.goals.listeners.append(self._on_records)

    async def start(self) -> None:
        """Continue the goals on record, write missing reports, and begin to schedule."""
        await self.recover()
        await self._reports.start()
        self._loop_task = background.start(self._schedule())

    async def recover(self) -> None:
        """Record the ends of an earlier daemon's workers, and that the effects of their actions are unknown."""
        for goal, core in self._d.goals.cores.items():
            at = time.time()
            with self._d.goals.entering(core):
                core.interrupt("daemon_died", at, counts=False)
                if core.state.working:
                    core.emit(ev.WorkerExited(at=at, epoch=core.state.epoch, reason="daemon_died"))
            await self._d.goals.commit(core)
            self._resume_wait(core, at)
            unreported = core.state.rested_seq > core.state.reported_seq
            if unreported:
                self._reports.due(goal)
            at_work = core.state.goal.status == GoalStatus.IN_PROGRESS  # its run publishes it
            if core.state.epoch and not at_work and (unreported or not core.state.ended):
                self._d.publisher.open(goal)

    def _resume_wait(self, core: Core, now: float) -> None:
        """Continue a wait that an earlier daemon began, for no longer than its whole duration."""
        state = core.state
        if state.goal.status == GoalStatus.WAITING and state.wait_until is not None:
            left_s = min(state.wait_until - now, state.wait_until - state.updated_at)
            self._waits.begin(state.goal_id, left_s)

    async def stop(self) -> None:
        """Start nothing more, stop every worker, and write the reports that are due."""
        if self._loop_task:
            self._loop_task.cancel()
        runs = list(self._runs.values())
        for run in runs:
            run.stopping = True
            run.stop("the daemon is stopping")
        await asyncio.gather(*(run.task for run in runs), return_exceptions=True)
        await self._reports.stop()

    def wake(self) -> None:
        """Check again whether a goal is due."""
        self._wake.set()

    @property
    def running(self) -> list[str]:
        """The goals that have a worker, or are about to."""
        return list(self._runs)

    def uses(self, goal: str) -> bool:
        """Return whether the goal has a worker, or is about to."""
        return goal in self._runs

    def session(self, goal: str) -> Session | None:
        """Return a goal's live session."""
        run = self._runs.get(goal)
        return run.session if run else None

    def reloaded(self) -> None:
        """Send running agents the new thresholds, and check again whether a goal is due."""
        for run in self._runs.values():
            if run.session:
                run.session.thresholds_changed()
        self.wake()

    async def halt(self, goal: str, reason: str) -> None:
        """Stop a goal's worker and wait until all of it has ended; nothing happens where it has none."""
        if run := self._runs.get(goal):
            run.stop(reason)
            await asyncio.wait([run.task])

    # -- scheduling ----------------------------------------------------------------------------------

    async def _schedule(self) -> None:
        while self._d.goals.ledger.failure is None:  # else the daemon is about to stop
            self._wake.clear()
            known, now = self._known(), time.time()
            most, expired = self._d.settings.daemon.max_workers, self._waits.expired()
            for goal in schedule.due(known, self._runs, now, most, expired):
                self._run(goal)
            self._log_awaited(known)
            await self._block_dependents(known)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s(known, now)):
                    await self._wake.wait()

    def _pause_s(self, known: KnownGoals, now: float) -> float:
        """Return the seconds until time alone may make a goal due."""
        moment = schedule.next_moment(known.states.values(), now)
        pauses = (moment and moment - now, self._waits.next_s())
        return max(0.0, min([IDLE_S, *(s for s in pauses if s)]))

    def _known(self) -> KnownGoals:
        return KnownGoals(self._d.goals.states(), self._d.goals.gone)

    def _log_awaited(self, known: KnownGoals) -> None:
        """Log what queued goals wait for among other goals, whenever that changes."""
        before, self._awaited = self._awaited, schedule.awaited(known)
        for goal, reason in self._awaited.items():
            if before.get(goal) != reason:
                log.info("goal.waiting", goal=goal, reason=reason)

    async def _block_dependents(self, known: KnownGoals) -> None:
        """Block goals whose dependency ended without being completed: a person decides about them."""
        for goal, state in known.states.items():
            if goal not in self._d.goals.cores:
                continue  # purged while another one was being blocked
            if lost := schedule.lost_dependency(state, known):
                question = (
                    f"Retry {lost.goal} (`clew retry {lost.goal}`) and then `clew resume {goal}`, or cancel this goal?"
                    if lost.goal in known.states
                    else f"That goal was removed long ago: submit this goal again without it, and `clew cancel {goal}`?"
                )
                reason = f"it depends on {lost.goal}, which is {lost.status}"
                await block_goal(self._d.goals, self._d.goals.cores[goal], reason, question)
                known = self._known()  # goals may have come and gone meanwhile

    # -- runs and records ----------------------------------------------------------------------------

    def _run(self, goal: str) -> None:
        run = GoalRun(self._d, goal, self._launcher, self._history, self._waits, self._on_restart)
        self._runs[goal] = run
        run.task.add_done_callback(lambda task: self._on_run_end(goal, task))

    def _task_of(self, goal: str) -> asyncio.Task[None] | None:
        run = self._runs.get(goal)
        return run.task if run else None

    def _on_restart(self, what: str) -> None:
        self.last_restart = what

    def _on_run_end(self, goal: str, task: asyncio.Task[None]) -> None:
        self._runs.pop(goal, None)
        self._d.started.pop(goal, None)
        error = None if task.cancelled() else task.exception()
        if error and not isinstance(error, LedgerError):
            log.error("goal.run_failed", goal=goal, error=repr(error), exc_info=error)
        self.wake()

    def _on_records(self, goal: str, records: list[RecordedEvent]) -> None:
        """React to durable events: reports become due, other goals may become ready."""
        if any(isinstance(r.event, ev.RESTS) for r in records):
            self._reports.due(goal)
        for event in (r.event for r in records if goal and r.event.kind.startswith("goal_")):
            self._waits.end(goal)
            if isinstance(event, ev.GoalRequeued):
                self._history.goal_requeued(goal)
            if isinstance(event, ev.GoalWaiting) and event.until is not None:
                self._waits.begin(goal, event.until - event.at)
            self.wake()
