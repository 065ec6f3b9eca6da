"""Entries of the inbox that will not become goals: rejected files, and what is never taken.

For `status` and `doctor`, with or without a daemon. It only looks; the inbox itself decides.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from clew_daemon.inbox.files import SUFFIXES, is_goal_name
from clew_shared.text.plain import recordable

REJECTED = "rejected"
SHOWN_MAX = 50
LOOKED_AT_MAX = 10_000
REASON_CHARS = 500
REASON_BYTES = 4_096
_ERROR = ".error.txt"
_TEMPORARY = (".tmp", ".part", "~")
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


@dataclass(frozen=True, slots=True)
class Left:
    """The newest entries, each {name, rejected, reason}, and how many there are in all."""

    shown: tuple[dict[str, Any], ...] = ()
    total: int = 0

    def view(self) -> dict[str, Any]:
        """Return it as `clew status --json` has it."""
        return {"inbox": list(self.shown), "inbox_total": self.total}


def left(inbox: Path) -> Left:
    """Return what is rejected, and what lies in the inbox and will not be taken; the newest first."""
    found = sorted([*_rejected(inbox / REJECTED), *_ignored(inbox)], key=lambda one: -one[0])
    shown = [
        {"name": recordable(path.name), "rejected": rejected, "reason": why or _reason(path)}
        for _, path, rejected, why in found[:SHOWN_MAX]
    ]
    return Left(tuple(shown), len(found))


def _rejected(folder: Path) -> Iterator[tuple[int, Path, bool, str]]:
    for entry in _entries(folder):
        if not (entry.name.startswith(".") or entry.name.endswith(_ERROR)):
            with suppress(OSError):
                at_ns = entry.stat(follow_symlinks=False).st_mtime_ns
                yield at_ns, folder / entry.name, True, ""


def _ignored(inbox: Path) -> Iterator[tuple[int, Path, bool, str]]:
    for entry in _entries(inbox):
        name = entry.name
        if name.startswith(".") or name.endswith(_TEMPORARY):
            continue
        with suppress(OSError):
            info = entry.stat(follow_symlinks=False)
            if name == REJECTED and stat.S_ISDIR(info.st_mode):
                continue
            if why := _why_not(inbox / name, info):
                yield info.st_mtime_ns, inbox / name, False, why


def _why_not(path: Path, info: os.stat_result) -> str:
    """Return why an entry of the inbox will not be taken, "" if it will be."""
    if stat.S_ISLNK(info.st_mode):
        try:
            info = path.stat()
        except OSError:
            return "a link that leads nowhere; only files are taken"
    for is_kind, what in _KINDS:
        if is_kind(info.st_mode):
            return f"{what}; only files are taken"
    if not is_goal_name(path.name):
        return f"the name must end in {' or '.join(SUFFIXES)}: rename it"
    if not os.access(path, os.R_OK):
        return f"permission denied: {recordable(str(path))}"
    return ""


def _reason(path: Path) -> str:
    """Return the first words of NAME.error.txt, on one line."""
    with suppress(OSError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(path.with_name(path.name + _ERROR), flags)
        try:
            raw = os.read(fd, REASON_BYTES)
        finally:
            os.close(fd)
        first, _, rest = raw.decode("utf-8", "replace").strip().partition("\n")
        lines = rest.splitlines() if rest and first.endswith(":") else [first]
        return "; ".join(line.strip() for line in lines if line.strip())[:REASON_CHARS]
    return "no reason was kept"


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, LOOKED_AT_MAX))
    except OSError:
        return []
