"""The owner of an inbox: the one daemon that takes files from it, and holds the lock in it.

The lock is a dot-file in the folder itself, so that it is found whatever path or link leads there,
and moves with the folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.ledger.lock import DAEMON, Lock, LockError, LockHeldError, acquire

if TYPE_CHECKING:
    from pathlib import Path

LOCK_NAME = ".clew.lock"


class NotOwnerError(Exception):
    """Nothing may be taken from the inbox; the message says why, and what to do."""


class HeldElsewhereError(NotOwnerError):
    """Another daemon owns the inbox."""


class InboxOwner:
    """Holds the lock of the folder that stands at `folder` now; `socket` is how its owner can be reached."""

    def __init__(self, folder: Path, socket: Path | None = None) -> None:
        self._folder = folder
        self._socket = socket
        self._lock: Lock | None = None

    def take(self) -> None:
        """Own the folder, which may be another one than before; raises NotOwnerError, OSError."""
        if self._lock is not None and self._lock.is_in_place:
            return
        self.release()
        try:
            self._lock = acquire(self._folder / LOCK_NAME, role=DAEMON, socket=self._socket)
        except LockHeldError as error:
            raise HeldElsewhereError(_owned(self._folder, error)) from None
        except LockError as error:
            raise NotOwnerError(str(error)) from None

    def release(self) -> None:
        """Release the lock; may be called twice."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


def _owned(folder: Path, error: LockHeldError) -> str:
    at = f", control socket {error.holder.socket}" if error.holder.socket else ""
    return (
        f"the inbox {folder} belongs to another daemon: {error.holder.running}{at}. Two daemons would run "
        "every goal twice: give each its own inbox ([paths] inbox in config.toml)"
    )
