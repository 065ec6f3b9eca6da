"""What the daemon does beside its goals: it says how it is, watches over its ledger, tidies up, reloads its config."""

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog

from clew_daemon import VERSION
from clew_daemon.bootstrap import configure_log, failed, preload, record_places, warn_of
from clew_daemon.config import configfile
from clew_daemon.control.server import ControlError
from clew_daemon.host import tasks
from clew_daemon.host.own_process import Notifier
from clew_daemon.learning.deltas import VERDICTS_MIN
from clew_daemon.learning.playbook import PRUNE_EVERY_S
from clew_daemon.ledger.ledger import SLOW_S, Ledger
from clew_daemon.ledger.lock import Lock
from clew_daemon.parts import DaemonParts
from clew_daemon.record.lost_record import write_note
from clew_daemon.supervision.afterwards import EVERY_S as RETENTION_EVERY_S
from clew_daemon.supervision.afterwards import Retention, SnapshotStores
from clew_daemon.supervision.supervisor import Supervisor
from clew_shared.config import settings as config
from clew_shared.config.tables import Settings
from clew_shared.exit_codes import ExitCode
from clew_shared.ledger.errors import LedgerError, LedgerLostError, LedgerState

log = structlog.get_logger()

STATUS_EVERY_S = 1.0
SANDBOX = {"landlock_abi", "isolation", "messages"}
LOOK_EVERY_S = 1.0
SLOW_EVERY_S = 60.0
ERROR_CHARS = 4_000
_KEY_ENV = re.compile(r"agents\..+\.api_key_env")


class Status:
    """STATUS=, the daemon's states as the service manager knows them, and `view`."""

    _daemon: DaemonParts
    _supervisor: Supervisor
    _config_error: tasks.LastKnown[str | None]

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._began = time.monotonic()
        self._news = asyncio.Event()
        self._trouble = ""
        self._starting = ""
        self.is_ready = False

    def describe(
        self, daemon: DaemonParts, supervisor: Supervisor, config_error: Callable[[], str | None]
    ) -> None:
        """Describe these from now on; `config_error` looks why the config would be rejected."""
        self._daemon, self._supervisor = daemon, supervisor
        self._config_error = tasks.LastKnown(config_error, None)
        daemon.goals.listeners.append(lambda *_: self._news.set())

    def starting(self, what: str, within_s: float) -> None:
        """Report what the start waits for, and ask the service manager for the time that this may take."""
        self._starting = what
        more = f"EXTEND_TIMEOUT_USEC={int(within_s * 1_000_000)}"
        self._notifier.tell(more, "WATCHDOG=1", status=what)

    def ready(self) -> None:
        self.is_ready, self._starting = True, ""
        self._notifier.ready(self.text())

    def reloading(self) -> None:
        # One datagram: the manager sees by the time which READY=1 belongs to this reload.
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._notifier.tell("RELOADING=1", f"MONOTONIC_USEC={now_us}")

    def reloaded(self) -> None:
        """Report the end of a reload; it may come while the daemon still starts, or already stops."""
        self._notifier.ready(self.text())

    def stopping(self) -> None:
        self.is_ready = False
        self._notifier.tell("STOPPING=1")

    def show_trouble(self, trouble: str) -> None:
        """Show what is wrong with the ledger instead of everything else, "" to show the rest again."""
        self._trouble = trouble
        self._notifier.tell(status=self.text() if self.is_ready else "starting")

    async def follow(self) -> None:
        """Update STATUS= some time after the last record; an idle daemon sleeps."""
        sent = ""
        while True:
            await self._news.wait()
            await asyncio.sleep(STATUS_EVERY_S)
            self._news.clear()
            if (text := self.text()) != sent:
                self._notifier.tell(status=text)
                sent = text

    def text(self) -> str:
        """Return the line: trouble or start, or goals and the last restart."""
        if self._trouble or self._starting:
            return self._trouble or self._starting
        states = list(self._daemon.goals.states().values())
        running = sum(one.goal.status == "in_progress" for one in states)
        blocked = sum(one.goal.status == "blocked" for one in states)
        text = f"{running} goal{'s' if running != 1 else ''} running, {blocked} blocked"
        if waiting := sum(one.waits_for_time for one in states):
            text += f", {waiting} waiting"
        last = self._supervisor.history.last
        return f"{text}; last restart: {last}" if last else text

    async def view(self) -> dict[str, object]:
        """Return the `daemon` object in the answers to `ping` and `status`."""
        report, none = self._daemon.nursery.report, {"landlock_abi": None, "isolation": None}
        found = report.model_dump(mode="json", include=SANDBOX) if report else none
        return {
            "pid": os.getpid(),
            "version": VERSION,
            "uptime_s": round(time.monotonic() - self._began, 3),
            "ready": self.is_ready,
            "status": self.text(),
            "config_error": await self._config_error.now(),
            "managed": self._notifier.is_managed,
            "sandbox": {"mode": self._daemon.settings.sandbox.mode, "messages": [], **found},
            "cgroup": self._daemon.cgroups.view(),
        }


@dataclass(eq=False)
class LedgerWatch:
    """Logs each change of the ledger's state, looks after its files, and stops the daemon when it has failed."""

    _path: Path
    _lock: Lock
    _status: Status
    _stop: Callable[[], None]
    _troubled: bool = False
    _slow_logged_at: float = float("-inf")
    _noted: int = 0
    _last_fault: str = ""

    def __post_init__(self) -> None:
        """Open the ledger; raises LedgerError."""
        self.ledger = Ledger.open(self._path, on_state=self._on_state, lock=self._lock)

    def _on_state(self, state: LedgerState) -> None:
        """Handle a new state, on the event loop."""
        trouble, failure = "", self.ledger.failure
        if state is LedgerState.SLOW:
            now = time.monotonic()
            if now >= self._slow_logged_at + SLOW_EVERY_S:
                self._slow_logged_at = now
                log.warning("ledger.slow", path=str(self._path), longer_than_s=SLOW_S)
            return
        if state is LedgerState.FULL:
            trouble = "the disk is full: nothing is accepted or judged until there is space"
            log.critical("ledger.full", path=str(self._path))
        elif state is LedgerState.FAILED:
            trouble = "the ledger cannot be written: the daemon stops"
            if lost := isinstance(failure, LedgerLostError):
                trouble = f"{failure.what}: {failure.hint}"
            log.critical("ledger.lost" if lost else "ledger.failed", reason=str(failure))
            self._stop()
        elif self._troubled:
            log.info("ledger.recovered")
        self._troubled = bool(trouble)
        self._status.show_trouble(trouble)

    async def look(self) -> None:
        """Raise LedgerFailed if the files differ, after which nothing is judged; end at once without the lock."""
        self.ledger.look()
        if not self._lock.is_in_place:
            what = f"the lock {self._lock.path} was removed: another process may write to the ledger now"
            log.critical("daemon.stopped", reason=what, code=ExitCode.FAILED)
            failed(what, ExitCode.FAILED)
            os._exit(ExitCode.FAILED)  # the workers die too, and nothing more is written
        if self.ledger.assigned > self._noted:
            await self.note()

    async def note(self) -> None:
        """Write the note; a failure is logged once, and the next look tries again."""
        fault = ""
        try:
            if last := await asyncio.to_thread(self.ledger.tip):
                await asyncio.to_thread(write_note, self.ledger.path, last)
                self._noted = last[0]
        except (LedgerError, OSError) as error:
            fault = str(error)
        if fault and fault != self._last_fault:
            log.warning("ledger.unnoted", path=str(self._path), reason=fault)
        self._last_fault = fault


@dataclass(eq=False)
class Housekeeping:
    """The daemon's periodic work: each piece is a task that runs until the daemon stops."""

    _daemon: DaemonParts
    _watch: LedgerWatch
    _retention: Retention
    _stores: SnapshotStores
    _tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    async def start(self, notifier: Notifier) -> None:
        """Start all periodic work."""
        sweep_s = self._daemon.settings.daemon.sweep_s
        self.run(tasks.repeat("ledger", LOOK_EVERY_S, self._watch.look))
        self.run(tasks.repeat("sweep", sweep_s, self._sweep, first_s=sweep_s))
        kept_s = self._daemon.settings.ledger.keep_days * 86_400
        every_s = min(RETENTION_EVERY_S, max(1.0, kept_s))
        self.run(tasks.repeat("retention", every_s, self._forget))
        self.run(tasks.repeat("prune", PRUNE_EVERY_S, self._prune))
        if notifier.watchdog_interval_s:
            self.run(self._feed_watchdog(notifier, notifier.watchdog_interval_s))

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until it ends or the daemon stops."""
        self._tasks.append(tasks.start(coroutine))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _sweep(self) -> None:
        """Reap what cells leave behind, as a second line of defence; evict settled goals from memory."""
        self._daemon.children.sweep()
        await self._retention.evict()

    async def _forget(self) -> None:
        """Expire goals, then remove the snapshots that no goal has, or that are too many."""
        await self._retention.run()
        await self._stores.run()

    async def _prune(self) -> None:
        settings, playbook = self._daemon.settings.playbook, self._daemon.playbook
        if settings.enabled:
            await playbook.change(lambda draft: draft.prune(settings.prune_below, VERDICTS_MIN))

    async def _feed_watchdog(self, notifier: Notifier, interval_s: float) -> None:
        """Feed the service manager's watchdog while the event loop and the ledger really answer."""
        ledger = self._daemon.goals.ledger
        while True:
            if ledger.state is LedgerState.FULL or await ledger.sync(interval_s):
                notifier.tell("WATCHDOG=1")
            await asyncio.sleep(interval_s)


# -- the config, reloaded on SIGHUP and by `clew reload`: all of it is checked first, and where anything is wrong,
# nothing changes


def reload(
    path: Path, env: Mapping[str, str], now: Settings, visible: Mapping[str, str] = os.environ
) -> tuple[Settings, list[config.SettingChange], tuple[str, ...]]:
    """Return the settings from now on, every key that changed, and what is said of keys that are not used any more.

    `env` is what the daemon was started with, `visible` what is left of it; raises SettingsError, ConfigFileError.
    """
    loaded = config.load(configfile.read(path), env, str(path))
    fresh, tables = loaded.settings, (*config.LIVE_TABLES, *config.LATER_TABLES)
    taken = {t: getattr(fresh, t) for t in tables if getattr(fresh, t) != getattr(now, t)}
    workers = {"max_workers": fresh.daemon.max_workers}
    taken["daemon"] = now.daemon.model_copy(update=workers)

    changed = config.changes(now, fresh)
    for at, one in enumerate(changed):
        name = one.new if isinstance(one.new, str) and _KEY_ENV.fullmatch(one.key) else None
        if name is not None and (name not in env or name in visible):  # not hidden at the start
            changed[at] = replace(one, applies="after a restart")
    return now.model_copy(update=taken), changed, loaded.outdated


def config_error(
    path: Path, env: Mapping[str, str], known: dict[str | None, str | None]
) -> str | None:
    """Return why the file would be rejected, None if not; it blocks. `known` keeps the answer for a text."""
    try:
        text = configfile.read(path)
    except configfile.ConfigFileError as error:
        return str(error)[:ERROR_CHARS]
    if text not in known:
        known.clear()
        try:
            config.load(text, env, str(path))
            known[text] = None
        except config.SettingsError as error:
            known[text] = str(error)[:ERROR_CHARS]
    return known[text]


async def reload_on_signals(hangup: asyncio.Event, reload: Callable[[], Awaitable[object]]) -> None:
    """Reload whenever `hangup` is set; signals that come together are one."""
    while True:
        await hangup.wait()
        hangup.clear()
        with contextlib.suppress(ControlError):
            await reload()


async def apply_config(
    daemon: DaemonParts, supervisor: Supervisor, status: Status
) -> list[config.SettingChange]:
    """Apply what the config says now; raises ControlError and changes nothing where it is not valid."""
    status.reloading()
    try:
        settings, changed, outdated = reload(daemon.places.config, daemon.keys.env, daemon.settings)
        configure_log(daemon.places, settings, daemon.keys)
    except (config.SettingsError, configfile.ConfigFileError, OSError) as error:
        log.error("config.rejected", reason=str(error))  # noqa: TRY400 - a reason, no bug
        raise ControlError(f"nothing was changed:\n{error}") from None
    else:
        daemon.settings = settings
        daemon.goals.adopt(settings, daemon.settings_of)
        daemon.nursery.preload = preload(settings)
        supervisor.reloaded()
        await asyncio.to_thread(record_places, daemon.places, settings, daemon.keys)
        warn_of(outdated)
        keys = {c.key: {"old": c.old, "new": c.new} for c in changed}
        later = [c.key for c in changed if c.applies == "after a restart"]
        log.info("config.reloaded", changed=keys, restart_needed=later)
        return changed
    finally:
        status.reloaded()
