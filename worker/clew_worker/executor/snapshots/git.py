"""Runs the system's git on a goal's store, with the workspace as its work tree and nothing of the user's settings.

git ends with the executor, however that ends, and no wait for it is without a deadline.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable

from clew_shared.snapshots.store import SnapshotStore
from clew_worker.executor.wire import Wire
from clew_worker.sandbox import kernel

_SLICE_S = 0.2  # how soon a hang-up is noticed
_FATAL = "fatal: "


class SnapshotError(Exception):
    """A snapshot cannot be taken, or an entry not restored; the text says why."""


class NoRoomError(SnapshotError):
    """The store is as large as it may be."""


class GitFailedError(SnapshotError):
    """git has ended with an error, or by a signal; `said` is what it printed."""

    def __init__(self, text: str, said: bytes) -> None:
        super().__init__(text)
        self.said = said


class Budget:
    """A deadline; `check` raises SnapshotError when it has passed, or the daemon has hung up."""

    def __init__(self, wire: Wire, seconds: float) -> None:
        self._wire = wire
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._look_again = 0.0

    def check(self) -> None:
        """Raise SnapshotError if there is no more time; cheap enough for each file."""
        now = time.monotonic()
        if now > self._until:
            raise SnapshotError(f"it took more than {self._seconds:.0f} s")
        if now > self._look_again:
            self._wire.wait((), 0)
            self._look_again = now + _SLICE_S
        if self._wire.closed:
            raise SnapshotError("the daemon has hung up")

    def wait(self, fd: int) -> None:
        """Wait until a descriptor can be read."""
        while fd not in self._wire.wait((fd,), _SLICE_S):
            self.check()


class Git:
    """Git on a store, in the folder `root`; `index` is the name of the index file in the store."""

    def __init__(
        self, store: SnapshotStore, root: int, budget: Budget, index: str = "index"
    ) -> None:
        self.store = store
        self._root = root
        self._budget = budget
        self._index = index

    def names(self, *args: str) -> list[str]:
        """Return the names that git lists with `-z`, as `os.fsdecode` gives them."""
        return [os.fsdecode(name) for name in self.run(*args).split(b"\0") if name]

    def tell(self, names: Iterable[str], *args: str) -> None:
        """Run git with names on its input, each with a NUL at its end."""
        self.run(*args, data=b"".join(os.fsencode(name) + b"\0" for name in names))

    def run(self, *args: str, data: bytes = b"") -> bytes:
        """Run git and return what it prints; raises SnapshotError, GitFailedError."""
        self._budget.check()
        files = [os.memfd_create("git", os.MFD_CLOEXEC) for _ in range(3)]
        try:
            with open(files[0], "wb", closefd=False) as given:
                given.write(data)
            os.lseek(files[0], 0, os.SEEK_SET)
            code = self._ended(args, files)
            said, complaint = (os.pread(fd, os.fstat(fd).st_size, 0) for fd in files[1:])
        finally:
            for fd in files:
                os.close(fd)
        if code:
            raise self._failed(args, code, complaint)
        return said

    def _ended(self, args: tuple[str, ...], files: list[int]) -> int:
        """Run git with its input and outputs in files; return its exit code."""
        own = {"GIT_WORK_TREE": ".", "GIT_INDEX_FILE": str(self.store.folder / self._index)}
        given, out, errors = files
        try:
            process = subprocess.Popen(
                self.store.command("-c", "core.fsync=none", *args),
                stdin=given,
                stdout=out,
                stderr=errors,
                env=self.store.environment() | own,
                preexec_fn=_prepare(os.getpid(), self._root),  # noqa: PLW1509 - the executor has one thread
            )
        except (OSError, subprocess.SubprocessError) as error:
            why = error.strerror if isinstance(error, OSError) else "the workspace is gone"
            raise SnapshotError(f"git cannot be started: {why}") from error
        pidfd = os.pidfd_open(process.pid)
        try:
            self._budget.wait(pidfd)
        finally:
            os.close(pidfd)
            process.kill()
            process.wait()
        return process.returncode

    def _failed(self, args: tuple[str, ...], code: int, complaint: bytes) -> GitFailedError:
        """Return why git has ended: its first fatal error, else what it printed last.

        Paths in the store are not shown: names of temporary files would make each failure look like another one.
        """
        what = next(word for word in args if not word.startswith("-") and "=" not in word)
        text = complaint[-65536:].decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        fatal = [line.removeprefix(_FATAL) for line in lines if line.startswith(_FATAL)]
        ended = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
        said = [*fatal, *lines[-1:], ended][0]
        shown = re.sub(rf"{re.escape(str(self.store.folder))}[^\s']*", "the store", said)
        return GitFailedError(f"git {what}: {shown[:300]}", complaint)


def _prepare(parent: int, root: int) -> Callable[[], None]:
    """Return what a new process does before it is git: to end with the executor, and stand in the workspace."""

    def prepare() -> None:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        os.umask(0o077)
        os.fchdir(root)

    return prepare
