"""Running a command: start it, read its output, and end it at its deadline."""

import contextlib
import os
import re
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from clew_shared.files.durable import closing
from clew_worker.executor.launcher import CommandLauncher
from clew_worker.executor.wire import Wire
from clew_worker.sandbox import kernel
from clew_worker.sandbox.kernel import descendants

_CONTROL = re.compile(r"[\x00-\x07\x0b\x0e-\x1a\x1c-\x1f\x7f\ud800-\udfff]")
_TORN = "\N{REPLACEMENT CHARACTER}"
_TAIL_BYTES = 1_000


def clean(text: str) -> str:
    """Replace control characters (except white space and colours) and lone surrogates."""
    return _CONTROL.sub(_TORN, text)


class Capture:
    """The head and the tail of a stream, at most `limit` bytes of it in memory and in the text."""

    def __init__(self, limit: int) -> None:
        self._head_max = max(limit // 2, 1)
        self._tail_max = max(limit - self._head_max, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Add the next piece."""
        self._total += len(data)
        room = self._head_max - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room < len(data) else b""
        if len(self._tail) > 2 * self._tail_max:
            del self._tail[: -self._tail_max]

    def tail(self) -> str:
        """Return the last lines so far."""
        return clean(_decoded((self._head + self._tail)[-_TAIL_BYTES:]).strip(_TORN))

    def text(self) -> str:
        """Return the head and the tail, with a line between them that states how much was left out."""
        if self._total <= self._head_max + self._tail_max:
            return clean(_decoded(self._head + self._tail))
        head = _decoded(self._head).rstrip(_TORN)  # a character that the cut has torn
        tail = _decoded(self._tail[-self._tail_max :]).lstrip(_TORN)
        left_out = self._total - len(head.encode()) - len(tail.encode())
        return clean(f"{head}\n[... {left_out} bytes left out ...]\n{tail}")


def _decoded(data: bytes | bytearray) -> str:
    return data.decode(errors="replace")


def cut(text: str, limit: int) -> str:
    """Cut a text in the middle so that about `limit` bytes of it are left."""
    capture = Capture(limit)
    capture.add(text.encode(errors="replace"))
    return capture.text()


_CHUNK = 65536
_DRAIN_S = 0.2
_SILENCE_S = 0.02
_SAID_EVERY_S = 1.0


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended: `exit_code` is 128 + signal for one ended by a signal."""

    output: str
    exit_code: int | None
    timed_out: bool = False


class Commands(CommandLauncher):
    """Runs commands in a folder, one at a time; processes that they leave behind run on."""

    def __init__(self, wire: Wire, folder: int, *, rules: int, open_files: int) -> None:
        super().__init__(folder, rules=rules, open_files=open_files)
        self._wire = wire
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)

    @contextlib.contextmanager
    def own_tmp(self) -> Iterator[None]:
        """Run commands with a TMPDIR of their own, with nothing in it, which is removed afterwards."""
        above = os.environ.get("TMPDIR")
        try:  # tempfile itself has found its folder before this process was forked
            folder = tempfile.mkdtemp(prefix="check-", dir=above) if above else ""
        except OSError:  # no space: the check will say so
            folder = ""
        self.env = {"TMPDIR": folder} if folder else {}
        try:
            yield
        finally:
            self.env = {}
            shutil.rmtree(folder, ignore_errors=True)

    def run(
        self,
        cmd: str | list[str],
        timeout_s: float,
        output_bytes: int,
        said: Callable[[str], None] = lambda _tail: None,
    ) -> CommandEnd:
        """Run one command until it ends, its deadline, or the daemon's hang-up; CommandError if it cannot start.

        `said` is told what it has printed last, at most once a second.
        """
        argv = ["/bin/sh", "-c", cmd] if isinstance(cmd, str) else cmd
        deadline = time.monotonic() + timeout_s
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        try:
            with closing(write_fd):
                pid = self.start(argv, write_fd)
        except BaseException:
            os.close(read_fd)
            raise
        capture = Capture(output_bytes)
        timed_out = self._follow(pid, read_fd, capture, deadline, said)
        if timed_out or self._wire.closed:
            _kill_tree(pid)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._read_rest(read_fd, capture)
        return CommandEnd(capture.text(), code if code >= 0 else 128 - code, timed_out)

    def _follow(
        self,
        pid: int,
        read_fd: int,
        capture: Capture,
        deadline: float,
        said: Callable[[str], None],
    ) -> bool:
        """Read along until the command itself has ended; return whether the deadline came first."""
        tell_at, untold, fds = time.monotonic() + _SAID_EVERY_S, False, [read_fd]
        with closing(os.pidfd_open(pid)) as pidfd:
            while not self._wire.closed:
                now = time.monotonic()
                if now >= deadline:
                    return True
                if untold and now >= tell_at:
                    said(capture.tail())
                    tell_at, untold = now + _SAID_EVERY_S, False
                until = min(deadline, tell_at) if untold else deadline
                ready = self._wire.wait((pidfd, *fds), until - now)
                if pidfd in ready:  # asked first: a process that it left behind may print for ever
                    break
                if read_fd in ready:
                    data = os.read(read_fd, _CHUNK)
                    capture.add(data)
                    untold = untold or bool(data)
                    fds = fds if data else []
        return False

    def _read_rest(self, read_fd: int, capture: Capture) -> None:
        """Read what is still in the pipe; a background process may hold it open for long."""
        until = time.monotonic() + _DRAIN_S
        while time.monotonic() < until:
            if not select.select([read_fd], [], [], _SILENCE_S)[0]:
                break
            data = os.read(read_fd, _CHUNK)
            if not data:
                os.close(read_fd)
                return
            capture.add(data)
        self._wire.drain(read_fd)


def _kill_tree(pid: int) -> None:
    """End a command with everything beneath it and in its process group."""
    for below in descendants(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(below, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
