"""Notices at once, by inotify, that something has changed in a folder; what has changed is not reported.

Events can be lost (an overflow, a network file system), so users of this look at the folder themselves, and
periodically without an event.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

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

from clew_daemon.inbox.owner import LOCK_NAME
from clew_daemon.inbox.settle import is_goal_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchdog.observers.api import BaseObserver

# watchdog logs as an error that a watch which is being closed has nothing more to read.
logging.getLogger("watchdog.observers.inotify").setLevel(logging.CRITICAL)

_EVENTS: list[type[FileSystemEvent]] = [
    DirDeletedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
]


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
