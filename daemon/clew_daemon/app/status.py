"""How the daemon describes itself: STATUS= for the service manager, and the `daemon` object of `clew status`."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from clew_daemon import VERSION
from clew_daemon.host.last_known import LastKnown
from clew_daemon.host.sd_notify import Notifier
from clew_daemon.parts import DaemonParts
from clew_daemon.reload import ConfigWatch
from clew_daemon.supervision.supervisor import Supervisor
from clew_shared.config.tables import Settings

EVERY_S = 1.0
RELOAD_RESULT_S = 60.0
"""How long STATUS= shows the result of a reload."""


class StatusLine:
    """STATUS=, and the daemon's states as the service manager knows them."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._described: tuple[DaemonParts, Supervisor] | None = None
        self._news = asyncio.Event()
        self._trouble = ""
        self._starting = ""
        self._reload_result = ""
        self._reload_timer: asyncio.TimerHandle | None = None
        self.is_ready = False

    def describe(self, daemon: DaemonParts, supervisor: Supervisor) -> None:
        """Describe these from now on, whenever something is recorded."""
        self._described = daemon, supervisor
        daemon.goals.listeners.append(lambda *_: self._news.set())

    def starting(self, what: str, within_s: float) -> None:
        """Report what the start waits for, and ask the service manager for the time that this may take."""
        self._starting = what
        self._notifier.extend(within_s)
        self._notifier.status(what)

    def ready(self) -> None:
        """Report that the daemon serves."""
        self.is_ready, self._starting = True, ""
        self._notifier.ready(self.text())

    def reloaded(self) -> None:
        """Report the end of a reload; it may come while the daemon still starts, or already stops."""
        self._notifier.ready(self.text())

    def stopping(self) -> None:
        """Report that the daemon stops."""
        self.is_ready = False
        self._notifier.stopping()

    def show_trouble(self, trouble: str) -> None:
        """Show what is wrong with the ledger instead of everything else, "" to show the rest again."""
        self._trouble = trouble
        self._notifier.status(self.text() if self.is_ready else "starting")

    def show_reload(self, result: str) -> None:
        """Show the result of a reload for a while."""
        self._reload_result = result
        if self._reload_timer:
            self._reload_timer.cancel()
        loop = asyncio.get_running_loop()
        expire = self._expire_reload
        self._reload_timer = loop.call_later(RELOAD_RESULT_S, expire) if result else None

    def _expire_reload(self) -> None:
        self._reload_result, self._reload_timer = "", None
        self._news.set()

    async def follow(self) -> None:
        """Update STATUS= some time after the last record; an idle daemon sleeps."""
        sent = ""
        while True:
            await self._news.wait()
            await asyncio.sleep(EVERY_S)
            self._news.clear()
            text = self.text()
            if text != sent:
                self._notifier.status(text)
                sent = text

    def text(self) -> str:
        """Return the line: trouble or start, or goals, the last restart, a reload and a weaker sandbox."""
        if self._trouble or self._starting or self._described is None:
            return self._trouble or self._starting
        daemon, supervisor = self._described
        states = list(daemon.goals.states().values())
        running = sum(s.goal.status == "in_progress" for s in states)
        blocked = sum(s.goal.status == "blocked" for s in states)
        waiting = sum(s.waits_for_time for s in states)
        goals = f"{running} goal{'s' if running != 1 else ''} running, {blocked} blocked"
        goals += f", {waiting} waiting" if waiting else ""
        last = supervisor.last_restart and f"last restart: {supervisor.last_restart}"
        parts = [goals, last, self._reload_result, weaker_sandbox(daemon)]
        return "; ".join(part for part in parts if part)


def weaker_sandbox(daemon: DaemonParts) -> str:
    """Return how the sandbox is weaker than `enforce` promises, "" where it is not."""
    mode, report = daemon.settings.sandbox.mode, daemon.nursery.report
    if mode == "off":
        return "workers run without a sandbox ([sandbox] mode = off)"
    if mode == "best_effort" and report and not report.landlock_abi:
        return "no Landlock here: workers run without it ([sandbox] mode = best_effort)"
    return ""


class DaemonView:
    """The `daemon` object in the answers to `ping` and `status`."""

    def __init__(
        self, daemon: DaemonParts, line: StatusLine, *, began: float, managed: bool
    ) -> None:
        self._daemon = daemon
        self._line = line
        self._began = began
        self._managed = managed
        config = ConfigWatch(daemon.places.config, daemon.keys.env)
        self._config_error: LastKnown[str | None] = LastKnown(config.error, None)

    async def now(self) -> dict[str, Any]:
        """Return it as JSON."""
        report = self._daemon.nursery.report
        settings: Settings = self._daemon.settings
        return {
            "pid": os.getpid(),
            "version": VERSION,
            "uptime_s": round(time.monotonic() - self._began, 3),
            "ready": self._line.is_ready,
            "status": self._line.text(),
            "config_error": await self._config_error.now(),
            "managed": self._managed,
            "sandbox": {
                "mode": settings.sandbox.mode,
                "landlock_abi": report.landlock_abi if report else None,
                "isolation": report.isolation if report else None,
                "messages": list(report.messages) if report else [],
            },
            "cgroup": self._daemon.cgroups.view(),
        }
