"""The executor's side of the starter: the small process that forks the commands.

The starter is in a Landlock domain inside the executor's: commands cannot trace or signal the executor and so cannot
forge outcomes, but they can signal each other (a later `kill` ends an earlier server). The executor is the parent of
each command (subreaper), so that its exit status comes from the kernel. Commands may kill the starter at any time; it
is then started again. Where it cannot run as a program of its own, it stays a fork of the executor.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import sys
import time
from typing import NoReturn

from clew_shared.files.durable import closing
from clew_worker.executor import starter
from clew_worker.sandbox import landlock, privileges

_CHUNK = 65536
_START_TIMEOUT_S = 10.0
_STARTS_MAX = 3
_NO_FORK = "cannot start the command: {}"


class CommandError(Exception):
    """A command could not be started; the text says why."""


class CommandLauncher:
    """Starts commands in `folder`, through a starter that is restarted when it has ended.

    `folder` is an open descriptor: a path may lead to another folder by the time a command starts. `rules` is the
    Landlock ruleset of the commands' domain, -1 for none.
    """

    def __init__(self, folder: int, *, rules: int, open_files: int) -> None:
        self._folder = folder
        self._rules = rules
        self._open_files = open_files
        self.starter = 0
        """The pid of the starter, 0 for none."""
        self._sock: socket.socket | None = None
        self._as_program = True
        self.env: dict[str, str] = {}
        """What commands have in their environment in place of the executor's own."""

    def close(self) -> None:
        """End the starter, which exits when its socket closes."""
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
        """Close the socket to the starter; return its pid."""
        if self._sock is not None:
            self._sock.close()
        pid, self.starter, self._sock = self.starter, 0, None
        return pid

    def start(self, argv: list[str], output: int) -> int:
        """Have the starter start a command whose output goes to `output`; return its pid."""
        request = json.dumps({"argv": argv, "env": self.env}).encode()
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
        with closing(answer_r), closing(go_w):
            try:
                with closing(answer_w), closing(go_r):
                    fds = [output, answer_w, go_r, self._folder]
                    socket.send_fds(self._socket(), [request], fds)
            except (BrokenPipeError, ConnectionResetError):
                return None
            return _release(answer_r, go_w)

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
        code = 1
        try:
            rules = self._place_descriptors(fd)
            privileges.limit_descriptors(self._open_files)
            if rules >= 0:
                if self._as_program:
                    _exec_starter(rules)
                landlock.restrict(rules)
                os.close(rules)
            starter.serve()
            code = 0
        finally:
            os._exit(code)

    def _place_descriptors(self, fd: int) -> int:
        """Leave the socket `fd` and the ruleset at fixed numbers, all else shut; return the ruleset's, -1 for none."""
        wanted = (fd,) if self._rules < 0 else (fd, self._rules)
        high = [fcntl.fcntl(one, fcntl.F_DUPFD, starter.SOCKET + len(wanted)) for one in wanted]
        for number, one in enumerate(high, starter.SOCKET):
            os.dup2(one, number)
        most = max(*high, 4 * self._open_files)
        os.closerange(starter.SOCKET + len(wanted), most + 1)
        return starter.SOCKET + 1 if self._rules >= 0 else -1


def _exec_starter(rules: int) -> None:
    """Become the starter as a program of its own; return where that cannot be started.

    Each command costs two forks, and those of a small process cost a tenth. A new program can be traced by processes
    of the same domain until it forbids it, so it enters the commands' domain only after that.
    """
    coerced = () if "LC_CTYPE" in os.environ else ("LC_CTYPE",)  # PEP 538
    python = (sys.executable, "-I", "-S", "-X", "utf8", starter.__file__, str(rules), *coerced)
    with contextlib.suppress(OSError):
        os.close(os.open(starter.__file__, os.O_RDONLY))  # the program itself may be hidden
        os.execv(sys.executable, python)  # noqa: S606 - a program of clew's own


def _release(answer_r: int, go_w: int) -> int | None:
    """Let a command run, once it is our child and can be followed; None if it does not exist."""
    answer = _read_until(answer_r, b"\n")
    if not answer.endswith(b"\n"):
        return None
    if answer.startswith(b"!"):
        raise CommandError(_NO_FORK.format(answer[1:].decode(errors="replace").strip()))
    if not answer[:-1].isdigit():  # killed before it could answer
        return None
    pid = int(answer)
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


def _read_until(fd: int, end: bytes) -> bytes:
    """Read a line, or until the other end is closed; return what came by the deadline."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    answer = b""
    while select.select([fd], [], [], max(deadline - time.monotonic(), 0))[0]:
        data = os.read(fd, _CHUNK)
        answer += data
        if not data or answer.endswith(end):
            break
    return answer


def _is_child(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
