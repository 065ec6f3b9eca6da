"""What the inbox does to files: look, read, remove, reject, put back.

Every step may be the last one before a power cut, and a person may rename another file over the
name at any moment; so a file is first moved to a hidden name that says which file was meant, and
only then, if it is that file, removed. Nothing here knows goals, asyncio or the ledger.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_daemon.inbox_settle import Look, Stamp, is_goal_name
from clew_daemon.markdown import visible

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 1024 * 1024
MAX_NAMES = 10_000
"""Files of an inbox that are looked at in one round; the others' turn comes when these are gone."""

Identity = tuple[int, int, int, int, str]

_NAME_BYTES = 255
_HIDDEN_PREFIX = ".clew-"
_HIDDEN = re.compile(
    r"\.clew-(?P<kind>taken|moved)-(?P<ino>[0-9a-f]+)-(?P<mtime>-?[0-9a-f]+)-(?P<size>[0-9a-f]+)"
    r"\.(?P<name>.+)",
    re.DOTALL,
)
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A completely written file, as it was read.

    `raw` holds at most 1 MiB and one byte: one that is longer is too big. `identity` is
    (dev, ino, ctime_ns, size, sha256 of raw): the same one twice is the same drop.
    """

    name: str
    raw: bytes
    identity: Identity


class Changed(Exception):  # noqa: N818 - no fault, an answer
    """The file is no longer the one that was looked at."""


def look_around(folder: Path) -> dict[str, Look | None]:
    """How every goal file's name in `folder` looks now; None for a link that leads nowhere."""
    names = [entry for entry in os.listdir(folder) if is_goal_name(entry)]  # noqa: PTH208 - names
    looks: dict[str, Look | None] = {}
    for name in names[:MAX_NAMES]:
        with contextlib.suppress(FileNotFoundError):
            looks[name] = look_at(folder / name)
    return looks


def look_at(path: Path) -> Look | None:
    """How `path` looks now, a link together with its target; None for a link that leads nowhere.

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


def read(path: Path, look: Look) -> Dropped:
    """Read at most 1 MiB + 1 of the file that looked like `look`.

    Raises Changed when it is another one by now or was written to meanwhile, and OSError
    (PermissionError) when it cannot be read.
    """
    if look_at(path) != look:
        raise Changed(path)
    # O_NONBLOCK, O_NOCTTY: whatever took the name since, never wait for it nor be its terminal.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Changed(path)
        raw = _read_up_to(fd, MAX_BYTES + 1)
        after = _look(path.lstat(), os.fstat(fd))
    finally:
        os.close(fd)
    if after != look:
        raise Changed(path)
    entry, size = look.entry, look.content.size
    digest = hashlib.sha256(raw).hexdigest()
    return Dropped(path.name, raw, (entry.dev, entry.ino, entry.ctime_ns, size, digest))


def _read_up_to(fd: int, limit: int) -> bytes:
    parts: list[bytes] = []
    while limit and (part := os.read(fd, limit)):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def remove(path: Path, look: Look) -> bool:
    """Remove the accepted file; False when another one had taken its name and was put back.

    Killed in between, `restore` finishes it.
    """
    hidden = _hide(path, look, "taken")
    if hidden is None:
        return True
    if _stamp(hidden.lstat()).same_but_moved(look.entry):
        hidden.unlink()
        return True
    put_back(hidden, path)
    return False


def reject(path: Path, look: Look, rejected: Path, error: str) -> Path | None:
    """Move a file to `rejected/NAME` with `NAME.error.txt` beside it; its new place, or None.

    None: another file had taken the name, and was put back. The text is written first: killed
    in between, the file is still in the inbox (or hidden there, and `restore` puts it back), is
    judged again, and takes the place where its text already lies.
    """
    rejected.mkdir(parents=True, exist_ok=True)
    target = _free_name(rejected, path.name)
    _write_error(target, error)
    hidden = _hide(path, look, "moved")
    if hidden is None:
        _error_path(target).unlink(missing_ok=True)
        return None
    try:
        if _stamp(hidden.lstat()).same_but_moved(look.entry):
            rename_new(hidden, target)
            return target
    except OSError:
        put_back(hidden, path)
        raise
    put_back(hidden, path)
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
    raise OSError(errno.ENOSPC, "ten thousand files bear that name; empty the folder", str(folder))


def restore(folder: Path) -> list[str]:
    """Finish what a killed daemon had begun on files of `folder`; the names that were put back.

    An accepted file that was only hidden is removed; anything else gets its name again. Must not
    run while another call here is under way.
    """
    back: list[str] = []
    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names are all that is wanted
        found = _HIDDEN.fullmatch(name) if name.startswith(_HIDDEN_PREFIX) else None
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
    """Give a hidden file its name again, or the next free one; the name that it got."""
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


def _hide(path: Path, look: Look, kind: str) -> Path | None:
    """Move the file out of sight, to a name that says which file was meant; None if it is gone."""
    entry = look.entry
    mark = f"{_HIDDEN_PREFIX}{kind}-{entry.ino:x}-{entry.mtime_ns:x}-{entry.size:x}."
    hidden = path.with_name(mark + _shortened(path.name, _NAME_BYTES - len(mark)))
    try:
        path.rename(hidden)
    except FileNotFoundError:
        return None
    return hidden


def _shortened(name: str, limit: int) -> str:
    """`name` with its end kept and its stem cut, at most `limit` bytes long."""
    raw = os.fsencode(name)
    if len(raw) <= limit:
        return name
    stem, dot, suffix = raw.rpartition(b".")
    return os.fsdecode(stem[: limit - len(dot + suffix)] + dot + suffix)
