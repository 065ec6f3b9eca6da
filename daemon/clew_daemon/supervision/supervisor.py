"""Runs all goals: starts those that are due, by the pure rules of `schedule`; `goal_run` runs each of them."""

import asyncio
import contextlib
import time
from collections.abc import Iterator

import structlog

from clew_daemon.host import tasks
from clew_daemon.host.folders import overlap
from clew_daemon.learning.playbook import Reviewer
from clew_daemon.parts import DaemonParts
from clew_daemon.record.dependencies import KnownGoals
from clew_daemon.session.epoch import block_goal
from clew_daemon.session.session import Session
from clew_daemon.supervision import schedule
from clew_daemon.supervision.afterwards import ReportWriter
from clew_daemon.supervision.goal_run import GoalRun, RestartHistory, worker_gone
from clew_shared.core import questions
from clew_shared.core.journal import RecordedEvent
from clew_shared.ledger.errors import LedgerError, LedgerState
from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus

log = structlog.get_logger()

FULL_LOOK_S = 1.0
IDLE_S = 60.0
CLOCK_S = 1.0  # How often goals are looked through while one waits for a moment of the wall clock

# after a round there is a rest of REST times its length, at most REST_S: when thousands of goals arrive together,
# they are not all gone through again for each one
REST, REST_S = 9, 1.0


class Supervisor:
    """Starts goals when they are due, and stops them; `start` and `stop` once each."""

    def __init__(self, daemon: DaemonParts) -> None:
        self._d = daemon
        self._runs: dict[str, GoalRun] = {}
        self._held: set[str] = set()
        self._loop_task: asyncio.Task[None] | None = None
        self.history = RestartHistory()
        self._reports = ReportWriter(daemon, self.finished, self.uses)
        self._reviewer = Reviewer(daemon.playbook, lambda: daemon.settings.playbook)
        self._woken = asyncio.Event()
        daemon.goals.listeners.append(self._on_records)

    async def start(self) -> None:
        """Continue the goals on record, write missing reports, learn what was not learned, and begin to schedule."""
        await self._recover()
        self._reports.start()
        self._reviewer.start()
        self._loop_task = tasks.start(self._schedule())

    async def _recover(self) -> None:
        """Record the ends of an earlier daemon's workers, and that the effects of their actions are unknown."""
        for goal, core in self._d.goals.cores.items():
            await self._d.goals.decide(core, lambda core: worker_gone(core, "daemon_died"))
            state = core.state
            if unreported := state.rested_seq > state.reported_seq:
                self._reports.due(goal)
            if state.rested_seq > state.reviewed_seq:
                self._reviewer.due(goal)
            at_work = state.goal.status == GoalStatus.IN_PROGRESS  # its run publishes it
            if state.epoch and not at_work and (unreported or not state.ended):
                self._d.publisher.open(goal)

    async def stop(self) -> None:
        """Start nothing more, stop every worker, and write the reports that are due."""
        if self._loop_task:
            self._loop_task.cancel()
        runs = list(self._runs.values())
        for run in runs:
            run.stopping = True
            run.stop("the daemon is stopping")
        await asyncio.gather(*map(self._await_end, runs))
        await self._reports.stop()
        await self._reviewer.stop()

    async def _await_end(self, run: GoalRun) -> None:
        """Wait for the end of a run that was told to stop; what has no room on the disk is not waited for."""
        while not run.task.done():
            await asyncio.wait([run.task], timeout=FULL_LOOK_S)
            if self._d.goals.ledger.state is LedgerState.FULL:
                await run.end("the daemon is stopping")
                run.task.cancel()

    def wake(self) -> None:
        self._woken.set()

    @property
    def running(self) -> list[str]:
        """The goals that have a worker, or are about to."""
        return list(self._runs)

    def uses(self, goal: str) -> bool:
        """Return whether the goal has a worker, is about to, or is held."""
        return goal in self._runs or goal in self._held

    def at_work_in(self, workspace: str) -> str:
        """Return a goal that `uses` tells of in this workspace, in one below it or above it; "" for none."""
        states = self._d.goals.states()
        found = (g for g in (*self._runs, *self._held) if g in states)
        return next((g for g in found if overlap(workspace, states[g].spec.workspace)), "")

    @contextlib.contextmanager
    def hold(self, goal: str) -> Iterator[None]:
        """Start no worker for a goal, nor for another one in its workspace; for one that `uses` denies."""
        self._held.add(goal)
        try:
            yield
        finally:
            self._held.discard(goal)
            self.wake()

    def session(self, goal: str) -> Session | None:
        run = self._runs.get(goal)
        return run.session if run else None

    def reloaded(self) -> None:
        """Send running agents the new thresholds, and check again whether a goal is due."""
        for run in self._runs.values():
            if run.session:
                run.session.thresholds_changed()
        self.wake()

    # A goal may have no worker: then nothing happens.

    async def halt(self, goal: str, reason: str) -> None:
        self.tell_to_stop(goal, reason)
        await self.finished(goal)

    def tell_to_stop(self, goal: str, reason: str, *, after_action: bool = False) -> None:
        """Stop a goal's worker, as `Lifetime.stop`."""
        if run := self._runs.get(goal):
            run.stop(reason, after_action=after_action)

    async def end(self, goal: str, reason: str) -> None:
        """End a goal's worker at once, and wait until nothing of it is left; its end may be on record later."""
        if run := self._runs.get(goal):
            await run.end(reason)

    async def finished(self, goal: str, within_s: float | None = None) -> None:
        """Wait until all of a goal's worker has ended, at most so long."""
        if run := self._runs.get(goal):
            await asyncio.wait([run.task], timeout=within_s)

    async def _schedule(self) -> None:
        """Start goals until the ledger fails."""
        while self._d.goals.ledger.failure is None:  # else the daemon is about to stop
            self._woken.clear()
            began, now = time.monotonic(), time.time()
            known = KnownGoals(self._d.goals.states(), self._d.goals.gone)
            busy, most = [*self._runs, *self._held], self._d.settings.daemon.max_workers
            for goal in schedule.due(known, busy, now, most):
                self._run(goal)
            await self._block_dependents(known)
            await asyncio.sleep(min(REST * (time.monotonic() - began), REST_S))
            moment = schedule.next_moment(known.states.values(), now)
            # by the wall clock, which may be set, and goes on while the machine sleeps
            most_s = IDLE_S if moment is None else min(moment - now, CLOCK_S)
            await tasks.within(most_s, self._woken.wait())

    async def _block_dependents(self, known: KnownGoals) -> None:
        """Block goals whose dependency ended without being completed: a person decides about them."""
        for goal, state in known.states.items():
            if goal not in self._d.goals.cores:
                continue  # purged while another one was being blocked
            if lost := schedule.lost_dependency(state, known):
                there = lost.goal in known.states
                asked = questions.lost_dependency(state, lost.goal, lost.status, known=there)
                await block_goal(self._d.goals, self._d.goals.cores[goal], asked)
                # goals may have come and gone meanwhile
                known = KnownGoals(self._d.goals.states(), self._d.goals.gone)

    def _run(self, goal: str) -> None:
        run = GoalRun(self._d, goal, self.history)
        self._runs[goal] = run

        def ended(task: asyncio.Task[None]) -> None:
            self._runs.pop(goal, None)
            self._d.started.pop(goal, None)
            error = None if task.cancelled() else task.exception()
            if error and not isinstance(error, LedgerError):
                log.error("goal.run_failed", goal=goal, error=repr(error), exc_info=error)
            self.wake()

        run.task.add_done_callback(ended)

    def _on_records(self, goal: str, records: list[RecordedEvent]) -> None:
        """React to durable events: reports become due, other goals may become ready."""
        if any(isinstance(r.event, ev.RESTS) for r in records):
            self._reports.due(goal)
            self._reviewer.due(goal)
        elif any(isinstance(r.event, ev.UndoFinished) for r in records):
            self._reports.due(goal)
        for record in records if goal else ():
            self.history.take(goal, record.event)
            if record.event.kind.startswith("goal_"):
                self.wake()
