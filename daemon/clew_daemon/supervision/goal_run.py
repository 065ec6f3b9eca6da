"""Runs one goal: one worker after the other, until the goal ends, waits, or needs a person, and the rules for that."""

import asyncio
import contextlib
import time
from dataclasses import dataclass, field

import structlog

from clew_daemon.backoff import backoff_s
from clew_daemon.host.keys import KeyFileError
from clew_daemon.parts import DaemonParts
from clew_daemon.processes import endings, workspace_guard
from clew_daemon.processes.cell_rules import cli_program_fault
from clew_daemon.record.dependencies import KnownGoals
from clew_daemon.record.goal_limits import agent_fault, present_agent, rung_of
from clew_daemon.session.epoch import block_goal, block_missing
from clew_daemon.session.session import Session
from clew_daemon.supervision import schedule
from clew_daemon.undo.attempts import RestoreUnfinishedError, put_back
from clew_shared.config.tables import RestartSettings
from clew_shared.core.core import Core
from clew_shared.core.questions import Question, ask
from clew_shared.ledger.errors import LedgerError, LedgerFailed
from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus
from clew_shared.record.state import State
from clew_shared.text.words import ending, key_line, times

log = structlog.get_logger()

DETAIL_CHARS = 400
# crashes for which the daemon killed the worker
KILLED = ("hung", "deaf", "stalled", "memory", "protocol")
# the first wait for an endpoint that cannot be reached; each later one is twice as long, up to `backoff_max_s`
WAIT_FIRST_S = 1.0


@dataclass(eq=False)
class RestartHistory:
    """For each goal: the monotonic times of the crashes that still count, and its waits in a row."""

    _crashes: dict[str, list[float]] = field(default_factory=dict)
    _waits: dict[str, tuple[int, int]] = field(default_factory=dict)
    last: str = ""  # the goal of the last restart, and why

    def crashed(self, goal: str, lived_s: float, numbers: RestartSettings) -> int:
        """Count a crash; return how many count: those in the window, and none before a worker that was healthy."""
        now = time.monotonic()
        earlier = [] if lived_s >= numbers.healthy_after_s else self._crashes.get(goal, [])
        self._crashes[goal] = [t for t in earlier if now - t < numbers.window_s] + [now]
        return len(self._crashes[goal])

    def waited(self, goal: str, actions: int) -> int:
        """Count a wait; return how many waits there were before it since the goal's last action."""
        seen, count = self._waits.get(goal, (-1, 0))
        count = count + 1 if seen == actions else 0
        self._waits[goal] = (actions, count)
        return count

    def take(self, goal: str, event: ev.Event) -> None:
        """Forget what a goal's workers count for where it has ended, or a person lets it go on."""
        if isinstance(event, ev.GoalRequeued | ev.GoalEnded):
            self._crashes.pop(goal, None)
            self._waits.pop(goal, None)


def restart_s(crashes: int, numbers: RestartSettings) -> float | None:
    """Return the seconds to wait before the next worker, by the number of crashes; None after too many."""
    if crashes > numbers.max_restarts:
        return None
    if crashes <= 1:
        return 0.0
    return backoff_s(crashes - 2, numbers.backoff_initial_s, numbers.backoff_max_s)


def wait_s(waits: int, numbers: RestartSettings) -> float:
    """Return how long a worker that asked to be retried later (exit 75) waits, the `waits`-th time in a row."""
    first_s = max(WAIT_FIRST_S, numbers.backoff_initial_s)
    return backoff_s(waits, first_s, numbers.backoff_max_s)


def after_worker(
    state: State, ended: endings.Ended, crashes: int, waits: int, numbers: RestartSettings
) -> float | ev.GoalWaiting | Question | None:
    """Return what follows from how a worker ended; `crashes` counts this one too, `waits` those before this one.

    None (the goal rests) where it finished or was stopped; a wait, ever longer each time in a row, where the fault is
    temporary; a question where a person has to fix something first, or there were too many crashes; after any other
    crash the seconds until a restart.
    """
    match ended.kind:
        case "finished" | "stopped":
            return None
        case "temporary":
            now, wait = time.time(), ended.retry_after_s or wait_s(waits, numbers)
            return ev.GoalWaiting(at=now, reason=ended.reason, until=now + wait)
        case "crash" if (after_s := restart_s(crashes, numbers)) is not None:
            return after_s
        case "crash" if ended.reason != "internal":
            words = {"times": times(crashes), "window": f"{numbers.window_s:g}"}
            return ask(state, "crashes", ended.detail, ending=ending(ended.reason), **words)
        case "configuration":
            printed = "" if key_line(ended.detail) in ended.reason else ended.detail
            return ask(state, "set_up", printed, fault=ended.reason)
        case "crash":
            key = "internal"
        case "unable":
            key = "damaged" if ended.reason == "ledger" else "cannot_start"
    return ask(state, key, fault=ended.detail)


class GoalRun:
    """One goal at work; `session` is its live worker, None between two workers."""

    def __init__(self, daemon: DaemonParts, goal: str, history: RestartHistory) -> None:
        self.goal = goal
        self.session: Session | None = None
        self.stopping = False
        self._d = daemon
        self._history = history
        self.task = asyncio.ensure_future(self._run())

    def stop(self, reason: str, *, after_action: bool = False, at_once: bool = False) -> None:
        """Ask the worker to stop, as `Lifetime.stop`; between two workers the run ends at once."""
        if self.session:
            self.session.stop(reason, after_action=after_action, at_once=at_once)
        else:
            self.task.cancel()

    async def end(self, reason: str) -> None:
        """Stop the worker at once, and wait until nothing of it is left."""
        session = self.session
        self.stop(reason, at_once=True)
        if session:
            await session.gone.wait()

    async def _run(self) -> None:
        """Run the goal; an unexpected error counts as a crash, so that too many of them need a person."""
        core = self._d.goals.cores[self.goal]
        self._d.started[self.goal] = self._d.settings
        self._d.goals.judge_by(core, self._d.settings)
        try:
            await self._go_on(core)
        except LedgerFailed:
            return  # the daemon is about to stop
        except Exception as error:
            log.exception("goal.run_failed", goal=self.goal, error=repr(error))
            try:
                await self._fail(core, error)
            except Exception as again:  # it cannot be recorded now
                if not isinstance(again, LedgerError):
                    log.exception("goal.run_failed", goal=self.goal, error=repr(again))
                await asyncio.sleep(self._d.settings.restart.backoff_max_s)

    async def _go_on(self, core: Core) -> None:
        await self._d.goals.whole(self.goal)
        now, known = time.time(), KnownGoals(self._d.goals.states(), self._d.goals.gone)
        if not schedule.ready(core.state, known, now):
            return  # paused or cancelled since it was due
        if core.state.goal.status == GoalStatus.QUEUED:
            await self._d.goals.emit(core, ev.GoalStarted(at=now))
        if not core.state.workable:
            return
        if asked := self._unfit(core):
            await block_goal(self._d.goals, core, asked)
            return
        if guard := await self._enter(core):
            with contextlib.closing(guard):
                await self._work_in(core, guard)

    async def _work_in(self, core: Core, guard: workspace_guard.WorkspaceGuard) -> None:
        self._d.publisher.open(self.goal)
        while core.state.workable and not self.stopping:
            if await self._d.goals.decide(core, lambda core: core.hold_to_limits(time.time())):
                break  # a person decides instead of another worker
            if core.state.attempt.over and not await self._start_over(core, guard):
                break
            ended = await self._work(guard)
            if core.state.attempt.over or ended.reason == endings.ATTEMPT:
                continue
            if ended.kind != "stopped" and await self._block_if_missing(core, guard):
                break
            after_s = await self._conclude(core, ended)
            if after_s is None or self.stopping:
                break
            await asyncio.sleep(after_s)
            if await self._block_if_missing(core, guard):
                break

    async def _start_over(self, core: Core, guard: workspace_guard.WorkspaceGuard) -> bool:
        """Restore the workspace and begin the next attempt; returns False where that is not possible now."""
        if await self._block_if_missing(core, guard):
            return False
        try:
            ground = await put_back(self._d, core, guard)
        except RestoreUnfinishedError as error:
            log.error("undo.failed", goal=self.goal, reason=str(error))  # noqa: TRY400 - a reason
            if core.state.snapshots.undoing:
                await block_goal(self._d.goals, core, ask(core.state, "undo"))
            return False
        if not (core.state.workable and core.state.attempt.over):
            return False  # paused, cancelled or reopened meanwhile
        rung = rung_of(core.state, self._d.settings_of(self.goal), core.state.attempt.number + 1)
        await self._d.goals.decide(
            core, lambda core: core.begin_attempt(time.time(), ground, rung=str(rung))
        )
        if asked := self._unfit(core):
            await block_goal(self._d.goals, core, asked)
        return not asked

    async def _work(self, guard: workspace_guard.WorkspaceGuard) -> endings.Ended:
        try:
            self.session = Session(self._d, self.goal, guard)
        except KeyFileError as error:
            return endings.Ended("configuration", str(error))
        try:
            return await self.session.run()
        finally:
            self.session = None
            self._d.children.sweep()

    def _unfit(self, core: Core) -> Question | None:
        """Return what a person is asked where an agent, key or program is missing, or an undo was cut off."""
        state, settings = core.state, self._d.settings_of(self.goal)
        if state.snapshots.undoing and not state.attempt.over:
            return ask(state, "undo")
        fault = agent_fault(state, settings, self._d.places.config)
        if not fault:
            agent, keys = present_agent(state, settings)[1], self._d.keys
            fault = cli_program_fault(agent, keys.env) or keys.fault(agent)
        return ask(state, "cannot_start", fault=fault) if fault else None

    async def _enter(self, core: Core) -> workspace_guard.WorkspaceGuard | None:
        """Open the goal's folder, for this daemon alone, and record which it is; None where it cannot be worked in."""
        state = core.state
        path, known, make = state.spec.workspace, state.workspace, state.may_make
        try:
            found = await asyncio.to_thread(workspace_guard.enter, path, known, make=make)
        except OSError as error:  # out of resources
            await self._conclude(core, endings.by_fault(error))
            return None
        if isinstance(found, workspace_guard.Missing):
            await block_missing(self._d.goals, core, found)
            return None
        if other := found.occupy():
            found.close()
            why = f"{other} works in {path}; this goal waits until it is done"
            await self._conclude(core, endings.Ended("temporary", why))
            return None
        if known is None or found.made or found.identity.boot != known.boot:
            by = "made" if found.made else "start"
            event = ev.WorkspaceKnown(at=time.time(), identity=found.identity, by=by)
            await self._d.goals.emit(core, event)
        return found

    async def _block_if_missing(self, core: Core, guard: workspace_guard.WorkspaceGuard) -> bool:
        """Block a goal at work where another folder, or none, is at its path; return whether that was so."""
        missing = await asyncio.to_thread(guard.missing) if core.state.workable else None
        if missing:
            await block_missing(self._d.goals, core, missing)
        return missing is not None

    async def _conclude(self, core: Core, ended: endings.Ended) -> float | None:
        """Do what follows from how a worker ended; return the seconds until the next one, None for no next one."""
        if not (core.state.workable or core.state.goal.status == GoalStatus.QUEUED):
            return None
        numbers, crashes, waits = self._d.settings.restart, 0, 0
        if ended.kind == "crash":
            crashes = self._history.crashed(self.goal, ended.lived_s, numbers)
            about = {"goal": self.goal, "epoch": core.state.epoch}
            if ended.reason == "hung":
                log.warning("worker.hung", **about, detail=ended.detail)
            event = "worker.killed" if ended.reason in KILLED else "worker.crashed"
            log.warning(event, **about, reason=ended.reason, detail=ended.detail[-DETAIL_CHARS:])
        elif ended.kind == "temporary" and not ended.retry_after_s:
            waits = self._history.waited(self.goal, core.state.actions_total)
        match after_worker(core.state, ended, crashes, waits, numbers):
            case ev.GoalWaiting() as waiting:
                await self._d.goals.emit(core, waiting)
            case Question() as asked:
                if ended.kind == "crash":
                    window_s = numbers.window_s
                    log.error("worker.gave_up", goal=self.goal, crashes=crashes, window_s=window_s)
                await block_goal(self._d.goals, core, asked)
            case float(after_s):
                epoch, after = core.state.epoch, round(after_s, 3)
                log.info("worker.restarting", goal=self.goal, epoch=epoch, after_s=after)
                self._history.last = f"{self.goal} ({ending(ended.reason)})"
                return after_s
        return None

    async def _fail(self, core: Core, error: Exception) -> None:
        """Record a run that an unexpected error ended, and wait as after a crash, or block the goal after too many."""
        await self._d.goals.whole(self.goal)
        await self._d.goals.decide(core, lambda core: worker_gone(core, "internal", crash=True))
        await asyncio.sleep(await self._conclude(core, endings.by_surprise(error)) or 0.0)


def worker_gone(core: Core, reason: str, *, crash: bool = False) -> None:
    """Emit that the worker has ended for this reason, and that the effects of its actions are unknown.

    Its working time is unknown: recorded times are of the wall clock, which may be set, and would use up budgets.
    """
    at = time.time()
    core.interrupt(reason, at, counts=False)
    if core.state.working:
        epoch = core.state.epoch
        core.emit(ev.WorkerExited(at=at, epoch=epoch, reason=reason, crash=crash))
