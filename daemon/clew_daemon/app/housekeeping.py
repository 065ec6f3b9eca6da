"""The daemon's periodic work beside its goals: each piece is a task that runs until the daemon stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from clew_daemon.app.ledger_health import EVERY_S as LEDGER_EVERY_S
from clew_daemon.app.ledger_health import LedgerWatch
from clew_daemon.host import background
from clew_daemon.host.sd_notify import Notifier
from clew_daemon.learning.deltas import VERDICTS_MIN
from clew_daemon.learning.reviewer import PRUNE_EVERY_S
from clew_daemon.parts import DaemonParts
from clew_daemon.presence import PresenceCheck
from clew_daemon.supervision.retention import EVERY_S as RETENTION_EVERY_S
from clew_daemon.supervision.retention import Retention
from clew_daemon.supervision.stores import SnapshotStores
from clew_shared.ledger import LedgerState


class Housekeeping:
    """Watches ledger and locks, sweeps orphans, evicts and expires goals, prunes strategies, feeds the watchdog."""

    def __init__(
        self,
        daemon: DaemonParts,
        watch: LedgerWatch,
        presence: PresenceCheck,
        retention: Retention,
        stores: SnapshotStores,
    ) -> None:
        self._daemon = daemon
        self._watch = watch
        self._presence = presence
        self._retention = retention
        self._stores = stores
        self._tasks: list[asyncio.Task[Any]] = []

    async def start(self, notifier: Notifier) -> None:
        """Start all periodic work."""
        sweep_s = self._daemon.settings.daemon.sweep_s
        self.run(background.repeat("ledger", LEDGER_EVERY_S, self._look))
        self.run(background.repeat("sweep", sweep_s, self._sweep, first_s=sweep_s))
        self.run(background.repeat("retention", RETENTION_EVERY_S, self._forget))
        self.run(background.repeat("prune", PRUNE_EVERY_S, self._prune))
        if notifier.watchdog_interval_s:
            self.run(self._feed_watchdog(notifier, notifier.watchdog_interval_s))

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until it ends or the daemon stops."""
        self._tasks.append(background.start(coroutine))

    async def stop(self) -> None:
        """Cancel everything, and wait for it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look(self) -> None:
        """Check the ledger first: where it was lost, nothing may be created in its place."""
        await self._watch.look()
        await self._presence.look()

    async def _sweep(self) -> None:
        """Reap what cells leave behind, as a second line of defence; evict settled goals from memory."""
        self._daemon.children.sweep()
        await self._retention.evict()

    async def _forget(self) -> None:
        """Expire goals, then remove the snapshots that no goal has, or that are too many."""
        await self._retention.run()
        await self._stores.run()

    async def _prune(self) -> None:
        """Archive strategies that have proved harmful."""
        settings = self._daemon.settings.playbook
        if settings.enabled:
            await self._daemon.playbook.prune(settings.prune_below, VERDICTS_MIN)

    async def _feed_watchdog(self, notifier: Notifier, interval_s: float) -> None:
        """Feed the service manager's watchdog while the event loop and the ledger really answer."""
        ledger = self._daemon.goals.ledger
        while True:
            if ledger.state is LedgerState.FULL or await ledger.sync(interval_s):
                notifier.watchdog()
            await asyncio.sleep(interval_s)
