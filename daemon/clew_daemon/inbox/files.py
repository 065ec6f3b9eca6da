"""What the inbox does to files: look, claim, read, remove, reject.

Every step may be the last one before a power cut, and a person may rename another file over the name at any moment; so
a file is first claimed: renamed to a hidden name that says how it looked. What is done to it afterwards is done to the
claimed file, which no name but ours leads to. One that was written to since waits until it has settled again, and is
then a drop of its own. Nothing here knows goals, asyncio or the ledger.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import re
import signal
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clew_daemon.publish.markdown import visible

SUFFIXES = (".md", ".txt")
MAX_BYTES = 1024 * 1024
MAX_NAMES = 10_000
"""Files of an inbox that are looked at in one round; the others' turn comes when these are gone."""

Identity = tuple[int, int, int, int, str, str]

_NAME_BYTES = 255
_MARK_BYTES = 84
"""As long as what a claim puts before a name can be: what is left of a name must not depend on the numbers."""

_CLAIMED = re.compile(
    r"\.clew-claimed-(?P<ino>[0-9a-f]{1,16})-(?P<ctime>-?[0-9a-f]{1,16})"
    r"-(?P<mtime>-?[0-9a-f]{1,16})-(?P<size>[0-9a-f]{1,16})\.(?P<name>.+)",
    re.DOTALL,
)
_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""For whatever has the name now: never block on it, nor take it as the controlling terminal."""

_NETWORK = frozenset((0x6969, 0xFF534D42, 0xFE534D42, 0x517B))
"""NFS, CIFS, SMB2, SMB (statfs(2)): without a delegation they refuse every lease, writer or not."""


class Changed(Exception):
    """The file is no longer the one that was looked at."""


class BeingWritten(Exception):
    """Another program has the file open for writing."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the file system says of one inode: `size` in bytes, times in ns."""

    dev: int
    ino: int
    ctime_ns: int
    mtime_ns: int
    size: int

    def same_but_moved(self, other: Stamp) -> bool:
        """Whether `other` is this very file, unwritten since; a rename alone changes its ctime."""
        ours, theirs = ((s.dev, s.ino, s.mtime_ns, s.size) for s in (self, other))
        return ours == theirs


@dataclass(frozen=True, slots=True)
class Look:
    """What a name was at one moment: equal looks mean that nothing was written in between.

    `entry` is what bears the name, `content` what is read through it: they differ for a link.
    """

    entry: Stamp
    content: Stamp
    regular: bool = True


@dataclass(frozen=True, slots=True)
class Found:
    """A goal file in the inbox: `path` is where it is, `name` what it is called, `look` how it looks.

    `claimed` is how it looked when it was claimed, None for one that still has its name.
    """

    path: Path
    name: str
    look: Look
    claimed: Stamp | None = None

    @property
    def is_claim(self) -> bool:
        """Whether it is claimed, and was not written to since."""
        return self.claimed is not None and self.look.entry.same_but_moved(self.claimed)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A completely written file, as it was read.

    `raw` holds at most 1 MiB and one byte of it: one that is longer is too big; `size` is that of all of it.
    `identity` is (dev, ino, ctime_ns, size, sha256 of raw, name): the same one twice is the same drop.
    """

    name: str
    raw: bytes
    identity: Identity
    size: int | None = None


def is_goal_name(name: str) -> bool:
    """Whether a file of this name is meant for clew: `*.md` and `*.txt` that are not hidden."""
    return not name.startswith(".") and name.lower().endswith(SUFFIXES)


def look_around(folder: Path) -> list[Found]:
    """Return the goal files of a folder: the claimed ones, and those with a goal's name."""
    names = os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
    claims = [name for name in names if _CLAIMED.fullmatch(name)]
    found = []
    for name in (*claims, *[name for name in names if is_goal_name(name)][:MAX_NAMES]):
        with contextlib.suppress(FileNotFoundError):
            found.append(find(folder / name))
    return found


def find(path: Path) -> Found:
    """Return the file at `path`; raises FileNotFoundError when there is nothing."""
    look = look_at(path)
    mark = _CLAIMED.fullmatch(path.name)
    if mark is None:
        return Found(path, _shortened(path.name, _NAME_BYTES - _MARK_BYTES), look)
    ino, ctime, mtime, size = (int(mark[key], 16) for key in ("ino", "ctime", "mtime", "size"))
    return Found(path, mark["name"], look, Stamp(look.entry.dev, ino, ctime, mtime, size))


def look_at(path: Path) -> Look:
    """Return how `path` looks now, a link together with its target; raises FileNotFoundError."""
    entry = path.lstat()
    content = entry
    if stat.S_ISLNK(entry.st_mode):
        with contextlib.suppress(OSError):  # no target, a ring of links, a closed folder on the way
            content = path.stat()
    return Look(_stamp(entry), _stamp(content), stat.S_ISREG(content.st_mode))


def _stamp(of: os.stat_result) -> Stamp:
    return Stamp(of.st_dev, of.st_ino, of.st_ctime_ns, of.st_mtime_ns, of.st_size)


def claim(found: Found) -> Found:
    """Claim a file that has settled: rename it to a name that only clew uses.

    Raises Changed when it is another file by now, BeingWritten while a program has it open for writing (as far as the
    file system can tell), OSError when it cannot be renamed.
    """
    if found.is_claim:
        return found
    entry = found.look.entry
    mark = f"{entry.ino:x}-{entry.ctime_ns:x}-{entry.mtime_ns:x}-{entry.size:x}"
    hidden = found.path.with_name(f".clew-claimed-{mark}.{found.name}")
    with _opened(found.path) as fd:
        if look_at(found.path) != found.look:
            raise Changed(found.path)
        if _has_writer(fd):
            raise BeingWritten(found.path)
        found.path.rename(hidden)
    return find(hidden)


def read(found: Found) -> Dropped:
    """Read at most 1 MiB + 1 of a claimed file.

    Raises BeingWritten when a program opened it for writing just before it was claimed, Changed when it was written to
    since or is not a regular file, OSError (PermissionError) when it cannot be read.
    """
    entry = found.claimed
    if entry is None or not found.is_claim:
        raise Changed(found.path)
    fd = os.open(found.path, _READING)
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise Changed(found.path)
        if _has_writer(fd):
            raise BeingWritten(found.path)
        raw = _read_up_to(fd, MAX_BYTES + 1)
        if _stamp(os.fstat(fd)) != _stamp(before):
            raise Changed(found.path)
    finally:
        os.close(fd)
    digest = hashlib.sha256(raw).hexdigest()
    identity = (entry.dev, entry.ino, entry.ctime_ns, before.st_size, digest, found.name)
    return Dropped(found.name, raw, identity, before.st_size)


def remove(found: Found) -> None:
    """Remove an accepted file; one that was written to since stays."""
    with contextlib.suppress(FileNotFoundError):
        if find(found.path).is_claim:
            found.path.unlink()


def reject(found: Found, rejected: Path, error: str) -> Path | None:
    """Move a claimed file to `rejected/NAME` with `NAME.error.txt` beside it; return its new place.

    None: it is gone, or was written to since and stays. The text is written first: killed in between, the file is still
    claimed, is judged again, and takes the place where its text already lies.
    """
    rejected.mkdir(parents=True, exist_ok=True)
    target = _free_name(rejected, found.name)
    _write_error(target, error)
    with contextlib.suppress(FileNotFoundError):
        if find(found.path).is_claim:
            return found.path.rename(target)
    _error_path(target).unlink(missing_ok=True)
    return None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    """Open a file for reading; None where that is not allowed."""
    try:
        fd = os.open(path, _READING)
    except PermissionError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _has_writer(fd: int | None) -> bool:
    """Return whether any program has the file open for writing; False where the file system cannot tell.

    The kernel refuses a read lease (fcntl(2), F_SETLEASE) with EAGAIN while there is a writer. When a program opens the
    file while the lease is held, the kernel sends a signal to the daemon: SIGIO by default, which would end it; so
    SIGURG, which is ignored.
    """
    if fd is None:
        return False
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN and not _on_network(fd)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _on_network(fd: int) -> bool:
    """Return whether a file is on a network file system."""
    found = (ctypes.c_long * 64)()  # more than struct statfs has; its first member is the type
    fstatfs = ctypes.CDLL(None).fstatfs
    return bool(fstatfs(fd, found) == 0 and found[0] & 0xFFFFFFFF in _NETWORK)


def _read_up_to(fd: int, limit: int) -> bytes:
    parts: list[bytes] = []
    while limit and (part := os.read(fd, limit)):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def _write_error(target: Path, error: str) -> None:
    partial = target.with_name(".error.tmp")
    try:
        partial.write_text(
            visible(error).rstrip("\n") + "\n", encoding="utf-8", errors="backslashreplace"
        )
        partial.replace(_error_path(target))
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _error_path(target: Path) -> Path:
    return target.with_name(f"{target.name}.error.txt")


def _free_name(folder: Path, name: str) -> Path:
    """Find the first of NAME, NAME-2, … that no file bears; an error text alone does not count."""
    free = folder / _shortened(name, _NAME_BYTES - len("-9999.error.txt"))
    for count in range(1, 10_000):
        path = free.with_stem(f"{free.stem}-{count}") if count > 1 else free
        if not os.path.lexists(path):
            return path
    raise OSError(errno.ENOSPC, "ten thousand files have that name; empty the folder", str(folder))


def _shortened(name: str, limit: int) -> str:
    """Return `name` with its end kept and its stem cut, at most `limit` bytes long."""
    raw = os.fsencode(name)
    if len(raw) <= limit:
        return name
    stem, dot, suffix = raw.rpartition(b".")
    return os.fsdecode(stem[: limit - len(dot + suffix)] + dot + suffix)
