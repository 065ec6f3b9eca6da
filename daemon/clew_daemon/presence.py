"""Keeping the daemon's locks and its socket where others look for them.

A person may remove the run folder, or a lock file that looks stale. What is missing is made again; where another
daemon has taken the ledger's lock first, this one ends at once, since two must not write.
"""

from __future__ import annotations

import os
from pathlib import Path

import structlog

from clew_daemon.bootstrap import Bootstrap, failed, ledger_lock, run_lock
from clew_daemon.control.server import Control
from clew_daemon.host.folders import FolderError, make_private
from clew_shared.exit_codes import ExitCode
from clew_shared.ledger.lock import LockError, LockHeldError

log = structlog.get_logger()

EVERY_S = 1.0


class PresenceCheck:
    """The check of one daemon; call `look` every EVERY_S seconds on the event loop."""

    def __init__(self, bootstrap: Bootstrap, control: Control) -> None:
        self._places = bootstrap.places
        self._settings = bootstrap.settings
        self._locks = bootstrap.locks
        self._folder = _identity(self._locks.ledger.path.parent)
        self._terminal = bootstrap.terminal
        self._control = control
        self._logged = ""

    async def look(self) -> None:
        """Make what is missing again; an error is logged once, and the next look tries again."""
        self._terminal.look()
        try:
            self._keep_ledger_lock()
            await self._keep_reachable()
        except (LockError, FolderError, OSError) as error:
            self._log_once(str(error))
        else:
            self._logged = ""

    def _keep_ledger_lock(self) -> None:
        lock = self._locks.ledger
        if lock.is_in_place or _identity(lock.path.parent) != self._folder:
            return  # where the whole folder is gone or replaced, keep the old lock: the ledger lies beside it
        try:
            lock.adopt(ledger_lock(self._places, self._settings))
        except LockHeldError as error:
            what = f"the lock {lock.path} was removed, and another process has taken it: {error.holder.running}"
            log.critical("daemon.stopped", reason=what, code=ExitCode.FAILED)
            failed(what, ExitCode.FAILED)
            os._exit(ExitCode.FAILED)  # at once: the workers die too, and nothing more is written
        log.warning("lock.renewed", path=str(lock.path))

    async def _keep_reachable(self) -> None:
        run, control = self._locks.run, self._control
        if run.is_in_place and control.is_found:
            return
        make_private(self._places.run)
        if not run.is_in_place:
            run.adopt(run_lock(self._places))
        if not control.is_found:
            await control.renew()
        log.warning("control.renewed", path=str(self._places.socket))

    def _log_once(self, reason: str) -> None:
        if reason != self._logged:
            log.error("control.lost", reason=reason)
            self._logged = reason


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
