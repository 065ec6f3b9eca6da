"""What the inbox does to files: look, claim, read, remove, reject, put back.

Every step may be the last one before a power cut, and a person may rename another file over the
name at any moment; so a file is first claimed: renamed to a hidden name that says which file was
meant. What is done to it afterwards is done to the claimed file, which no name but ours leads to.
Nothing here knows goals, asyncio or the ledger.
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
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_daemon.inbox.settle import Look, Stamp, is_goal_name
from clew_daemon.publish.markdown import visible

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_BYTES = 1024 * 1024
MAX_NAMES = 10_000
"""Files of an inbox that are looked at in one round; the others' turn comes when these are gone."""

Identity = tuple[int, int, int, int, str, str]

_NAME_BYTES = 255
_MARK_BYTES = 84
"""As long as what a claim puts before a name can be: what is left of a name must not depend on the numbers."""

_HIDDEN_PREFIX = ".clew-"
_CLAIMED = re.compile(
    r"\.clew-claimed-(?P<ino>[0-9a-f]{1,16})-(?P<ctime>-?[0-9a-f]{1,16})"
    r"-(?P<mtime>-?[0-9a-f]{1,16})-(?P<size>[0-9a-f]{1,16})\.(?P<name>.+)",
    re.DOTALL,
)
_OLD_HIDDEN = re.compile(  # of clew 0.1.0, killed while it removed or rejected a file
    r"\.clew-(?P<kind>taken|moved)-(?P<ino>[0-9a-f]+)-(?P<mtime>-?[0-9a-f]+)-(?P<size>[0-9a-f]+)"
    r"\.(?P<name>.+)",
    re.DOTALL,
)
_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""For whatever has the name now: never block on it, nor take it as the controlling terminal."""

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_libc = ctypes.CDLL(None, use_errno=True)
_renameat2 = getattr(_libc, "renameat2", None)
_NETWORK = frozenset((0x6969, 0xFF534D42, 0xFE534D42, 0x517B))
"""NFS, CIFS, SMB2, SMB (statfs(2)): without a delegation they refuse every lease, writer or not."""


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


@dataclass(frozen=True, slots=True)
class Claim:
    """A claimed file: `hidden` is where it is, `name` what it was called, `entry` how it looked before."""

    hidden: Path
    name: str
    entry: Stamp


class Changed(Exception):
    """The file is no longer the one that was looked at."""


class BeingWritten(Exception):
    """Another program has the file open for writing."""


def look_around(folder: Path) -> dict[str, Look | None]:
    """Return how every goal file's name in `folder` looks now; None for a link that leads nowhere."""
    names = [entry for entry in os.listdir(folder) if is_goal_name(entry)]  # noqa: PTH208 - names
    looks: dict[str, Look | None] = {}
    for name in names[:MAX_NAMES]:
        with contextlib.suppress(FileNotFoundError):
            looks[name] = look_at(folder / name)
    return looks


def look_at(path: Path) -> Look | None:
    """Return how `path` looks now, a link together with its target; None for a link that leads nowhere.

    Raises FileNotFoundError when there is nothing.
    """
    entry = path.lstat()
    if not stat.S_ISLNK(entry.st_mode):
        return _look(entry, entry)
    try:
        return _look(entry, path.stat())
    except OSError:  # no target, a ring of links, a folder on the way that is closed to us
        return None


def _look(entry: os.stat_result, content: os.stat_result) -> Look:
    return Look(_stamp(entry), _stamp(content), stat.S_ISREG(content.st_mode))


def _stamp(of: os.stat_result) -> Stamp:
    return Stamp(of.st_dev, of.st_ino, of.st_ctime_ns, of.st_mtime_ns, of.st_size)


def claim(path: Path, look: Look) -> Claim:
    """Claim the file that looked like `look`: rename it to a name that only clew uses.

    Raises Changed when it is another file by now, BeingWritten while a program has it open for
    writing (as far as the file system can tell), OSError when it cannot be renamed.
    """
    if look_at(path) != look:
        raise Changed(path)
    entry = look.entry
    mark = f"{entry.ino:x}-{entry.ctime_ns:x}-{entry.mtime_ns:x}-{entry.size:x}"
    name = _shortened(path.name, _NAME_BYTES - _MARK_BYTES)
    hidden = path.with_name(f"{_HIDDEN_PREFIX}claimed-{mark}.{name}")
    with _opened(path) as fd:
        if _has_writer(fd):
            raise BeingWritten(path)
        rename_new(path, hidden)
        if not _stamp(hidden.lstat()).same_but_moved(entry):
            put_back(hidden, path)
            raise Changed(path)
    return Claim(hidden, name, entry)


def claims(folder: Path) -> list[Claim]:
    """List what is claimed in `folder`, the oldest first: by an earlier daemon, or left for another try."""
    found = []
    for hidden in os.listdir(folder):  # noqa: PTH208 - names are all that is wanted
        mark = _CLAIMED.fullmatch(hidden) if hidden.startswith(_HIDDEN_PREFIX) else None
        if mark is None:
            continue
        ino, ctime, mtime, size = (int(mark[key], 16) for key in ("ino", "ctime", "mtime", "size"))
        with contextlib.suppress(FileNotFoundError):
            dev = (folder / hidden).lstat().st_dev
            entry = Stamp(dev, ino, ctime, mtime, size)
            found.append(Claim(folder / hidden, mark["name"], entry))
    return sorted(found, key=lambda one: (one.entry.mtime_ns, one.name))


def read(claim: Claim) -> Dropped:
    """Read at most 1 MiB + 1 of a claimed file.

    Raises BeingWritten when a program opened it for writing just before it was claimed, Changed when
    it was written to since or is not a regular file, OSError (PermissionError) when it cannot be
    read.
    """
    if not _stamp(claim.hidden.lstat()).same_but_moved(claim.entry):
        raise Changed(claim.hidden)
    fd = os.open(claim.hidden, _READING)
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise Changed(claim.hidden)
        if _has_writer(fd):
            raise BeingWritten(claim.hidden)
        raw = _read_up_to(fd, MAX_BYTES + 1)
        if _stamp(os.fstat(fd)) != _stamp(before):
            raise Changed(claim.hidden)
    finally:
        os.close(fd)
    entry, digest = claim.entry, hashlib.sha256(raw).hexdigest()
    identity = (entry.dev, entry.ino, entry.ctime_ns, before.st_size, digest, claim.name)
    return Dropped(claim.name, raw, identity, before.st_size)


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

    The kernel refuses a read lease (fcntl(2), F_SETLEASE) with EAGAIN while there is a writer. When
    a program opens the file while the lease is held, the kernel sends a signal to the daemon: SIGIO by
    default, which would end it; so SIGURG, which is ignored.
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
    return bool(_libc.fstatfs(fd, found) == 0 and found[0] & 0xFFFFFFFF in _NETWORK)


def _read_up_to(fd: int, limit: int) -> bytes:
    parts: list[bytes] = []
    while limit and (part := os.read(fd, limit)):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def remove(claim: Claim) -> bool:
    """Remove the accepted file; False when it was written to since, and was put back."""
    try:
        if _stamp(claim.hidden.lstat()).same_but_moved(claim.entry):
            claim.hidden.unlink()
            return True
        put_back(claim.hidden, claim.hidden.with_name(claim.name))
    except FileNotFoundError:
        return True
    return False


def reject(claim: Claim, rejected: Path, error: str) -> Path | None:
    """Move a claimed file to `rejected/NAME` with `NAME.error.txt` beside it; return its new place.

    None: it is gone, or was written to since and was put back. The text is written first: killed
    in between, the file is still claimed, is judged again, and takes the place where its text
    already lies.
    """
    rejected.mkdir(parents=True, exist_ok=True)
    target = _free_name(rejected, claim.name)
    _write_error(target, error)
    try:
        if _stamp(claim.hidden.lstat()).same_but_moved(claim.entry):
            rename_new(claim.hidden, target)
            return target
        put_back(claim.hidden, claim.hidden.with_name(claim.name))
    except FileNotFoundError:
        pass
    _error_path(target).unlink(missing_ok=True)
    return None


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


def restore(folder: Path) -> list[str]:
    """Finish what clew 0.1.0 had begun on files of `folder` when it was killed; the names that were put back.

    An accepted file that was only hidden is removed; anything else gets its name again. Must not
    run while another call here is under way.
    """
    back: list[str] = []
    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names are all that is wanted
        found = _OLD_HIDDEN.fullmatch(name) if name.startswith(_HIDDEN_PREFIX) else None
        if found is None:
            continue
        hidden, now = folder / name, (folder / name).lstat()
        meant = tuple(int(found[key], 16) for key in ("ino", "mtime", "size"))
        if found["kind"] == "taken" and meant == (now.st_ino, now.st_mtime_ns, now.st_size):
            hidden.unlink()
        else:
            back.append(put_back(hidden, folder / found["name"]).name)
    return back


def put_back(hidden: Path, path: Path) -> Path:
    """Rename a hidden file to its name, or to the next free one; return its new path."""
    try:
        rename_new(hidden, path)
    except FileExistsError:
        path = _free_name(path.parent, path.name)
        rename_new(hidden, path)
    return path


def rename_new(source: Path, target: Path) -> None:
    """Rename without replacing `target` (FileExistsError): renameat2(2) with RENAME_NOREPLACE.

    File systems that lack it (NFS among them) look first and then rename: a moment's gap, where
    link(2) and unlink(2) would leave two names behind if killed in between.
    """
    if _renameat2 is not None:
        old, new = os.fsencode(source), os.fsencode(target)
        if _renameat2(_AT_FDCWD, old, _AT_FDCWD, new, _RENAME_NOREPLACE) == 0:
            return
        code = ctypes.get_errno()
        if code not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(code, os.strerror(code), str(source), None, str(target))
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    source.rename(target)


def _shortened(name: str, limit: int) -> str:
    """Return `name` with its end kept and its stem cut, at most `limit` bytes long."""
    raw = os.fsencode(name)
    if len(raw) <= limit:
        return name
    stem, dot, suffix = raw.rpartition(b".")
    return os.fsdecode(stem[: limit - len(dot + suffix)] + dot + suffix)
