"""Entries of the inbox that will not become goals: rejected files, and what is never taken.

For `status` and `doctor`, with or without a daemon. It only looks; the inbox itself decides.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TypedDict

from clew_daemon.inbox.files import REJECTED, SUFFIXES, error_path, is_goal_name
from clew_shared.text.plain import recordable

SHOWN_MAX = 50
LOOKED_AT_MAX = 10_000
REASON_CHARS = 500
REASON_BYTES = 4_096
_TEMPORARY = (".tmp", ".part", "~")
_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}


class LeftEntry(TypedDict):
    """One entry, as `clew status --json` has it."""

    name: str
    rejected: bool
    reason: str


class Left(TypedDict):
    """What is left in an inbox, as `clew status --json` has it: the newest entries, and how many there are in all."""

    inbox: list[LeftEntry]
    inbox_total: int


def left(inbox: Path) -> Left:
    """Return what is rejected, and what lies in the inbox and will not be taken; the newest first."""
    found = [(at_ns, path, True, "") for at_ns, path in _entries(inbox / REJECTED, (".error.txt",))]
    for at_ns, path in _entries(inbox, _TEMPORARY):
        if path.name != REJECTED and (why := _why_not(path)):
            found.append((at_ns, path, False, why))
    found.sort(key=lambda one: -one[0])
    shown = [
        LeftEntry(name=recordable(path.name), rejected=rejected, reason=why or _reason(path))
        for _, path, rejected, why in found[:SHOWN_MAX]
    ]
    return {"inbox": shown, "inbox_total": len(found)}


def _entries(folder: Path, without: tuple[str, ...]) -> Iterator[tuple[int, Path]]:
    """Yield the entries of a folder that are not hidden and end otherwise, with their times in ns."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, LOOKED_AT_MAX):
            if not (entry.name.startswith(".") or entry.name.endswith(without)):
                with suppress(OSError):
                    at_ns = entry.stat(follow_symlinks=False).st_mtime_ns
                    yield at_ns, folder / entry.name


def _why_not(path: Path) -> str:
    """Return why an entry of the inbox will not be taken, "" if it will be."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return "a link that leads nowhere; only files are taken" if path.is_symlink() else ""
    if not stat.S_ISREG(mode):
        return f"{_KINDS.get(stat.S_IFMT(mode), 'a device')}; only files are taken"
    if not is_goal_name(path.name):
        return f"the name must end in {' or '.join(SUFFIXES)}: rename it"
    if not os.access(path, os.R_OK):
        return f"permission denied: {recordable(str(path))}"
    return ""


def _reason(path: Path) -> str:
    """Return the first words of NAME.error.txt, on one line."""
    with suppress(OSError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(error_path(path), flags), "rb") as stream:
            return in_one_line(stream.read(REASON_BYTES).decode("utf-8", "replace"))
    return "no reason was kept"


def in_one_line(refusal: str) -> str:
    """Return the first line of why a file was rejected; where that is only a heading, the faults below it."""
    first, _, rest = refusal.strip().partition("\n")
    lines = rest.splitlines() if rest and first.endswith(":") else [first]
    return "; ".join(line.strip() for line in lines if line.strip())[:REASON_CHARS]
