"""One writer per ledger: a kernel lock on a file beside it, released when its holder ends in any way.

It is an open file description lock: a client can ask whether it is held without taking it. The content of the file
(one JSON line) is information for people and clients; only the kernel's lock counts.
"""

import errno
import fcntl
import json
import os
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

DAEMON, RESTORE, WRITER, HERALD = "daemon", "restore", "writer", "herald"
CONTENT_BYTES_MAX, ATTEMPTS_MAX = 16_384, 5

_NAMES = {DAEMON: "a clew daemon", RESTORE: "`clew restore`", HERALD: "`clew herald`"}
# struct flock with 64-bit offsets: type, whence, start, length, pid
_FLOCK = struct.Struct("hhqqi0q")
_ASKED = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_HELD = frozenset((errno.EAGAIN, errno.EACCES))
_UNSUPPORTED = frozenset((errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL))


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lock according to the file, None for what it lacks; `socket` is the control socket's path."""

    pid: int | None = None
    role: str | None = None
    socket: Path | None = None
    host: str | None = None
    pid_namespace: int | None = None

    @property
    def is_here(self) -> bool:
        """Return whether `pid` is the number of a process in this process's own PID namespace."""
        return self.host is None or (self.host, self.pid_namespace) == here()

    @property
    def running(self) -> str:
        """Return who is running and where, as the beginning of a sentence."""
        elsewhere = f"in another container or host, {self.host!r}"
        where = f"process {self.pid}" if self.is_here else elsewhere
        place = "its process is not known yet" if self.pid is None else where
        return f"{_NAMES.get(self.role or '', 'another process')} is running ({place})"


class LockError(Exception):
    """The lock cannot be taken; the message says why, and what to do."""


class LockHeldError(LockError):
    """Another process, `holder`, has the lock at `path`."""

    def __init__(self, holder: Holder, path: Path) -> None:
        stop = "Stop it first, or use another home (clew --home DIR)"
        advice = "Wait until it has finished" if holder.role == RESTORE else stop
        super().__init__(f"{holder.running} and holds {path}. {advice}")
        self.holder = holder


class Lock:
    """Held from `acquire` until `release`, or until the process has ended."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self._kept = False
        self.path = path

    @property
    def held(self) -> bool:
        return self._fd >= 0

    @property
    def is_in_place(self) -> bool:
        """Return whether the locked file is still the one at `path`, which other processes find."""
        return self.held and _is_at(self._fd, self.path)

    def keep(self) -> None:
        """Hold the lock until the process ends, even after `release`: something here may still write."""
        self._kept = True

    def release(self) -> None:
        """Release the lock; may be called twice."""
        if self._kept or not self.held:
            return
        fd, self._fd = self._fd, -1
        with suppress(OSError):
            os.ftruncate(fd, 0)
        os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def beside(ledger: Path) -> Path:
    """Return the path of the lock of a ledger; links to the ledger lead to the same lock."""
    real = Path(os.path.realpath(ledger))
    return real.with_name(real.name + ".lock")


def acquire(path: Path, *, role: str, socket: Path | None = None) -> Lock:
    """Take the lock at `path`, in a folder that exists, at once; raises LockHeldError, LockError, OSError."""
    host, namespace = here()
    at = None if socket is None else str(socket.absolute())
    who = {"pid": os.getpid(), "pid_namespace": namespace, "host": host, "role": role, "socket": at}
    for _ in range(ATTEMPTS_MAX):
        fd = _open(path)
        try:
            _take(fd, path)
            line = json.dumps(who).encode() + b"\n"
            os.pwrite(fd, line, 0)
            os.ftruncate(fd, len(line))  # a reader finds one whole line at any moment
        except BaseException:
            os.close(fd)
            raise
        lock = Lock(fd, path)
        if lock.is_in_place:
            return lock
        lock.release()  # the file was replaced meanwhile: the new one counts
    raise LockError(f"{path} keeps being replaced by another program")


def holder(path: Path) -> Holder | None:
    """Return who holds the lock at `path`, None if it is free; the lock is not touched. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return _read(fd) if _is_held(fd) else None
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    """Open or make the file, not through a link; O_NONBLOCK, since opening a FIFO could block."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    no_file = LockError(f"{path} must be a plain file, for clew's lock: move away what is there")
    try:
        fd = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise no_file from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise no_file
    return fd


def _take(fd: int, path: Path) -> None:
    """Lock the file, and check that others see it: some network file systems take locks that exclude nobody."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _ASKED)
        why = "a lock that is held can be taken again"
        if holder(path) is not None or not _is_at(fd, path):
            return
    except OSError as error:
        if error.errno in _HELD:
            raise LockHeldError(_read(fd), path) from None
        if error.errno not in _UNSUPPORTED:
            raise
        why = os.strerror(error.errno)
    raise LockError(
        f"{path}: this file system does not support locks ({why}), so nothing could stop two daemons from using the "
        "same files. Put the folder on a local disk ([paths] in config.toml, or clew --home DIR)"
    )


def _is_held(fd: int) -> bool:
    try:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _ASKED)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False  # it cannot be held there
        raise
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except FileNotFoundError:
        return False


def _read(fd: int) -> Holder:
    line, end, _ = os.pread(fd, CONTENT_BYTES_MAX, 0).partition(b"\n")
    found: object = None
    with suppress(ValueError, RecursionError):
        found = json.loads(line) if end else None
    known = found if isinstance(found, dict) else {}
    texts = {k: v for k, v in known.items() if isinstance(v, str) and v and "\0" not in v}
    numbers = {k: v for k, v in known.items() if type(v) is int and v > 0}
    socket = Path(texts["socket"]) if "socket" in texts else None
    pid, pid_namespace = numbers.get("pid"), numbers.get("pid_namespace")
    return Holder(pid, texts.get("role"), socket, texts.get("host"), pid_namespace)


def here() -> tuple[str, int | None]:
    """Return the host and the PID namespace (None: no /proc) in which numbers of processes mean the same as here."""
    try:
        return os.uname().nodename, os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - of what the link leads to
    except OSError:
        return os.uname().nodename, None
