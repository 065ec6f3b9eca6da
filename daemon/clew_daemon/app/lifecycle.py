"""The daemon's life cycle: start, ready, serve, stop; signals and exit codes.

Every long-lived part has `async start()` and `async stop()`; `stop` is harmless where `start` failed or never ran.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import psutil
import structlog
import uvloop

from clew_daemon import VERSION
from clew_daemon.app import housekeeping
from clew_daemon.bootstrap import TRANSIENT_ERRNOS, Bootstrap, failed, ledger_file
from clew_daemon.control.handlers import ControlHandlers
from clew_daemon.control.server import Control
from clew_daemon.host.folders import FolderError
from clew_daemon.host.own_process import Notifier
from clew_daemon.host.snapshot_space import SnapshotSpace
from clew_daemon.host.tasks import THREADS, ThreadsError, pool
from clew_daemon.inbox.files import InboxOwner
from clew_daemon.inbox.inbox import Inbox, accept
from clew_daemon.learning.playbook import KnownModels, PlaybookStore
from clew_daemon.ledger.ledger import Ledger
from clew_daemon.ledger.lock import LockError, LockHeldError
from clew_daemon.parts import DaemonParts
from clew_daemon.processes.children import Children
from clew_daemon.processes.llm_slots import LlmSlots
from clew_daemon.processes.nursery import Nursery, SpawnError
from clew_daemon.publish.publisher import Publisher
from clew_daemon.record import home
from clew_daemon.record.goals import GoalStore
from clew_daemon.record.lost_record import accept as accept_lacking
from clew_daemon.record.lost_record import lacking, lost
from clew_daemon.supervision.afterwards import Retention, SnapshotStores
from clew_daemon.supervision.supervisor import Supervisor
from clew_daemon.undo import undo
from clew_shared.exit_codes import ExitCode
from clew_shared.ledger import errors
from clew_shared.record import events as ev
from clew_shared.record.daemon_events import HomeKnown
from clew_shared.snapshots.store import StoreError
from clew_shared.text.plain import plain

log = structlog.get_logger()

MORE_ROOM = (
    "Free some disk space, or raise the limits of the unit (LimitNOFILE=) or the shell (ulimit -n)"
)
LEDGER_CLOSE_S = 10.0
UNDO_S = 60.0  # How long a start waits for one undo to be completed


def run(bootstrap: Bootstrap) -> int:
    """Run the daemon in the foreground until it is told to stop; return the exit code."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(App(bootstrap).run())
    except (errors.LedgerError, FolderError, ThreadsError, LockError) as error:
        # the next start may not meet these: the service manager should try again
        passing = errors.LedgerFailed | errors.LedgerUnwell | ThreadsError | LockHeldError
        may_pass = isinstance(error, passing) and not isinstance(error, errors.LedgerLostError)
        code = ExitCode.FAILED if may_pass else ExitCode.CONFIGURATION
        log.critical("daemon.stopped", reason=str(error), code=code)
        return failed(str(error), code)
    except Exception as error:  # shown by the log, which redacts keys
        if isinstance(error, OSError) and error.errno in TRANSIENT_ERRNOS:
            log.critical("daemon.stopped", reason=plain(error), code=ExitCode.FAILED)
            return failed(f"out of resources: {plain(error)}. {MORE_ROOM}", ExitCode.FAILED)
        log.critical("daemon.bug", error=repr(error), exc_info=True)
        what = f"stopped by a bug: {type(error).__name__}; see the log for details"
        return failed(what, ExitCode.FAILED)


class App:
    """One life of the daemon."""

    def __init__(self, bootstrap: Bootstrap) -> None:
        self._bootstrap = bootstrap
        self._places, self._settings = bootstrap.places, bootstrap.settings
        self._notifier = Notifier.from_env(bootstrap.keys.env)
        self._status = housekeeping.Status(self._notifier)
        self._stop, self._hangup = asyncio.Event(), asyncio.Event()
        self._interrupts = 0
        self._inbox_owner = InboxOwner(self._places.inbox, self._places.socket)

    async def run(self) -> int:
        """Open the ledger, serve until told to stop, and close it."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_unhandled)
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        loop.add_signal_handler(signal.SIGINT, self._on_interrupt)
        loop.add_signal_handler(signal.SIGHUP, self._hangup.set)
        log.info("daemon.started", pid=os.getpid(), version=VERSION, state=str(self._places.state))
        path = ledger_file(self._places, self._settings)
        refuse_incomplete(path, self._places.state)
        with contextlib.suppress(OSError):  # the inbox reports what is wrong, and tries again
            self._inbox_owner.take()
        lock = self._bootstrap.ledger_lock
        watch = housekeeping.LedgerWatch(path, lock, self._status, self._stop.set)
        ledger = watch.ledger
        try:
            await self._serve(ledger, watch)
            if not ledger.failure:
                await watch.note()
        finally:
            failure = ledger.failure
            with contextlib.suppress(errors.LedgerError):
                await ledger.close(LEDGER_CLOSE_S)
        if failure:
            raise failure
        log.info("daemon.stopped", code=ExitCode.OK)
        return ExitCode.OK

    async def _serve(self, ledger: Ledger, watch: housekeeping.LedgerWatch) -> None:
        """Put the parts together, start them, and stop them when the daemon is told to stop."""
        try:  # all threads now, before anything depends on one
            ledger.begin()
        except RuntimeError:
            raise ThreadsError from None
        asyncio.get_running_loop().set_default_executor(pool(THREADS, "clew"))
        goals = GoalStore(ledger, self._settings)
        before, now = home.last(ledger), home.here(self._places.state)
        await block_in_other_home(goals, before, now)
        bootstrap, children = self._bootstrap, Children()
        nursery = Nursery(children, bootstrap.nursery_env, bootstrap.preload, bootstrap.zygote)
        daemon = DaemonParts(
            places=self._places, settings=self._settings, keys=bootstrap.keys, goals=goals,
            playbook=PlaybookStore(goals), models=KnownModels(goals), publisher=Publisher(goals),
            children=children, cgroups=bootstrap.cgroups, nursery=nursery, slots=LlmSlots(),
            space=SnapshotSpace(self._places.snapshots), git=bootstrap.git_identity,
        )  # fmt: skip
        daemon.playbook.load()
        daemon.models.load()
        self._daemon = daemon
        self._supervisor = Supervisor(daemon)
        fault = partial(housekeeping.config_error, self._places.config, daemon.keys.env, {})
        self._status.describe(daemon, self._supervisor, fault)
        self._reload = partial(housekeeping.apply_config, daemon, self._supervisor, self._status)
        view, reload = self._status.view, self._reload
        handlers = ControlHandlers(daemon, self._supervisor, view, reload)
        self._control = Control(self._places.socket, handlers.by_method())
        times = self._settings.daemon
        self._inbox = Inbox(
            folder=self._places.inbox,
            settle_s=times.settle_s,
            sweep_s=times.sweep_s,
            logs=log,
            owner=self._inbox_owner,
            accept=lambda dropped: accept(daemon, dropped),
            ready=lambda: ledger.state is not errors.LedgerState.FULL,
        )
        retention = Retention(daemon, self._supervisor.uses)
        stores = self._stores = SnapshotStores(daemon, self._supervisor.uses, self._supervisor.hold)
        self._housekeeping = housekeeping.Housekeeping(daemon, watch, retention, stores)
        if not before or before.model_copy(update={"at": now.at}) != now:  # nothing waits for this
            self._housekeeping.run(goals.emit_own([now]))
        end_leftovers(goals, ours=home.is_same_process_space(before, now))
        try:
            await self._start()
            await self._stop.wait()
        finally:
            await self._shut_down()

    async def _start(self) -> None:
        """Start the parts, those that others need first; the inbox last, since it accepts new goals."""
        await self._control.start()
        with contextlib.suppress(SpawnError):  # logged; the daemon serves without it
            await self._daemon.nursery.ready()
        for message in self._daemon.nursery.report.messages if self._daemon.nursery.report else ():
            log.warning("sandbox.limits", message=message)
        await self._stores.open()
        await complete_undos(self._daemon, self._status.starting)
        await self._supervisor.start()
        await self._inbox.start()
        await self._housekeeping.start(self._notifier)
        self._housekeeping.run(housekeeping.reload_on_signals(self._hangup, self._reload))
        self._housekeeping.run(self._status.follow())
        self._status.ready()
        states = self._daemon.goals.states().values()
        if working := [s.goal_id for s in states if s.goal.status == "in_progress"]:
            log.info("daemon.recovered", goals=working)
        log.info("daemon.ready", goals=len(self._daemon.goals.cores), inbox=str(self._places.inbox))

    async def _shut_down(self) -> None:
        """Stop the parts: no new goals first, then the workers; clients are served until almost the end."""
        self._status.stopping()
        log.info("daemon.stopping")
        await self._inbox.stop()
        self._inbox_owner.release()
        daemon, own = self._daemon, (self._supervisor, self._housekeeping)
        for part in (*own, daemon.publisher, self._control, daemon.nursery):
            await part.stop()
        self._daemon.children.sweep()

    def _on_interrupt(self) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            # every worker dies with the daemon; the ledger is a valid prefix
            os._exit(ExitCode.FAILED)
        self._stop.set()


def _log_unhandled(_: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
    error = context.get("exception")
    log.error("daemon.bug", message=context.get("message"), error=repr(error), exc_info=error)


# -- what a start does about the daemon before it: an incomplete record, a copied home, workers that still live


def refuse_incomplete(ledger: Path, state: Path) -> None:
    """Raise where a ledger was lost, or lacks events that were recorded; create no new one in its place."""
    if gone := lost(ledger, state):
        raise gone
    missing = lacking(ledger, state)
    if missing and not missing.is_copied:
        raise missing.error(ledger)
    if missing:  # the original has the rest, and no goal continues here before a person resumes it
        aside = accept_lacking(ledger, state, missing)
        kept = [str(path) for path in aside.values()]
        log.warning("ledger.behind", lacks=list(missing.faults), aside=kept)


async def block_in_other_home(goals: GoalStore, before: HomeKnown | None, now: HomeKnown) -> None:
    """Block every unfinished goal where the home was copied or moved: a person decides whether it continues."""
    if before is None or not home.is_other(before, now):
        return
    log.warning("home.other", before=before.path, host=before.host, now=now.path)
    for core in goals.cores.values():
        if core.state.goal.status in home.UNFINISHED:
            asked = home.copied(before, core.state)
            blocked = ev.GoalBlocked(at=time.time(), reason=asked.reason, question=asked.text)
            await goals.emit(core, blocked)


async def complete_undos(daemon: DaemonParts, starting: Callable[[str, float], None]) -> None:
    """Complete each undo that the last daemon did not; `starting` is told what is waited for, and how many seconds."""
    for goal, core in list(daemon.goals.cores.items()):
        if not core.state.snapshots.undoing:
            continue
        starting(f"starting: completing the undo of {goal}", 2 * UNDO_S)
        try:
            async with asyncio.timeout(UNDO_S):
                async with undo.visit(daemon, await daemon.goals.whole(goal)) as there:
                    await there.resume()
        except (undo.VisitFailed, StoreError, TimeoutError) as error:  # the goal waits for a person
            log.error("undo.failed", goal=goal, reason=str(error) or "it took too long")  # noqa: TRY400 - a reason


def end_leftovers(goals: GoalStore, *, ours: bool) -> None:
    """Kill workers of the last daemon that still live, by pid and creation time, if pids are still `ours`."""
    for state in goals.states().values() if ours else ():
        if not (state.working and state.pid):
            continue
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(state.pid)
            if abs(process.create_time() - state.pid_created) < 0.01:
                log.warning("worker.leftover", goal=state.goal_id, pid=state.pid)
                for one in [*process.children(recursive=True), process]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        one.kill()
