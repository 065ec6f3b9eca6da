"""The daemon: makes its parts, starts them in order, and stops them in the reverse order.

Signals, the service manager and the ledger's troubles end up here; goals are the supervisor's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import psutil
import structlog
import uvloop

from clew_daemon import VERSION
from clew_daemon.bootstrap import PASSING, configure_log, failed, ledger_file, note_places, preload
from clew_daemon.config_watch import ConfigWatch
from clew_daemon.control.goal_requests import People
from clew_daemon.control.playbook_requests import Strategies
from clew_daemon.control.server import Control, ControlError
from clew_daemon.host import background, git_identity
from clew_daemon.host.folders import FolderError
from clew_daemon.host.glance import Glance
from clew_daemon.host.service import Notifier
from clew_daemon.host.threads import THREADS, ThreadsError, pool
from clew_daemon.inbox.acceptance import accept
from clew_daemon.inbox.inbox import Dropped, Inbox
from clew_daemon.inbox.inbox import Verdict as Dropping
from clew_daemon.inbox.leftovers import InboxLeft, Left
from clew_daemon.inbox.owner import HeldElsewhereError, InboxOwner, NotOwnerError
from clew_daemon.learning.deltas import VERDICTS_MIN
from clew_daemon.learning.playbook import PlaybookStore
from clew_daemon.learning.reviewer import PRUNE_EVERY_S, Reviewer
from clew_daemon.parts import DaemonParts
from clew_daemon.presence import Presence
from clew_daemon.processes import vitals
from clew_daemon.processes.cells import executor_env
from clew_daemon.processes.children import Children
from clew_daemon.processes.llm_slots import LlmSlots
from clew_daemon.processes.nursery import Nursery, SpawnError
from clew_daemon.publish.publisher import Publisher
from clew_daemon.record import home
from clew_daemon.record.dependencies import Known
from clew_daemon.record.doing import now_view
from clew_daemon.record.goals import Book
from clew_daemon.record.listing import listed
from clew_daemon.record.lost_record import accept as accept_lacking
from clew_daemon.record.lost_record import lacking, lost
from clew_daemon.record.watch import EVERY_S as RECORD_EVERY_S
from clew_daemon.record.watch import RecordWatch
from clew_daemon.reload import reload
from clew_daemon.session import liveness
from clew_daemon.supervision import schedule
from clew_daemon.supervision.retention import EVERY_S as RETENTION_EVERY_S
from clew_daemon.supervision.retention import Retention
from clew_daemon.supervision.supervisor import Supervisor
from clew_shared.config.configfile import ConfigFileError
from clew_shared.config.settings import SettingsError
from clew_shared.exit_codes import ExitCode
from clew_shared.ledger import (
    Ledger,
    LedgerError,
    LedgerFailed,
    LedgerLostError,
    LedgerState,
    LedgerUnwell,
)
from clew_shared.ledger.writer import SLOW_S
from clew_shared.record import events as ev
from clew_shared.text.plain import plain
from clew_shared.views.publish import goal_detail, status_view

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from clew_daemon.bootstrap import Beginning
    from clew_shared.config.settings import SettingChange
    from clew_shared.record.state import State

log = structlog.get_logger()

FOREIGN_PROC = (
    "/proc belongs to another PID namespace: the memory of workers is not measured. "
    "Mount a separate one (`unshare --pid --fork --mount-proc`)"
)
MORE_ROOM = (
    "Free some disk space, or raise the limits of the unit (LimitNOFILE=) or the shell (ulimit -n)"
)
LEDGER_CLOSE_S = 10.0
RESCUE_TOLD_S = 5.0
STATUS_EVERY_S = 1.0
VERDICT_S = 60.0
"""How long STATUS= says what became of a reload."""
SLOW_EVERY_S = 60.0


def run(beginning: Beginning) -> int:
    """Run the daemon in the foreground until it is told to stop; gives the exit code."""
    try:
        return _lived(App(beginning))
    except (LedgerError, FolderError, ThreadsError) as error:
        passing = isinstance(error, LedgerFailed | LedgerUnwell | ThreadsError)
        passing = passing and not isinstance(error, LedgerLostError)
        code = ExitCode.FAILED if passing else ExitCode.CONFIGURATION
        log.critical("daemon.stopped", reason=str(error), code=code)
        return failed(str(error), code)
    except NotOwnerError as error:
        code = ExitCode.FAILED if isinstance(error, HeldElsewhereError) else ExitCode.CONFIGURATION
        log.critical("daemon.stopped", reason=str(error), code=code)
        return failed(str(error), code)
    except Exception as error:  # by the log, which takes keys out of it
        if isinstance(error, OSError) and error.errno in PASSING:
            log.critical("daemon.stopped", reason=plain(error), code=ExitCode.FAILED)
            return failed(f"out of resources: {plain(error)}. {MORE_ROOM}", ExitCode.FAILED)
        log.critical("daemon.bug", error=repr(error), exc_info=True)
        return failed(
            f"stopped by a bug: {type(error).__name__}; see the log for details", ExitCode.FAILED
        )


def _lived(app: App) -> int:
    """Live on an event loop of one's own; gives the exit code."""
    code = None
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(app.run())
    except RuntimeError:
        if code is None:
            raise
        # asyncio waits for its threads in a new one, and there is none to be had: nothing is left to do in them
    return code


class App:
    """One life of the daemon."""

    def __init__(self, beginning: Beginning) -> None:
        self._beginning = beginning
        self._places = beginning.places
        self._keys = beginning.keys
        self._notifier = Notifier.from_env(beginning.keys.env)
        self._began = time.monotonic()
        self._stop = asyncio.Event()
        self._hangup = asyncio.Event()
        self._news = asyncio.Event()
        self._interrupts = 0
        self._ready = False
        self._slow_again = 0.0
        self._trouble = ""
        self._verdict = ""
        self._verdict_ends: asyncio.TimerHandle | None = None
        self._settings = beginning.settings
        config = ConfigWatch(self._places.config, self._keys.env)
        self._config_error: Glance[str | None] = Glance(config.error, None)
        self._inbox_left = Glance(InboxLeft(self._places.inbox).look, Left())
        self._ledger: Ledger | None = None
        self._inbox_owner = InboxOwner(self._places.inbox, self._places.socket)
        self._tasks: list[asyncio.Task[Any]] = []

    async def run(self) -> int:
        """Start, serve, stop."""
        self._listen()
        log.info(
            "daemon.started",
            pid=os.getpid(),
            version=VERSION,
            state=str(self._places.state),
        )
        if not vitals.is_proc_ours():
            log.warning("proc.foreign", hint=FOREIGN_PROC)
        self._refuse_incomplete()
        with contextlib.suppress(OSError):  # the inbox says what is wrong, and tries again
            self._inbox_owner.take()
        ledger = self._ledger = Ledger.open(
            self._ledger_path(),
            on_state=self._ledger_state,
            lock=self._beginning.locks.ledger,
            refuges=[self._places.run],
        )
        self._watch = RecordWatch(ledger, self._places.state)
        noted = False
        try:
            await self._serve(ledger)
            noted = await self._watch.close()
        finally:
            failure = ledger.failure
            with contextlib.suppress(LedgerError):
                await ledger.close(LEDGER_CLOSE_S, keeps_log=not noted)
        if failure:
            raise failure
        log.info("daemon.stopped", code=ExitCode.OK)
        return ExitCode.OK

    def _refuse_incomplete(self) -> None:
        """Begin no ledger where one was lost, and go on with none that lacks what was recorded."""
        path, state = self._ledger_path(), self._places.state
        if gone := lost(path, state):
            raise gone
        missing = lacking(path, state)
        if missing and not missing.is_copied:
            raise missing.error(path)
        if missing:  # the rest is in the original, and nothing goes on here before a person says so
            aside = accept_lacking(path, state, missing)
            log.warning(
                "ledger.behind", lacks=list(missing.faults), aside=[str(p) for p in aside.values()]
            )

    async def _serve(self, ledger: Ledger) -> None:
        _start_threads(ledger)
        beginning = self._beginning
        book = Book(ledger, self._settings)
        book.listeners.append(lambda *_: self._news.set())
        book.listeners.append(self._watch.heard)
        before, now = home.last(ledger), home.here(self._places.state)
        if not await self._done_unless_stopped(self._settle_home(book, before, now)):
            return
        children = Children()
        daemon = self._daemon = DaemonParts(
            places=self._places,
            settings=self._settings,
            keys=self._keys,
            book=book,
            playbook=PlaybookStore(book),
            children=children,
            cgroups=beginning.cgroups,
            nursery=Nursery(children, beginning.nursery_env, beginning.preload, beginning.zygote),
            slots=LlmSlots(lambda: self._daemon.settings.limits.llm_calls),
            publisher=Publisher(book),
            git=beginning.git,
        )
        daemon.playbook.load()
        self._supervisor = Supervisor(daemon)
        self._reviewer = Reviewer(daemon.book, daemon.playbook, lambda: daemon.settings.playbook)
        self._retention = Retention(daemon, self._supervisor.uses)
        people = People(daemon, self._supervisor)
        self._people = people
        control = Control(self._places.socket, self._handlers(people))
        inbox = Inbox(
            self._places.inbox,
            self._places.inbox / "rejected",
            settle_s=self._settings.daemon.settle_s,
            sweep_s=self._settings.daemon.sweep_s,
            owner=self._inbox_owner,
            accept=self._accept,
            log=log,
        )
        self._end_leftovers(book, ours=home.is_same_process_space(before, now))
        try:
            await self._start(inbox, control)
            await self._stop.wait()
        finally:
            await self._shut_down(inbox, control)

    async def _start(self, inbox: Inbox, control: Control) -> None:
        await control.start()
        nursery = self._daemon.nursery
        try:
            await nursery.start()
        except SpawnError as error:
            log.error("nursery.failed", reason=str(error))  # noqa: TRY400 - a reason, no bug
        else:
            for message in nursery.report.messages if nursery.report else ():
                log.warning("sandbox.limits", message=message)
        self._reviewer.start()
        await self._supervisor.start()
        await inbox.start()
        sweep_s = self._settings.daemon.sweep_s
        presence = Presence(self._beginning, control)
        for coroutine in (
            background.steadily("ledger", RECORD_EVERY_S, lambda: self._look(presence)),
            self._watch.notes(),
            self._reloads(),
            self._tell(),
            background.steadily("sweep", sweep_s, self._sweep, first_s=sweep_s),
            background.steadily("retention", RETENTION_EVERY_S, self._retention.run),
            background.steadily("prune", PRUNE_EVERY_S, self._prune),
        ):
            self._tasks.append(background.begin(coroutine))
        if self._notifier.watchdog_interval_s:
            feeding = self._watchdog(self._notifier.watchdog_interval_s)
            self._tasks.append(background.begin(feeding))
        self._ready = True
        self._notifier.ready(self._status_text())
        states = self._daemon.book.states().values()
        working = [s.goal_id for s in states if s.goal.status == "in_progress"]
        if working:
            log.info("daemon.recovered", goals=working)
        log.info("daemon.ready", goals=len(self._daemon.book.cores), inbox=str(self._places.inbox))

    async def _shut_down(self, inbox: Inbox, control: Control) -> None:
        self._ready = False
        self._notifier.stopping()
        log.info("daemon.stopping")
        await inbox.stop()
        self._inbox_owner.release()
        await self._supervisor.stop()
        await self._reviewer.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._daemon.publisher.close()
        await self._saved()
        await control.stop()
        await self._daemon.nursery.stop()
        self._daemon.children.sweep()

    # -- signals -------------------------------------------------------------------------------------

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_unexpected)
        loop.add_signal_handler(signal.SIGTERM, self._told_to_stop)
        loop.add_signal_handler(signal.SIGINT, self._interrupted)
        loop.add_signal_handler(signal.SIGHUP, self._hung_up)
        if self._beginning.terminal.is_lost:  # before there was a handler
            self._hung_up()

    def _interrupted(self) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            os._exit(
                ExitCode.FAILED
            )  # every worker dies with the daemon; the ledger is a valid prefix
        self._told_to_stop()

    def _told_to_stop(self) -> None:
        self._stop.set()
        if self._ledger:
            self._ledger.abandon()

    def _hung_up(self) -> None:
        """Reload, unless the terminal that the daemon was started in has been closed."""
        stops = self._beginning.terminal.stops()
        if stops is None:
            self._hangup.set()
        elif stops:
            log.info("daemon.terminal_closed")
            self._told_to_stop()

    # -- reload --------------------------------------------------------------------------------------

    async def _reloads(self) -> None:
        """Reload on SIGHUP; signals that come together are one."""
        while True:
            await self._hangup.wait()
            self._hangup.clear()
            with contextlib.suppress(ControlError):
                await self._reload()

    async def _reload(self) -> list[SettingChange]:
        """Take over what the config says now; raises ControlError and changes nothing where it is broken."""
        self._notifier.reloading()
        git = await self._identity()
        try:
            taken = reload(self._places.config, self._keys.env, self._daemon.settings)
            configure_log(self._places, taken.settings, self._keys)
        except (SettingsError, ConfigFileError, OSError) as error:
            self._judge(f"reload refused: {str(error).splitlines()[0]}")
            log.error("config.rejected", reason=str(error))  # noqa: TRY400 - a reason, no bug
            raise ControlError(f"nothing was changed:\n{error}") from None
        else:
            found = [*taken.changes, *git_identity.changes(self._daemon.git, git)]
            changed = len(found)
            self._judge(
                f"reloaded, {changed} key{'s' if changed != 1 else ''} changed" if changed else ""
            )
            daemon = self._daemon
            daemon.settings, daemon.git = taken.settings, git
            daemon.book.adopt(taken.settings, daemon.settings_of)
            daemon.nursery.preload(preload(taken.settings))
            self._supervisor.reloaded()
            await asyncio.to_thread(note_places, self._places, taken.settings, self._keys)
            log.info(
                "config.reloaded",
                changed={c.key: {"old": c.old, "new": c.new} for c in found},
                restart_needed=[c.key for c in found if c.applies == "after a restart"],
            )
            return found
        finally:
            self._notifier.ready(self._status_text())

    def _judge(self, verdict: str) -> None:
        """Show what became of a reload in STATUS=, for a while."""
        self._verdict = verdict
        if self._verdict_ends:
            self._verdict_ends.cancel()
        loop = asyncio.get_running_loop()
        self._verdict_ends = loop.call_later(VERDICT_S, self._judged) if verdict else None

    def _judged(self) -> None:
        self._verdict, self._verdict_ends = "", None
        self._news.set()

    async def _identity(self) -> dict[str, str]:
        """Read who commits; meanwhile no child of the daemon is taken for an orphan."""
        children = self._daemon.children
        children.spawning += 1
        try:
            return await asyncio.to_thread(git_identity.read, self._keys.env)
        finally:
            children.spawning -= 1

    # -- the control socket ----------------------------------------------------------------------------

    def _handlers(self, people: People) -> dict[str, Any]:
        return {
            "ping": self._ping,
            "status": self._status,
            "reload": self._reload_asked,
            "settings": self._settings_asked,
            "executor_env": self._executor_env_asked,
            "feedback": people.feedback,
            "unblock": people.unblock,
            "pause": people.pause,
            "resume": people.resume,
            "cancel": people.cancel,
            "retry": people.retry,
            **Strategies(self._daemon).handlers(),
        }

    async def _ping(self, _: dict[str, Any]) -> dict[str, Any]:
        return await self._view()

    async def _settings_asked(self, _: dict[str, Any]) -> dict[str, Any]:
        return self._daemon.settings.model_dump(mode="json")

    async def _executor_env_asked(self, _: dict[str, Any]) -> dict[str, str]:
        """Tell what executors get of the environment: for the doctor, which may have been started with another."""
        return executor_env(self._daemon.settings, self._keys.env, self._daemon.git)

    async def _status(self, params: dict[str, Any]) -> dict[str, Any]:
        states, running = self._daemon.book.states(), self._supervisor.running
        now = time.time()
        if params.get("goal"):
            state = (await self._people.whole(params)).state
            known = Known(self._daemon.book.states(), self._daemon.book.gone)
            waits = schedule.waits_for(state, known, running, now, hint=True)
            detail = {**goal_detail(state, now, waits), "now": self._now(state)}
            return {"daemon": await self._view(), "goal": detail}
        before, limit = params.get("before"), params.get("limit")
        if limit is not None and (type(limit) is not int or limit < 0):
            raise ControlError(
                f"`limit` is {limit!r}; it must be a number of goals, or null for all"
            )
        last = None if before is None else self._people.find({"goal": before}).state.accepted_seq
        shown, more = listed(states.values(), limit, last)
        known = Known(states, self._daemon.book.gone)
        goals = [
            {
                **status_view(state, now, schedule.waits_for(state, known, running, now)),
                "now": self._now(state),
            }
            for state in shown
        ]
        left = await self._inbox_left.now()
        return {"daemon": await self._view(), "goals": goals, "more": more, **left.view()}

    def _now(self, state: State) -> dict[str, Any] | None:
        session = self._supervisor.session(state.goal_id)
        return now_view(state, session.work if session else None)

    async def _reload_asked(self, _: dict[str, Any]) -> dict[str, Any]:
        found = await self._reload()
        return {
            "changes": [
                {"key": c.key, "old": c.old, "new": c.new, "live": c.live, "applies": c.applies}
                for c in found
            ]
        }

    async def _view(self) -> dict[str, Any]:
        report = self._daemon.nursery.report
        return {
            "pid": os.getpid(),
            "version": VERSION,
            "uptime_s": round(time.monotonic() - self._began, 3),
            "ready": self._ready,
            "status": self._status_text(),
            "config_error": await self._config_error.now(),
            "managed": self._notifier.is_heard,
            "sandbox": {
                "mode": self._daemon.settings.sandbox.mode,
                "landlock_abi": report.landlock_abi if report else None,
                "isolation": report.isolation if report else None,
                "messages": list(report.messages) if report else [],
            },
            "cgroup": self._daemon.cgroups.view(),
        }

    # -- in the background -----------------------------------------------------------------------------

    async def _accept(self, dropped: Dropped) -> Dropping:
        return await accept(self._daemon, dropped)

    async def _tell(self) -> None:
        """Keep STATUS= true: some time after what was recorded last, so that an idle daemon sleeps."""
        said = ""
        while True:
            await self._news.wait()
            await asyncio.sleep(STATUS_EVERY_S)
            self._news.clear()
            text = self._status_text()
            if text != said:
                self._notifier.status(text)
                said = text

    def _status_text(self) -> str:
        if self._trouble:
            return self._trouble
        states = list(self._daemon.book.states().values())
        running = sum(s.goal.status == "in_progress" for s in states)
        blocked = sum(s.goal.status == "blocked" for s in states)
        waiting = sum(s.waits_for_time for s in states)
        parts = [f"{running} goal{'s' if running != 1 else ''} running, {blocked} blocked"]
        parts[0] += f", {waiting} waiting" if waiting else ""
        if self._supervisor.last_restart:
            parts.append(f"last restart: {self._supervisor.last_restart}")
        if self._verdict:
            parts.append(self._verdict)
        if weaker := self._weaker():
            parts.append(weaker)
        return "; ".join(parts)

    def _weaker(self) -> str:
        """Say where the sandbox is less than `enforce` promises, "" where it is not."""
        mode, report = self._daemon.settings.sandbox.mode, self._daemon.nursery.report
        if mode == "off":
            return "workers run without a sandbox ([sandbox] mode = off)"
        if mode == "best_effort" and report and not report.landlock_abi:
            return "no Landlock here: workers run without it ([sandbox] mode = best_effort)"
        return ""

    async def _watchdog(self, interval_s: float) -> None:
        """Feed the manager's watchdog while the event loop and the ledger really answer."""
        ledger = self._daemon.book.ledger
        while True:
            if ledger.state is LedgerState.FULL or await ledger.sync(interval_s):
                self._notifier.watchdog()
            await asyncio.sleep(interval_s)

    async def _sweep(self) -> None:
        """Reap what cells leave behind, as a second line; set down goals that nobody works on any more."""
        self._daemon.children.sweep()
        await self._retention.set_down()

    async def _prune(self) -> None:
        """Archive strategies that have proved harmful."""
        settings = self._daemon.settings.playbook
        if settings.enabled:
            await self._daemon.playbook.prune(settings.prune_below, VERDICTS_MIN)

    # -- the ledger ------------------------------------------------------------------------------------

    def _ledger_path(self) -> Path:
        return ledger_file(self._places, self._settings)

    def _ledger_state(self, state: LedgerState) -> None:
        match state:
            case LedgerState.FULL:
                self._trouble = (
                    "the disk is full: nothing is accepted or judged until there is space"
                )
                log.critical("ledger.full", path=str(self._ledger_path()))
            case LedgerState.SLOW:
                self._say_slow()
            case LedgerState.FAILED:
                self._say_failed()
                self._stop.set()
            case _:
                if self._trouble:
                    log.info("ledger.recovered")
                self._trouble = ""
        self._notifier.status(self._status_text() if self._ready else "starting")

    def _say_failed(self) -> None:
        failure = self._ledger.failure if self._ledger else None
        if isinstance(failure, LedgerLostError):
            self._trouble = f"{failure.what}: {failure.hint}"
            log.critical("ledger.lost", reason=str(failure))
        else:
            self._trouble = "the ledger cannot be written: the daemon stops"
            log.critical("ledger.failed", reason=str(failure))

    async def _look(self, presence: Presence) -> None:
        """Look after the ledger first: where that is gone, nothing is made in what stands there now."""
        await self._watch.look()
        await presence.look()

    async def _saved(self) -> None:
        """Wait until what a lost ledger held is saved, or cannot be; the ledger bounds the wait."""
        ledger = self._daemon.book.ledger
        while isinstance(ledger.failure, LedgerLostError):
            self._notifier.extend(3 * RESCUE_TOLD_S)
            if found := await ledger.rescued(RESCUE_TOLD_S):
                self._watch.saved(found)
                log.critical("ledger.saved", file=str(found.copy or found.file), said=found.said)
                return

    def _say_slow(self) -> None:
        """Say that the disk is slow, at most once in a while: it may be so now and then for hours."""
        now = time.monotonic()
        if now >= self._slow_again:
            self._slow_again = now + SLOW_EVERY_S
            log.warning("ledger.slow", path=str(self._ledger_path()), longer_than_s=SLOW_S)

    # -- small things ----------------------------------------------------------------------------------

    async def _settle_home(
        self, book: Book, before: ev.HomeKnown | None, now: ev.HomeKnown
    ) -> None:
        """Let no goal go on by itself in a copied or moved home, and then know the home."""
        if before and home.is_other(before, now):
            log.warning("home.other", before=before.path, host=before.host, now=now.path)
            for core in book.cores.values():
                if core.state.goal.status in home.UNFINISHED:
                    reason, question = home.question(before, core.state)
                    blocked = ev.GoalBlocked(at=time.time(), reason=reason, question=question)
                    await book.emit(core, blocked)
        if home.has_changed(before, now):  # on a full disk nothing else has to wait for this
            self._tasks.append(background.begin(book.emit_own([now])))

    async def _done_unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do what may have to wait for room on the disk; False where the daemon is told to stop meanwhile."""
        doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(self._stop.wait())
        await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if doing.done():
            doing.result()
            return True
        doing.cancel()
        return False

    def _end_leftovers(self, book: Book, *, ours: bool) -> None:
        """End workers of this home's last daemon, should any live: recognised by number and creation time.

        `ours` says that process numbers still mean what they meant to that daemon.
        """
        for state in book.states().values() if ours else ():
            if not (state.working and state.pid):
                continue
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(state.pid)
                if abs(process.create_time() - state.pid_created) < 0.01:
                    log.warning("worker.leftover", goal=state.goal_id, pid=state.pid)
                    for one in [*process.children(recursive=True), process]:
                        with contextlib.suppress(psutil.NoSuchProcess):
                            one.kill()


def _unexpected(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what no one caught: a bug, and never silent."""
    error = context.get("exception")
    log.error("daemon.bug", message=context.get("message"), error=repr(error), exc_info=error)


def _start_threads(ledger: Ledger) -> None:
    """Start all threads now, before anything depends on one; raises ThreadsError."""
    try:
        ledger.begin()
    except RuntimeError:
        raise ThreadsError from None
    liveness.begin()
    asyncio.get_running_loop().set_default_executor(pool(THREADS, "clew"))
