"""Runs goals: one coroutine for each that works, from its first worker to its end or to a person.

It decides by pure rules (`schedule`, `restart`) and performs by sessions. A goal's own coroutine is the only
one that starts or ends its workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from clew_daemon.host import background, git_outside
from clew_daemon.host.keys import KeyFileError
from clew_daemon.processes import endings, workspace_guard
from clew_daemon.processes.endings import Ended
from clew_daemon.publish import report
from clew_daemon.record import pages
from clew_daemon.record.dependencies import Known
from clew_daemon.session.session import Session
from clew_daemon.supervision import restart, schedule
from clew_daemon.supervision.scratch import clear
from clew_daemon.supervision.waits import Waits
from clew_shared.ledger import LedgerCorrupt, LedgerError, LedgerFailed
from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus
from clew_shared.text.plain import plain

if TYPE_CHECKING:
    from clew_daemon.parts import DaemonParts
    from clew_daemon.processes.workspace_guard import Ground, Lost
    from clew_daemon.record.store import Readable
    from clew_shared.core.core import Core, Recorded

log = structlog.get_logger()

IDLE_S = 60.0
"""So long at the most after the wall clock was set, or the machine slept, a goal begins whose time has come."""
REPORT_WAIT_S = 30.0
REPORT_AGAIN_S = 5.0
REST = (ev.GoalEnded, ev.GoalBlocked)


class Supervisor:
    """Starts goals when they are due, and keeps their workers running; `start` and `stop` once each."""

    def __init__(self, daemon: DaemonParts) -> None:
        self._d = daemon
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._sessions: dict[str, Session] = {}
        self._wake = asyncio.Event()
        self._loop_task: asyncio.Task[None] | None = None
        self._reports: asyncio.Queue[str] = asyncio.Queue()
        self._report_task: asyncio.Task[None] | None = None
        self._unwritten: set[str] = set()
        self._stopping = False
        self._waits = Waits()
        self._waited: dict[str, tuple[int, int]] = {}
        self._crashes: dict[str, restart.Crashes] = {}
        self._failed_runs: set[str] = set()
        self._awaited: dict[str, str] = {}
        self.last_restart = ""
        daemon.book.listeners.append(self._heard)

    async def start(self) -> None:
        """Take up what was left, write reports that are missing, and begin to schedule."""
        await self.recover()
        self._report_task = background.begin(self._write_reports())
        self._loop_task = background.begin(self._schedule())

    async def recover(self) -> None:
        """Say of every worker of an earlier daemon that it is over, and what it left in flight."""
        for goal, core in self._d.book.cores.items():
            at = time.time()
            with self._d.book.entering(core):
                core.interrupt("daemon_died", at, counts=False)
                if core.state.working:
                    core.emit(ev.WorkerExited(at=at, epoch=core.state.epoch, reason="daemon_died"))
            await self._d.book.commit(core)
            self._resume_wait(core, at)
            unreported = core.state.rested_seq > core.state.reported_seq
            if unreported:
                self._reports.put_nowait(goal)
            at_work = core.state.goal.status == GoalStatus.IN_PROGRESS  # its run opens them
            if core.state.epoch and not at_work and (unreported or not core.state.ended):
                self._d.publisher.open(goal)

    def _resume_wait(self, core: Core, now: float) -> None:
        """Go on with a wait that an earlier daemon began; at the most as long as it was to be then."""
        state = core.state
        if state.goal.status == GoalStatus.WAITING and state.wait_until is not None:
            left_s = min(state.wait_until - now, state.wait_until - state.updated_at)
            self._waits.begin(state.goal_id, left_s)

    async def stop(self) -> None:
        """Start nothing more, stop every worker, and write what reports are due."""
        self._stopping = True
        if self._loop_task:
            self._loop_task.cancel()
        for session in self._sessions.values():
            session.stop("the daemon is stopping")
        runs = list(self._runs.values())
        for goal, run in self._runs.items():
            if goal not in self._sessions:
                run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
        if self._report_task:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5.0):
                    await self._reports.join()
            self._report_task.cancel()

    def wake(self) -> None:
        """Look again whether a goal is due."""
        self._wake.set()

    @property
    def running(self) -> list[str]:
        """The goals that have a worker, or are about to."""
        return list(self._runs)

    def uses(self, goal: str) -> bool:
        """Tell whether the goal has a worker, or is about to."""
        return goal in self._runs

    def session(self, goal: str) -> Session | None:
        """Give a goal's live session."""
        return self._sessions.get(goal)

    def reloaded(self) -> None:
        """Tell running agents the new thresholds."""
        for session in self._sessions.values():
            session.thresholds_changed()
        self.wake()

    async def halt(self, goal: str, reason: str) -> None:
        """Stop a goal's worker and wait until all of it is gone; nothing to do where it has none."""
        run = self._runs.get(goal)
        if run is None:
            return
        if session := self._sessions.get(goal):
            session.stop(reason)
        else:
            run.cancel()
        await asyncio.wait([run])

    # -- scheduling ----------------------------------------------------------------------------------

    async def _schedule(self) -> None:
        while self._d.book.ledger.failure is None:  # else the daemon is about to stop
            self._wake.clear()
            known = self._known()
            now = time.time()
            places, over = self._d.settings.daemon.max_workers, self._waits.over()
            for goal in schedule.due(known, self._runs, now, places, over):
                task = asyncio.ensure_future(self._run(goal))
                self._runs[goal] = task
                task.add_done_callback(partial(self._ran, goal))
            self._tell_awaited(known)
            await self._give_up_lost(known)
            moment = schedule.next_moment(known.states.values(), now)
            until = [IDLE_S, *(s for s in (moment and moment - now, self._waits.next_s()) if s)]
            timeout_s = max(0.0, min(until))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._wake.wait()

    def _known(self) -> Known:
        return Known(self._d.book.states(), self._d.book.gone)

    def _tell_awaited(self, known: Known) -> None:
        """Log what queued goals wait for among other goals, whenever that changes."""
        before, self._awaited = self._awaited, schedule.awaited(known)
        for goal, told in self._awaited.items():
            if before.get(goal) != told:
                log.info("goal.waiting", goal=goal, reason=told)

    async def _give_up_lost(self, known: Known) -> None:
        """Hand goals to a person that wait for one that ended otherwise than completed."""
        for goal, state in known.states.items():
            if goal not in self._d.book.cores:
                continue  # removed while another one was handed over
            if lost := schedule.lost_dependency(state, known):
                question = (
                    f"Retry {lost.goal} (`clew retry {lost.goal}`) and then `clew resume {goal}`, or cancel this goal?"
                    if lost.goal in known.states
                    else f"That goal was removed long ago: submit this goal again without it, and `clew cancel {goal}`?"
                )
                reason = f"it depends on {lost.goal}, which is {lost.status}"
                await self._block(self._d.book.cores[goal], reason, question)
                known = self._known()  # goals may have come and gone meanwhile

    def _ran(self, goal: str, task: asyncio.Task[None]) -> None:
        self._runs.pop(goal, None)
        self._d.started.pop(goal, None)
        if (
            not task.cancelled()
            and (error := task.exception())
            and not isinstance(error, LedgerError)
        ):
            log.error("goal.run_failed", goal=goal, error=repr(error), exc_info=error)
        self.wake()

    # -- one goal ------------------------------------------------------------------------------------

    async def _run(self, goal: str) -> None:
        """Run a goal to its rest; an unexpected error counts as a crash, and so ends at a person."""
        core = self._d.book.cores[goal]
        before = _deeds(core)
        self._d.started[goal] = self._d.settings
        self._d.book.go_by(core, self._d.settings)
        try:
            await self._go_on(core)
        except LedgerFailed:
            return  # the daemon is about to stop
        except Exception as error:
            log.exception("goal.run_failed", goal=goal, error=repr(error))
            try:
                await self._failed(core, error, idle=_deeds(core) == before)
            except LedgerError:  # it cannot be recorded now
                await asyncio.sleep(self._d.settings.restart.backoff_max_s)

    async def _failed(self, core: Core, error: Exception, *, idle: bool) -> None:
        """Wait as after a crash, or hand the goal to a person where there were too many."""
        goal, numbers = core.state.goal_id, self._d.settings.restart
        self._failed_runs.add(goal)
        at = time.time()
        with self._d.book.entering(core):
            core.interrupt("internal", at, counts=False)
            if core.state.working:
                core.emit(
                    ev.WorkerExited(at=at, epoch=core.state.epoch, reason="internal", crash=True)
                )
        await self._d.book.commit(core)
        crashes = self._crashes.setdefault(goal, restart.Crashes([]))
        crashes.add(time.monotonic(), 0.0, numbers, idle=idle)
        match restart.decide(crashes, numbers, random.random):
            case restart.RestartAfter(after_s):
                await asyncio.sleep(after_s)
            case restart.GiveUp():
                await self._block(core, *_surprised(goal, endings.by_surprise(error).detail))

    async def _go_on(self, core: Core) -> None:
        goal, now = core.state.goal_id, time.time()
        if not schedule.ready(core.state, self._known(), now, self._waits.over()):
            return  # a person was quicker: paused or cancelled since it was due
        if core.state.goal.status == GoalStatus.QUEUED:
            if goal not in self._failed_runs:
                self._crashes[goal] = restart.Crashes(
                    []
                )  # a wait between two crashes forgives none
            await self._d.book.emit(core, ev.GoalStarted(at=now))
        if not core.state.workable:
            return
        if fault := self._unfit(core):
            await self._block(core, *fault)
            return
        if place := await self._entered(core):
            with contextlib.closing(place):
                await self._work_in(core, place)
        if core.state.ended:
            self._crashes.pop(goal, None)
            self._waited.pop(goal, None)

    async def _work_in(self, core: Core, place: Ground) -> None:
        """Run one worker after the other in the goal's folder, until the goal rests."""
        goal = core.state.goal_id
        await self._look_for_git(core)
        self._d.publisher.open(goal)
        crashes = self._crashes.setdefault(goal, restart.Crashes([]))
        while core.state.workable and not self._stopping:
            before = _deeds(core)
            ended = await self._work(goal, place)
            if ended.kind != "stopped" and await self._lost(core, place):
                break
            after_s = await self._decide(core, ended, crashes, idle=_deeds(core) == before)
            if after_s is None or self._stopping:
                break
            await asyncio.sleep(after_s)
            if await self._lost(core, place):
                break

    async def _look_for_git(self, core: Core) -> None:
        """Say before the first worker where git's folder is, if git cannot reach it from the workspace."""
        if core.state.epoch:
            return
        workspace, write = core.state.spec.workspace, self._d.settings.sandbox.write
        if folder := await asyncio.to_thread(git_outside.outside, workspace, write):
            log.warning(
                "workspace.git_outside",
                goal=core.state.goal_id,
                folder=folder,
                hint=git_outside.hint(folder),
            )

    def _unfit(self, core: Core) -> tuple[str, str] | None:
        """Say why a goal cannot even begin: no agent, no key."""
        state, settings = core.state, self._d.settings
        name = state.spec.agent or None
        fault = settings.agents.fault(name)
        if not fault:
            agent = settings.agents.get(name)
            fault = self._d.keys.fault(agent)
        if fault:
            return fault, f"Fix the config, run `clew reload`, then `clew resume {state.goal_id}`."
        return None

    async def _entered(self, core: Core) -> Ground | None:
        """Open the folder that a goal works in, for this daemon alone; None where it blocks or waits instead.

        Which folder that is is on record before anything can act in it.
        """
        state = core.state
        path, known, make = state.spec.workspace, state.workspace, state.may_make
        try:
            found = await asyncio.to_thread(workspace_guard.enter, path, known, make=make)
        except OSError as error:  # out of resources
            await self._decide(core, endings.by_fault(error), restart.Crashes([]), idle=True)
            return None
        if isinstance(found, workspace_guard.Lost):
            await self._block_lost(core, found)
            return None
        if other := found.occupy():
            found.close()
            taken = Ended("temporary", f"{other} works in {path}; this goal waits until it is done")
            await self._decide(core, taken, restart.Crashes([]), idle=True)
            return None
        if known is None or found.made or found.identity.boot != known.boot:
            by: Any = "made" if found.made else "start"
            event = ev.WorkspaceKnown(at=time.time(), identity=found.identity, by=by)
            await self._d.book.emit(core, event)
        return found

    async def _lost(self, core: Core, place: Ground) -> bool:
        """Hand a goal at work to a person where its folder is not what stands there; tells whether that was so."""
        if not core.state.workable:
            return False
        lost = await asyncio.to_thread(place.lost)
        if lost:
            await self._block_lost(core, lost)
        return lost is not None

    async def _block_lost(self, core: Core, lost: Lost) -> None:
        question = lost.question(core.state.goal_id)
        await self._block(core, lost.reason, question, stranger=lost.stranger, gone=lost.gone)

    async def _work(self, goal: str, place: Ground) -> Ended:
        """Run one worker to its end."""
        try:
            session = Session(self._d, goal, place)
        except KeyFileError as error:
            return Ended("configuration", str(error))
        self._sessions[goal] = session
        try:
            ended = await session.run()
        finally:
            del self._sessions[goal]
            self._d.children.sweep()
        return ended

    async def _decide(
        self, core: Core, ended: Ended, crashes: restart.Crashes, *, idle: bool
    ) -> float | None:
        """See to how a worker ended; gives the seconds until the next one, None for no next one."""
        goal, numbers = core.state.goal_id, self._d.settings.restart
        if not core.state.workable:
            return None
        match ended.kind:
            case "finished" | "stopped":
                return None
            case "temporary":
                pause_s = ended.retry_after_s or restart.wait_s(self._waits_in_a_row(goal), numbers)
                event = ev.GoalWaiting(
                    at=time.time(), reason=ended.reason, until=time.time() + pause_s
                )
                await self._d.book.emit(core, event)
                return None
            case "configuration" | "unable":
                what = ended.detail if ended.kind == "unable" else ended.reason
                await self._block(core, what, f"Fix this ({what}), then run `clew resume {goal}`.")
                return None
            case "crash":
                crashes.add(time.monotonic(), ended.lived_s, numbers, idle=idle)
                return await self._crashed(core, ended, crashes)

    async def _crashed(self, core: Core, ended: Ended, crashes: restart.Crashes) -> float | None:
        goal, numbers = core.state.goal_id, self._d.settings.restart
        if ended.reason == "hung":
            log.warning("worker.hung", goal=goal, epoch=core.state.epoch, detail=ended.detail)
        log.warning(
            "worker.killed"
            if ended.reason in ("hung", "deaf", "stalled", "memory", "protocol")
            else "worker.crashed",
            goal=goal,
            epoch=core.state.epoch,
            reason=ended.reason,
            detail=ended.detail[-400:],
        )
        match restart.decide(crashes, numbers, random.random):
            case restart.RestartAfter(after_s):
                log.info(
                    "worker.restarting",
                    goal=goal,
                    epoch=core.state.epoch,
                    after_s=round(after_s, 3),
                )
                self.last_restart = f"{goal} ({ended.reason})"
                return after_s
            case restart.GiveUp() as up:
                log.error("worker.gave_up", goal=goal, crashes=up.crashes, window_s=up.window_s)
                if ended.reason == "internal":
                    await self._block(core, *_surprised(goal, ended.detail))
                    return None
                said = f" Last output: {ended.detail[-400:]}" if ended.detail else ""
                await self._block(
                    core,
                    f"{up}, the last time: {ended.reason}",
                    f"Worker keeps crashing ({ended.reason}).{said} Fix the cause, then run `clew resume {goal}`.",
                )
                return None

    def _waits_in_a_row(self, goal: str) -> int:
        """Count how often a goal has waited since its last action."""
        state = self._d.book.cores[goal].state
        seen, count = self._waited.get(goal, (-1, 0))
        count = count + 1 if seen == state.actions_total else 0
        self._waited[goal] = (state.actions_total, count)
        return count

    async def _block(self, core: Core, reason: str, question: str, **why: Any) -> None:
        """Hand a goal to a person, unless it has ended meanwhile; `why` as in GoalBlocked."""
        with self._d.book.entering(core):
            core.block_goal(reason, time.time(), question=question, **why)
        await self._d.book.commit(core)

    # -- reports -------------------------------------------------------------------------------------

    def _heard(self, goal: str, records: list[Recorded]) -> None:
        """Hear of durable events: reports become due, other goals may become ready."""
        if any(isinstance(r.event, REST) for r in records):
            self._reports.put_nowait(goal)
        for event in (r.event for r in records if goal and r.event.kind.startswith("goal_")):
            self._waits.end(goal)
            if isinstance(event, ev.GoalRequeued):
                self._failed_runs.discard(goal)
                self._waited.pop(goal, None)
            if isinstance(event, ev.GoalWaiting) and event.until is not None:
                self._waits.begin(goal, event.until - event.at)
            self.wake()

    async def _write_reports(self) -> None:
        while True:
            goal = await self._reports.get()
            try:
                await self._report(goal)
                self._unwritten.discard(goal)
            except LedgerFailed:
                return  # the next daemon writes it
            except LedgerCorrupt as error:  # the next start tries it again
                log.error("report.unwritable", goal=goal, error=str(error))  # noqa: TRY400 - a reason, no bug
            except (OSError, LedgerError) as error:
                self._report_again(goal, error)
            finally:
                self._reports.task_done()

    def _report_again(self, goal: str, error: Exception) -> None:
        """Write a report later, when the disk may have room; say so once."""
        if goal not in self._unwritten:
            self._unwritten.add(goal)
            log.warning("report.unwritable", goal=goal, error=plain(error), again_s=REPORT_AGAIN_S)
        asyncio.get_running_loop().call_later(REPORT_AGAIN_S, self._reports.put_nowait, goal)

    async def _report(self, goal: str) -> None:
        if run := self._runs.get(goal):
            await asyncio.wait([run], timeout=REPORT_WAIT_S)  # it tells of the worker's end, too
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REPORT_WAIT_S):
                await self._d.publisher.settle(goal)  # reported says: published, too
        core = self._d.book.cores.get(goal)
        if core is None:
            return  # let go of meanwhile
        actions, loops = await asyncio.to_thread(_last_deeds, self._d.book.ledger, goal)
        kept, ids = self._d.playbook.current, core.state.strategies
        shown = [f"[{i}] {bullet.content}" for i in ids if (bullet := kept.get_bullet(i))]
        text = report.render(core.state, actions, loops, shown)
        await asyncio.to_thread(report.write, self._d.places.outbox, core.state, text)
        await self._d.book.emit(core, ev.Reported(at=time.time()))
        if core.state.ended and goal not in self._runs:
            await clear(self._d.places, goal)


def _last_deeds(ledger: Readable, goal: str) -> tuple[list[Any], list[Any]]:
    """Read what a report tells of."""
    actions, _ = pages.actions(ledger, goal, report.TRIED_MAX, outputs=False)
    loops, _ = pages.loops(ledger, goal, report.TRIED_MAX)
    return actions, loops


def _deeds(core: Core) -> tuple[int, int, int]:
    """Count what a worker can get done: actions, turns, and what is still open."""
    state = core.state
    return state.actions_total, state.iteration, len(state.open_subtasks())


def _surprised(goal: str, error: str) -> tuple[str, str]:
    """Return what to tell a person about an unexpected error that kept a goal from going on, and what to do."""
    what = (
        f"clew could not continue this goal: {error}. `clew logs {goal}` shows where the error occurred "
        "(goal.run_failed). If clew was upgraded or moved while it ran, restart it (`clew restart`). "
        f"Then `clew resume {goal}`; nothing recorded is lost."
    )
    return f"an unexpected error in clew: {error}", what
