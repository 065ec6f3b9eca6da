"""A git process that works on the store: it ends with the executor, and no wait for it is without a deadline."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from typing import IO, TYPE_CHECKING, Self, cast

from clew_worker.executor.snapshots.budget import SnapshotError
from clew_worker.sandbox import kernel

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from clew_shared.snapshots.store import SnapshotStore
    from clew_worker.executor.snapshots.budget import Budget

_CHUNK = 65536
_FATAL = "fatal: "
_END_S = 5.0


class GitFailedError(SnapshotError):
    """git has ended with an error, or by a signal."""


class GitProcess:
    """One run of git. It is killed where the block that it is used in ends before `finish`."""

    def __init__(self, store: SnapshotStore, budget: Budget, *args: str) -> None:
        self._store = store
        self._budget = budget
        self._what = f"git {args[0]}"
        self._read = b""
        self._errors = os.memfd_create("git", os.MFD_CLOEXEC)
        try:
            self._process = subprocess.Popen(
                store.command(*args),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=store.folder,
                env=store.environment(),
                preexec_fn=_dies_with(os.getpid()),  # noqa: PLW1509 - the executor has one thread
            )
        except OSError as error:
            os.close(self._errors)
            raise SnapshotError(f"git cannot be started: {error.strerror}") from error
        pipes = cast("tuple[IO[bytes], IO[bytes]]", (self._process.stdin, self._process.stdout))
        self._pipes = pipes
        self._in, self._out = pipes[0].fileno(), pipes[1].fileno()
        os.set_blocking(self._in, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()
        os.close(self._errors)

    def write(self, data: bytes) -> None:
        """Write all of it; raises SnapshotError where git has ended."""
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._in, left) :]
            except BlockingIOError:
                self._budget.wait_writable(self._in)
            except BrokenPipeError:
                self._process.wait()
                raise self._failed() from None

    def read_line(self) -> bytes:
        """Return the next line, without its end."""
        while b"\n" not in self._read:
            self._fill()
        line, _, self._read = self._read.partition(b"\n")
        return line

    def read_some(self, most: int) -> bytes:
        """Return the next bytes, at least one and at most `most`."""
        if not self._read:
            self._fill()
        data, self._read = self._read[:most], self._read[most:]
        return data

    def finish(self) -> bytes:
        """Close its input and wait for its end; return the rest of what it prints. Raises SnapshotError if it fails."""
        self._pipes[0].close()
        parts = [self._read]
        while parts[-1] or len(parts) == 1:
            self._budget.wait_readable(self._out)
            parts.append(os.read(self._out, _CHUNK))
        self._read = b""
        try:
            code = self._process.wait(_END_S)  # it has closed its output already
        except subprocess.TimeoutExpired:
            raise SnapshotError(f"{self._what} does not end") from None
        if code:
            raise self._failed()
        return b"".join(parts)

    def _fill(self) -> None:
        self._budget.wait_readable(self._out)
        data = os.read(self._out, _CHUNK)
        if not data:
            self._process.wait()
            raise self._failed()
        self._read += data

    def _failed(self) -> GitFailedError:
        """Return why git has ended: its first fatal error, else what it printed last.

        Paths in the store are not shown: names of temporary files would make each failure look like another one.
        """
        text = os.pread(self._errors, _CHUNK, 0).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        fatal = [line.removeprefix(_FATAL) for line in lines if line.startswith(_FATAL)]
        code = self._process.returncode
        ended = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
        said = [*fatal, *lines[-1:], ended][0]
        shown = re.sub(rf"{re.escape(str(self._store.folder))}[^\s']*", "the store", said)
        return GitFailedError(f"{self._what}: {shown[:300]}")


def _dies_with(parent: int) -> Callable[[], None]:
    """Return what a new process does before it is git: to end when the executor does, however that ends."""

    def prepare() -> None:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return prepare
