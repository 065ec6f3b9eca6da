"""What the inbox does to files: own the folder, look, claim, read, remove, reject.

Every step may be the last one before a power cut, and a person may rename another file over the name at any moment; so
a file is first claimed: renamed to a hidden name with a token of its own. Token, name and content are its identity, by
which a daemon that was killed in between knows it again; one that was written to since is a drop of its own.
"""

import ctypes
import errno
import fcntl
import hashlib
import os
import re
import secrets
import signal
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count, islice
from pathlib import Path
from typing import NamedTuple, Self

from clew_daemon.ledger.lock import DAEMON, Lock, LockHeldError, acquire
from clew_daemon.record.goal_view import Left
from clew_shared.files import write_whole
from clew_shared.text.plain import recordable, visible

LOCK_NAME = ".clew.lock"
REJECTED, ERROR = "rejected", ".error.txt"
SUFFIXES = (".md", ".txt")
MAX_BYTES = 1024 * 1024
MAX_NAMES = 10_000  # Looked at in one round, or listed; the others' turn comes when these are gone
EMPTY_SETTLE_S = 2.0  # A file of no bytes is mostly one whose writer has only just opened it

NAME_BYTES = 200  # of the 255 that a name may have: room for what is put before and behind it
_CLAIMED = re.compile(r"\.clew-claimed-(?P<token>[0-9a-f-]+)\.(?P<name>.+)", re.DOTALL)
# For whatever has the name now: never block on it, nor take it as the controlling terminal.
_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# NFS, CIFS, SMB2, SMB (statfs(2)): without a delegation they refuse every lease, writer or not.
_NETWORK = frozenset((0x6969, 0xFF534D42, 0xFE534D42, 0x517B))


class Changed(Exception):
    """The file is no longer the one that was looked at."""


class BeingWritten(Exception):
    """Another program has the file open for writing."""


@dataclass(eq=False)
class InboxOwner:
    """Holds the lock in the folder that stands at `folder` now; `socket` is how its owner can be reached."""

    folder: Path
    socket: Path | None = None
    _lock: Lock | None = None

    def take(self) -> None:
        """Own the folder, which may be another one than before; raises LockError, OSError."""
        if self._lock is None or not self._lock.is_in_place:
            self.release()
            try:
                self._lock = acquire(self.folder / LOCK_NAME, role=DAEMON, socket=self.socket)
            except LockHeldError as error:  # two daemons would run every goal twice
                error.args = (f"{error}. Each daemon needs an inbox of its own ([paths] inbox)",)
                raise

    def release(self) -> None:
        """Release the lock; may be called twice."""
        if self._lock is not None:
            self._lock.release()


class Look(NamedTuple):
    """What stat(2) said of a file, or of a link's target: equal looks mean that nothing was written in between."""

    dev: int
    ino: int
    ctime_ns: int
    mtime_ns: int
    size: int

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        return cls(found.st_dev, found.st_ino, found.st_ctime_ns, found.st_mtime_ns, found.st_size)


@dataclass(slots=True)
class Found:
    """A goal file in the inbox: `path` is where it is, `name` what it is called; `token` is its claim's, "" without.

    It looks so since `since`, is not to be tried before `not_before` (monotonic seconds), and was tried `tries` times.
    """

    path: Path
    name: str
    look: Look
    token: str = ""
    since: float = 0.0
    not_before: float = 0.0
    tries: int = 0

    def due_at(self, settle_s: float) -> float:
        """Return when it is to be taken: once it has looked the same for the whole settle time."""
        if not self.look.size:
            settle_s = max(settle_s * 4, EMPTY_SETTLE_S)
        return max(self.since + settle_s, self.not_before)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A file as it was read, at most a byte over 1 MiB; `identity`, the same for the same drop: token, sha256, name."""

    name: str
    raw: bytes
    identity: tuple[str, ...]


def is_goal_name(name: str) -> bool:
    """Whether a file of this name is meant for clew: `*.md` and `*.txt` that are not hidden."""
    return not name.startswith(".") and name.lower().endswith(SUFFIXES)


def look_around(folder: Path) -> list[Found]:
    """Return the goal files of a folder: the claimed ones, and those with a goal's name."""
    claims, goals = list[Found](), list[Found]()
    for path in folder.iterdir():
        mark = _CLAIMED.fullmatch(path.name)
        if not mark and (len(goals) == MAX_NAMES or not is_goal_name(path.name)):
            continue
        end = os.fsdecode(os.fsencode(path.name)[-NAME_BYTES:])
        token, name = mark.groups() if mark else ("", end.lstrip("."))
        with suppress(OSError):  # gone, a link that leads nowhere, a closed folder on the way
            looked = path.stat()
            if stat.S_ISREG(looked.st_mode):
                (claims if mark else goals).append(Found(path, name, Look.of(looked), token))
    return claims + goals


def claim(found: Found) -> None:
    """Rename a file that has settled to a name that only clew uses; raises Changed, BeingWritten, OSError."""
    if found.token:
        return
    if Look.of(found.path.stat()) != found.look:
        raise Changed(found.path)
    with suppress(PermissionError):  # one that cannot be read is claimed all the same, and rejected
        _refuse_written(found.path)
    token = secrets.token_hex(8)
    found.path = found.path.rename(found.path.with_name(f".clew-claimed-{token}.{found.name}"))
    ctime_ns = found.path.stat().st_ctime_ns  # a rename changes it
    found.token, found.look = token, found.look._replace(ctime_ns=ctime_ns)


def read(found: Found) -> Dropped:
    """Read at most 1 MiB + 1 of a claimed file; raises BeingWritten, Changed (it has to settle again), OSError."""
    _refuse_written(found.path)
    with os.fdopen(os.open(found.path, _READING), "rb") as stream:
        raw = stream.read(MAX_BYTES + 1)
        if Look.of(os.fstat(stream.fileno())) != found.look:
            raise Changed(found.path)  # it has to settle under its hidden name
    digest = hashlib.sha256(raw).hexdigest()
    return Dropped(found.name, raw, (found.token, digest, found.name))


def _is_as_read(found: Found) -> bool:
    with suppress(OSError):
        return Look.of(found.path.stat()) == found.look
    return False


def remove(found: Found) -> None:
    """Remove an accepted file; one that was written to since stays."""
    if _is_as_read(found):
        found.path.unlink(missing_ok=True)


def reject(found: Found, rejected: Path, error: str) -> Path | None:
    """Move a claimed file to `rejected/NAME` with `NAME.error.txt` beside it; return its new place.

    None: it is gone, or was written to since and stays. The text is written first: killed in between, the file is still
    claimed, is judged again, and takes the place where its text already lies.
    """
    rejected.mkdir(parents=True, exist_ok=True)
    target = next(path for path in _places(rejected, found.name) if not os.path.lexists(path))
    write_whole(error_path(target), visible(error).rstrip("\n") + "\n")
    if _is_as_read(found):
        with suppress(FileNotFoundError):
            return found.path.rename(target)
    error_path(target).unlink(missing_ok=True)
    return None


def settle(rejected: Path, name: str) -> None:
    """Remove the error texts of what was rejected under the name of a file that is a goal now: `left` lists none."""
    for place in islice(_places(rejected, name), SHOWN_MAX):
        with suppress(OSError):
            if _error_text(place).startswith(f"{visible(name)} "):  # else the file's own name
                error_path(place).unlink()


def error_path(rejected: Path) -> Path:
    return rejected.with_name(f"{rejected.name}{ERROR}")


def _refuse_written(path: Path) -> None:
    """Raise BeingWritten where any program has the file open for writing, as far as the file system can tell.

    The kernel refuses a read lease (fcntl(2), F_SETLEASE) with EAGAIN while there is a writer. When a program opens the
    file while the lease is held, the kernel sends a signal to the daemon: SIGIO by default, which would end it; so
    SIGURG, which is ignored.
    """
    with os.fdopen(os.open(path, _READING), "rb", buffering=0) as file:
        try:
            fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as error:
            found = (ctypes.c_long * 64)()  # its first member is the type; struct statfs has less
            known = ctypes.CDLL(None).fstatfs(file.fileno(), found) == 0
            on_network = known and found[0] & 0xFFFFFFFF in _NETWORK
            if error.errno == errno.EAGAIN and not on_network:
                raise BeingWritten(path) from None


def _places(folder: Path, name: str) -> Iterator[Path]:
    """Yield NAME, NAME-2, …: a rejected file has the first that no file bears; an error text alone does not count."""
    first = folder / name
    return chain([first], (first.with_stem(f"{first.stem}-{number}") for number in count(2)))


# -- entries that will not become goals, for `status` and `doctor`, with or without a daemon: it only looks

SHOWN_MAX = 50
REASON_CHARS, REASON_BYTES = 500, 4_096


def left(inbox: Path) -> Left:
    """Return what was rejected and has an error text, and what lies in the inbox and is never taken; newest first."""
    rejects = {path: at_ns for at_ns, path in _entries(inbox / REJECTED)}
    found = [(at, path, True, "") for path, at in rejects.items() if error_path(path) in rejects]
    for at_ns, path in _entries(inbox):
        is_meant = path.name == REJECTED or path.name.endswith((".tmp", ".part", "~"))
        if not is_meant and (why := _why_not(path)):
            found.append((at_ns, path, False, why))
    found.sort(key=lambda one: -one[0])
    shown = [
        {"name": recordable(path.name), "rejected": rejected, "reason": why or _reason(path)}
        for _, path, rejected, why in found[:SHOWN_MAX]
    ]
    return {"inbox": shown, "inbox_total": len(found)}


def _entries(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the entries of a folder that are not hidden, with their times in ns."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, MAX_NAMES):
            if not entry.name.startswith("."):
                with suppress(OSError):
                    at_ns = entry.stat(follow_symlinks=False).st_mtime_ns
                    yield at_ns, folder / entry.name


def _why_not(path: Path) -> str:
    if not os.path.lexists(path):
        return ""  # taken meanwhile
    if not os.path.isfile(path):  # noqa: PTH113 - one that cannot be looked at is none
        return "only files are taken"
    if not is_goal_name(path.name):
        return "the name must end in .md or .txt: rename it"
    if not os.access(path, os.R_OK):
        return f"permission denied: {recordable(str(path))}"
    return ""


def _error_text(path: Path) -> str:
    with os.fdopen(os.open(error_path(path), _READING | os.O_NOFOLLOW), "rb") as stream:
        return stream.read(REASON_BYTES).decode("utf-8", "replace")


def _reason(path: Path) -> str:
    with suppress(OSError):
        return in_one_line(_error_text(path))
    return "no reason was kept"


def in_one_line(refusal: str) -> str:
    """Return the first line of why a file was rejected; where that is only a heading, the faults below it."""
    first, _, rest = refusal.strip().partition("\n")
    lines = rest.splitlines() if rest and first.endswith(":") else [first]
    return "; ".join(line.strip() for line in lines if line.strip())[:REASON_CHARS]
