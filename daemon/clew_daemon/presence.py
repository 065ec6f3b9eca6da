"""Whether the daemon's locks and its socket are still where others look for them.

Someone may remove the run folder, or a lock file that looks stale. What is missing is made again; where another
daemon was faster and has the ledger's lock, this one ends at once, since two must not write.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import structlog

from clew_daemon.bootstrap import failed, ledger_lock
from clew_daemon.host.folders import FolderError, make_private
from clew_shared.exit_codes import ExitCode
from clew_shared.ledger.lock import LockError, LockHeldError, acquire_pid_file

if TYPE_CHECKING:
    from pathlib import Path

    from clew_daemon.bootstrap import Beginning
    from clew_daemon.control.server import Control

log = structlog.get_logger()

EVERY_S = 1.0


class Presence:
    """Of one daemon; `look` is called once in a while, on the event loop."""

    def __init__(self, beginning: Beginning, control: Control) -> None:
        self._places = beginning.places
        self._settings = beginning.settings
        self._locks = beginning.locks
        self._folder = _identity(self._locks.ledger.path.parent)
        self._terminal = beginning.terminal
        self._control = control
        self._told = ""

    async def look(self) -> None:
        """Make again what is missing; what cannot be made is logged once, and tried again at the next look."""
        self._terminal.look()
        try:
            self._hold_ledger()
            await self._be_found()
        except (LockError, FolderError, OSError) as error:
            self._tell(str(error))
        else:
            self._told = ""

    def _hold_ledger(self) -> None:
        lock = self._locks.ledger
        if lock.is_in_place or _identity(lock.path.parent) != self._folder:
            return  # of a whole folder that is gone or replaced, the old lock is kept: the ledger lies beside it
        try:
            lock.adopt(ledger_lock(self._places, self._settings))
        except LockHeldError as error:
            what = f"the lock {lock.path} was removed, and another process has taken it: {error.holder.running}"
            log.critical("daemon.stopped", reason=what, code=ExitCode.FAILED)
            failed(what, ExitCode.FAILED)
            os._exit(
                ExitCode.FAILED
            )  # at once: the workers die with this process, and nothing more is written
        log.warning("lock.renewed", path=str(lock.path))

    async def _be_found(self) -> None:
        run, control = self._locks.run, self._control
        if run.is_in_place and control.is_found:
            return
        make_private(self._places.run)
        if not run.is_in_place:
            run.adopt(acquire_pid_file(self._places.run))
        if not control.is_found:
            await control.renew()
        log.warning("control.renewed", path=str(self._places.socket))

    def _tell(self, reason: str) -> None:
        if reason != self._told:
            log.error("control.lost", reason=reason)
            self._told = reason


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
