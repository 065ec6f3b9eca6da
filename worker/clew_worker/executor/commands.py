"""Starting commands, and following one until it ends.

Commands are started by a small process in a Landlock domain inside the executor's: they cannot
trace or signal the executor and so cannot forge outcomes, but they can signal each other (a later
`kill` ends an earlier server). The executor is the parent of each (subreaper), so that its exit
status is the kernel's word; the starter may be killed at any time and is then made again. Where it
cannot live as a program of its own, it stays a fork of the executor.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import NoReturn

from clew_worker.executor import starter
from clew_worker.executor.output import Capture
from clew_worker.executor.wire import Wire
from clew_worker.sandbox import kernel, landlock, privileges
from clew_worker.sandbox.processes import descendants

_CHUNK = 65536
_DRAIN_S = 0.2
_SILENCE_S = 0.02
_START_TIMEOUT_S = 10.0
_STARTS_MAX = 3
_NO_FORK = "cannot start the command: {}"


class CommandError(Exception):
    """A command could not be started; the text says why."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: `exit_code` is 128 + signal for one ended by a signal."""

    output: str
    exit_code: int | None
    timed_out: bool = False
    cancelled: bool = False


class Commands:
    """Starts commands in `folder`, one followed at a time; others may run in the background.

    `folder` is an open descriptor: a path may lead to another folder by the time a command starts.
    """

    def __init__(self, wire: Wire, folder: int, *, inner_domain: bool, open_files: int) -> None:
        self._wire = wire
        self._folder = folder
        self._inner_domain = inner_domain
        self._open_files = open_files
        self._starter: tuple[int, socket.socket] | None = None
        self._small = True
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)

    def close(self) -> None:
        """End the starter."""
        if self._starter is not None:
            self._starter[1].close()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._starter[0], 0)
            self._starter = None

    def reap(self) -> None:
        """Collect what has ended in the background."""
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                if self._starter is not None and pid == self._starter[0]:
                    self._starter[1].close()
                    self._starter = None

    def kill_background(self) -> int:
        """End everything that commands have left running; how many processes that were."""
        self.reap()
        keep = self._starter[0] if self._starter else None
        count = 0
        while pids := [pid for pid in descendants(os.getpid()) if pid != keep]:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            count = max(count, len(pids))
            time.sleep(0.001)
            self.reap()
        return count

    def run(self, cmd: str | list[str], request_id: int, timeout_s: float, limit: int) -> Ended:
        """Run one command to its end, its deadline or its cancellation. CommandError: no start."""
        argv = ["/bin/sh", "-c", cmd] if isinstance(cmd, str) else cmd
        deadline = time.monotonic() + timeout_s
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        try:
            pid = self._start(argv, write_fd)
        except BaseException:
            os.close(read_fd)
            raise
        finally:
            os.close(write_fd)
        capture = Capture(limit)
        timed_out = self._follow(pid, read_fd, capture, request_id, deadline)
        cancelled = self._wire.is_cancelled(request_id)
        if timed_out or cancelled:
            _kill_tree(pid)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._drain(read_fd, capture)
        return Ended(capture.text(), code if code >= 0 else 128 - code, timed_out, cancelled)

    def _follow(
        self, pid: int, read_fd: int, capture: Capture, request_id: int, deadline: float
    ) -> bool:
        """Read along until the command itself has ended; True if the deadline came first."""
        pidfd = os.pidfd_open(pid)
        fds: tuple[int, ...] = (pidfd, read_fd)
        try:
            while not self._wire.is_cancelled(request_id):
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return True
                ready = self._wire.wait(fds, left_s)
                if pidfd in ready:  # asked first: what it left behind may print for ever
                    break
                if read_fd in ready:
                    data = os.read(read_fd, _CHUNK)
                    capture.add(data)
                    if not data:
                        fds = (pidfd,)
            return False
        finally:
            os.close(pidfd)

    def _drain(self, read_fd: int, capture: Capture) -> None:
        """Read what is still in the pipe; a background process may hold it open for long."""
        until = time.monotonic() + _DRAIN_S
        while time.monotonic() < until:
            if not select.select([read_fd], [], [], _SILENCE_S)[0]:
                self._wire.leave(read_fd)
                return
            data = os.read(read_fd, _CHUNK)
            if not data:
                os.close(read_fd)
                return
            capture.add(data)
        self._wire.leave(read_fd)

    def _start(self, argv: list[str], output: int) -> int:
        """Have the starter start a command whose output goes to `output`; its pid."""
        request = json.dumps({"argv": argv}).encode()
        if len(request) > starter.REQUEST_BYTES_MAX:
            raise CommandError(
                f"the command has {len(request)} bytes, at most {starter.REQUEST_BYTES_MAX} are possible; "
                "write a file with write_file and run that"
            )
        for _ in range(_STARTS_MAX):  # a starter that an earlier command killed is made again
            self.reap()
            pid = self._try_start(request, output)
            if pid is not None:
                return pid
            self._drop_starter()
            self._small = False  # it may be that the program itself ends at once, each time
        raise CommandError("the process that starts commands keeps exiting; nothing was started")

    def _try_start(self, request: bytes, output: int) -> int | None:
        """Start a command; None if the starter was gone, and then nothing runs."""
        answer_r, answer_w = os.pipe2(os.O_CLOEXEC)
        go_r, go_w = os.pipe2(os.O_CLOEXEC)
        try:
            try:
                socket.send_fds(
                    self._starter_socket(), [request], [output, answer_w, go_r, self._folder]
                )
            except (BrokenPipeError, ConnectionResetError):
                return None
            finally:
                os.close(answer_w)
                os.close(go_r)
            return _release(answer_r, go_w)
        finally:
            os.close(answer_r)
            os.close(go_w)

    def _drop_starter(self) -> None:
        if self._starter is not None:
            pid, sock = self._starter
            sock.close()
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
            self._starter = None

    def _starter_socket(self) -> socket.socket:
        if self._starter is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                pid = os.fork()
            except OSError as error:
                ours.close()
                raise CommandError(_NO_FORK.format(error.strerror)) from error
            else:
                if pid == 0:
                    domain, small = self._inner_domain, self._small
                    _be_starter(theirs.fileno(), self._open_files, inner_domain=domain, small=small)
            finally:
                theirs.close()
            ours.settimeout(_START_TIMEOUT_S)
            self._starter = (pid, ours)
        return self._starter[1]


def _read_until(fd: int, end: bytes) -> bytes:
    """Read a line, or until nobody holds the other end; what came by the deadline otherwise."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    answer = b""
    while select.select([fd], [], [], max(deadline - time.monotonic(), 0))[0]:
        data = os.read(fd, _CHUNK)
        answer += data
        if not data or answer.endswith(end):
            break
    return answer


def _release(answer_r: int, go_w: int) -> int | None:
    """Let a command run, once it is our child and can be followed; None if it is not there."""
    told = _read_until(answer_r, b"\n")
    if not told.endswith(b"\n"):
        return None
    if told.startswith(b"!"):
        raise CommandError(_NO_FORK.format(told[1:].decode(errors="replace").strip()))
    if not told[:-1].isdigit():  # killed before it could say
        return None
    pid = int(told)
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not _is_child(pid):
        if time.monotonic() > deadline:
            raise CommandError("the command cannot be monitored; nothing was started")
        time.sleep(0.0005)
    os.write(go_w, b"!")
    if error := _read_until(answer_r, b"\n"):
        os.waitpid(pid, 0)
        raise CommandError(error.decode(errors="replace").strip())
    return pid


def _is_child(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _kill_tree(pid: int) -> None:
    """End a command with everything beneath it and in its process group."""
    for below in descendants(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(below, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _be_starter(fd: int, open_files: int, *, inner_domain: bool, small: bool) -> NoReturn:
    """Be the process that starts commands, in a domain of its own, until the socket closes."""
    code = 1
    try:
        os.dup2(fd, starter.SOCKET)
        os.closerange(starter.SOCKET + 1, max(fd, 4 * open_files) + 1)
        privileges.limit_descriptors(open_files)
        if inner_domain:
            rules = landlock.inner_ruleset()
            if small:
                _be_small_starter(rules)
            landlock.restrict(rules)
            os.close(rules)
        starter.serve()
        code = 0
    finally:
        os._exit(code)


def _be_small_starter(rules: int) -> None:
    """Go on as a program of its own; return where that cannot be started.

    Each command costs two forks, and those of a small process cost a tenth. A new program can be
    traced by its equals until it says otherwise, so it enters the commands' domain only then.
    """
    os.set_inheritable(rules, True)
    coerced = () if "LC_CTYPE" in os.environ else ("LC_CTYPE",)  # PEP 538
    python = (sys.executable, "-I", "-S", "-X", "utf8", starter.__file__, str(rules), *coerced)
    with contextlib.suppress(OSError):
        os.close(os.open(starter.__file__, os.O_RDONLY))  # the program itself may be hidden
        os.execv(sys.executable, python)  # noqa: S606 - a program of clew's own
