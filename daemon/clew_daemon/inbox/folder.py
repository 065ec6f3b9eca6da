"""The inbox's folder: the one daemon that owns it, and how a change in it is noticed at once.

The lock is a dot-file in the folder itself, so that it is found whatever path or link leads there, and moves with the
folder. Events of inotify can be lost (an overflow, a network file system), so users of this look at the folder
themselves, and periodically without an event.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from watchdog.events import (
    DirDeletedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from clew_daemon.inbox.files import is_goal_name
from clew_shared.ledger.lock import DAEMON, Lock, LockError, LockHeldError, acquire

LOCK_NAME = ".clew.lock"

# watchdog logs as an error that a watch which is being closed has nothing more to read.
logging.getLogger("watchdog.observers.inotify").setLevel(logging.CRITICAL)

_EVENTS: list[type[FileSystemEvent]] = [
    DirDeletedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
]


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


class FolderWatch(FileSystemEventHandler):
    """Calls `notice` (from a thread of its own) when a goal file of the folder may have changed."""

    def __init__(self, notice: Callable[[], None]) -> None:
        self._notice = notice
        self._observer: BaseObserver | None = None
        self._path = ""
        self._inode: tuple[int, int] | None = None

    def holds(self, folder: Path) -> bool:
        """Whether the folder that is there now is the one that is watched."""
        return self._inode is not None and self._inode == _inode(os.path.realpath(folder))

    def renew(self, folder: Path) -> None:
        """Watch `folder` and no other; raises OSError."""
        self.close()
        self._path = os.path.realpath(folder)
        observer = Observer()
        try:
            observer.schedule(self, self._path, event_filter=_EVENTS)
            observer.start()
        except OSError:
            observer.stop()
            raise
        self._observer = observer
        self._inode = _inode(self._path)

    def close(self) -> None:
        """Stop watching; may be called at any time."""
        observer, self._observer, self._inode = self._observer, None, None
        if observer is not None:
            observer.stop()
            observer.join()

    def on_any_event(self, event: FileSystemEvent) -> None:
        path = os.fsdecode(event.dest_path or event.src_path)
        if isinstance(event, DirDeletedEvent | FileDeletedEvent):
            if path == self._path:
                self._inode = None  # its number may be given to the next folder of that name
            # a deleted folder whose lock we hold sends no event of its own, only that of the lock's file
            elif Path(path).name != LOCK_NAME:
                return
        elif not is_goal_name(Path(path).name):
            return
        self._notice()


def _inode(path: str) -> tuple[int, int]:
    found = Path(path).stat()
    return found.st_dev, found.st_ino
