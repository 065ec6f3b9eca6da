"""Commands: started by the starter, the small process that forks them, read along, and ended at their deadline.

The starter is in a Landlock domain inside the executor's: commands cannot trace or signal the executor and so cannot
forge outcomes, but they can signal each other (a later `kill` ends an earlier server). The executor is the parent of
each command (subreaper), so that its exit status comes from the kernel. Commands may kill the starter at any time; it
is then started again. Where it cannot run as a program of its own, it stays a fork of the executor. The executor's own
socket is here, too: pipes are emptied while it waits.
"""

import contextlib
import fcntl
import json
import os
import re
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from clew_shared.files import closing
from clew_shared.wire import executor as ex
from clew_worker.executor import starter
from clew_worker.sandbox import kernel, landlock

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
        self._total += len(data)
        room = self._head_max - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room < len(data) else b""
        if len(self._tail) > 2 * self._tail_max:
            del self._tail[: -self._tail_max]

    def tail(self) -> str:
        return clean((self._head + self._tail)[-_TAIL_BYTES:].decode(errors="replace").strip(_TORN))

    def text(self) -> str:
        if self._total <= self._head_max + self._tail_max:
            return clean((self._head + self._tail).decode(errors="replace"))
        # The ends may be characters that the cut has torn.
        head = self._head.decode(errors="replace").rstrip(_TORN)
        tail = self._tail[-self._tail_max :].decode(errors="replace").lstrip(_TORN)
        left_out = self._total - len(head.encode()) - len(tail.encode())
        return clean(f"{head}\n[... {left_out} bytes left out ...]\n{tail}")


def cut(text: str, limit: int) -> str:
    """Cut a text in the middle so that about `limit` bytes of it are left."""
    capture = Capture(limit)
    capture.add(text.encode(errors="replace"))
    return capture.text()


_DRAINED_MAX = 64
_CHUNK, _POLL_S_MAX = 65536, 3_600.0
_START_TIMEOUT_S = 10.0
_STARTS_MAX = 3
_NO_FORK = "cannot start the command: {}"
_DRAIN_S = 0.2
_SILENCE_S = 0.02
_SAID_EVERY_S = 1.0


class WireError(Exception):
    """The daemon broke the protocol."""


class Wire:
    """The socket to the daemon; `closed` once the daemon has hung up."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self._sock = sock
        self._rest = b""
        self._drained: list[int] = []
        self.closed = False

    def send(self, message: ex.ExecutorAnswer) -> None:
        """Send one answer; a daemon that has hung up is noticed at the next read."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._sock.sendall(ex.to_line(message))

    def next_request(self) -> ex.ExecutorRequest | None:
        """Wait for a request; None when the daemon has hung up."""
        while b"\n" not in self._rest and not self.closed:
            self.wait((), None)
        line, _, self._rest = self._rest.partition(b"\n")
        return None if self.closed else ex.read_request(line)

    def drain(self, fd: int) -> None:
        """Own a pipe that a background process still writes to: read it from now on, and drop what comes."""
        if len(self._drained) >= _DRAINED_MAX:
            os.close(self._drained.pop(0))
        self._drained.append(fd)

    def wait(self, fds: tuple[int, ...], timeout_s: float | None) -> set[int]:
        """Wait until one of `fds` is readable or a request came, at most an hour; return those that are readable."""
        poll = select.poll()
        for fd in (*fds, *self._drained, self._sock.fileno()):
            poll.register(fd, select.POLLIN)
        timeout_ms = None if timeout_s is None else min(max(timeout_s, 0), _POLL_S_MAX) * 1000
        ready = {fd for fd, _ in poll.poll(timeout_ms)}
        for fd in ready.intersection(self._drained):
            if not os.read(fd, _CHUNK):
                self._drained.remove(fd)
                os.close(fd)
        if self._sock.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                self._read()
        return ready.intersection(fds)

    def pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self.closed and (left := until - time.monotonic()) > 0:
            self.wait((), left)

    def _read(self) -> None:
        data = b""
        with contextlib.suppress(ConnectionResetError):
            data = self._sock.recv(_CHUNK, socket.MSG_DONTWAIT)
        self.closed = self.closed or not data
        self._rest += data
        if len(self._rest) > ex.LINE_BYTES_MAX:
            raise WireError(f"a line of more than {ex.LINE_BYTES_MAX} bytes")


class CommandError(Exception):
    """A command could not be started; the text says why."""


class Commands:
    """Runs commands in `folder`, one at a time; processes that they leave behind run on.

    `folder` is an open descriptor: a path may lead to another folder by the time a command starts. `rules` is the
    Landlock ruleset of the commands' domain, -1 for none.
    """

    def __init__(self, wire: Wire, folder: int, *, rules: int, open_files: int) -> None:
        self._wire = wire
        self._folder = folder
        self._rules = rules
        self._open_files = open_files
        self.starter = 0  # its pid, 0 for none
        self._sock: socket.socket | None = None
        self._as_program = True
        self._env: dict[str, str] = {}  # in place of the executor's own
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)

    @contextlib.contextmanager
    def own_tmp(self) -> Iterator[None]:
        """Run commands with an empty TMPDIR of their own, removed afterwards, and without git's replaced objects."""
        above = os.environ.get("TMPDIR")
        try:  # tempfile itself has found its folder before this process was forked
            folder = tempfile.mkdtemp(prefix="check-", dir=above) if above else ""
        except OSError:  # no space: the check will say so
            folder = ""
        self._env = {"GIT_NO_REPLACE_OBJECTS": "1"} | ({"TMPDIR": folder} if folder else {})
        try:
            yield
        finally:
            self._env = {}
            shutil.rmtree(folder, ignore_errors=True)

    def run(
        self,
        cmd: str | list[str],
        timeout_s: float,
        output_bytes: int,
        said: Callable[[str], None] = lambda _tail: None,
    ) -> tuple[str, int, bool]:
        """Run one command until it ends, its deadline, or the daemon's hang-up; CommandError if it cannot start.

        Return its output, its exit code (128 + signal where a signal ended it), and whether its time was up.
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
        return capture.text(), code if code >= 0 else 128 - code, timed_out

    def _follow(
        self, pid: int, read_fd: int, capture: Capture, deadline: float, said: Callable[[str], None]
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

    def close(self) -> None:
        if pid := self._forget():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def reap(self) -> None:
        """Collect every child of this process that has ended; the starter may be one of them."""
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                if pid == self.starter:
                    self._forget()

    def _forget(self) -> int:
        if self._sock is not None:
            self._sock.close()
        pid, self.starter, self._sock = self.starter, 0, None
        return pid

    def start(self, argv: list[str], output: int) -> int:
        """Have the starter start a command whose output goes to `output`; return its pid."""
        request = json.dumps({"argv": argv, "env": self._env}).encode()
        if len(request) > starter.REQUEST_BYTES_MAX:
            raise CommandError(
                f"the command has {len(request)} bytes, at most {starter.REQUEST_BYTES_MAX} are possible; "
                "write a file with write_file and run that"
            )
        for _ in range(_STARTS_MAX):  # an earlier command may have killed the starter
            self.reap()
            pid = self._try_start(request, output)
            if pid is not None:
                return pid
            if self.starter:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.starter, signal.SIGKILL)
                self.close()
            self._as_program = False  # it may be that the program itself ends at once, each time
        raise CommandError("the process that starts commands keeps exiting; nothing was started")

    def _try_start(self, request: bytes, output: int) -> int | None:
        """Start a command; None if the starter had ended, and then nothing runs."""
        answer_r, answer_w = os.pipe2(os.O_CLOEXEC)
        go_r, go_w = os.pipe2(os.O_CLOEXEC)
        killed = contextlib.suppress(BrokenPipeError, ConnectionResetError)
        with closing(answer_r), closing(go_w), killed:
            with closing(answer_w), closing(go_r):
                fds = [output, answer_w, go_r, self._folder]
                socket.send_fds(self._socket(), [request], fds)
            return _release(answer_r, go_w)
        return None

    def _socket(self) -> socket.socket:
        """Return the socket to the starter, which is started if there is none."""
        if self._sock is not None:
            return self._sock
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                pid = os.fork()
            except OSError as error:
                ours.close()
                raise CommandError(_NO_FORK.format(error.strerror)) from error
            if pid == 0:
                self._be_starter(theirs.fileno())
        ours.settimeout(_START_TIMEOUT_S)
        self.starter, self._sock = pid, ours
        return ours

    def _be_starter(self, fd: int) -> NoReturn:
        """Be the process that starts commands, in a domain of its own, until the socket closes."""
        code, first, kept = 1, starter.SOCKET, [one for one in (fd, self._rules) if one >= 0]
        try:  # the socket and the ruleset get fixed numbers, all else is shut
            high = [fcntl.fcntl(one, fcntl.F_DUPFD, first + len(kept)) for one in kept]
            for number, one in enumerate(high, first):
                os.dup2(one, number)
            os.closerange(first + len(kept), max(*high, 4 * self._open_files) + 1)
            kernel.limit_descriptors(self._open_files)
            if self._rules >= 0:
                if self._as_program:
                    _exec_starter(first + 1)
                landlock.restrict(first + 1)
                os.close(first + 1)
            starter.serve()
            code = 0
        finally:
            os._exit(code)


def _exec_starter(rules: int) -> None:
    """Become the starter as a program of its own, whose forks cost a tenth; return where that cannot be started."""
    coerced = () if "LC_CTYPE" in os.environ else ("LC_CTYPE",)  # PEP 538
    python = (sys.executable, "-I", "-S", "-X", "utf8", starter.__file__, str(rules), *coerced)
    with contextlib.suppress(OSError):
        os.close(os.open(starter.__file__, os.O_RDONLY))  # the program itself may be hidden
        os.execv(sys.executable, python)  # noqa: S606 - a program of clew's own


def _release(answer_r: int, go_w: int) -> int | None:
    """Let a command run, which must be our child by now, so that it can be followed; None if it does not exist."""
    answer = _read_line(answer_r)
    if not answer.endswith(b"\n"):
        return None
    if answer.startswith(b"!"):
        raise CommandError(_NO_FORK.format(answer[1:].decode(errors="replace").strip()))
    if not answer[:-1].isdigit():  # killed before it could answer
        return None
    pid = int(answer)
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        raise CommandError("the command cannot be monitored; nothing was started") from None
    os.write(go_w, b"!")
    if error := _read_line(answer_r):
        os.waitpid(pid, 0)
        raise CommandError(error.decode(errors="replace").strip())
    return pid


def _read_line(fd: int) -> bytes:
    """Read a line, or until the other end is closed; return what came by the deadline."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    answer = b""
    while select.select([fd], [], [], max(deadline - time.monotonic(), 0))[0]:
        data = os.read(fd, _CHUNK)
        answer += data
        if not data or answer.endswith(b"\n"):
            break
    return answer


def _kill_tree(pid: int) -> None:
    """End a command with everything beneath it and in its process group."""
    try:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)  # it forks no more
        kernel.kill_beneath(pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
