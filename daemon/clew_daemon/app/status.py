"""How the daemon describes itself: STATUS= for the service manager, and the `daemon` object of `clew status`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

from clew_daemon import VERSION
from clew_daemon.host.own_process import Notifier
from clew_daemon.host.tasks import LastKnown
from clew_daemon.parts import DaemonParts
from clew_daemon.supervision.supervisor import Supervisor

EVERY_S = 1.0
SANDBOX = {"landlock_abi", "isolation", "messages"}


class Status:
    """STATUS=, the daemon's states as the service manager knows them, and `view`."""

    _daemon: DaemonParts
    _supervisor: Supervisor
    _config_error: LastKnown[str | None]

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
        self._config_error = LastKnown(config_error, None)
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
            await asyncio.sleep(EVERY_S)
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
        last = self._supervisor.last_restart
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
