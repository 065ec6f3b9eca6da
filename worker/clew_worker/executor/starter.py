"""The process that starts commands, as a program of its own: small, so that its forks are cheap.

It runs in the commands' sandbox and is trusted no more than they are: `commands` accepts only what the kernel
confirms. It imports only the standard library: it is started by its path, without site-packages.
"""

import json
import os
import signal
import socket
import sys
from typing import NoReturn

SOCKET = 3
REQUEST_BYTES_MAX = 120 * 1024  # a string of a command line has 128 KiB at most (MAX_ARG_STRLEN)

_PR_SET_DUMPABLE = 4
_RESTRICT_SELF = 446  # landlock_restrict_self, on every machine


def serve() -> None:
    """Start the commands that are asked for on the socket, until it closes."""
    sock = socket.socket(fileno=SOCKET)
    os.set_inheritable(SOCKET, False)
    while _start_one(sock):
        pass


def _start_one(sock: socket.socket) -> bool:
    """Start what one request asks for, as a child of the executor; False at the end.

    Forked twice: when the process in between has ended, the executor is the command's parent. Only
    then the line with its pid is ended, so that the executor need not wait for it. Where a fork
    failed, the line has an exclamation mark and the reason instead.
    """
    data, fds, _, _ = socket.recv_fds(sock, REQUEST_BYTES_MAX, 4)
    if not data:
        return False
    for fd in fds:
        os.set_inheritable(fd, False)  # recv_fds of 3.11 drops MSG_CMSG_CLOEXEC
    output, answer, go, folder = fds
    between = _fork(answer)
    if between == 0:
        child = _fork(answer)
        if child == 0:
            asked = json.loads(data)
            _become(asked["argv"], asked["env"], output, answer, go, folder)
        if child > 0:
            os.write(answer, b"%d" % child)
        os._exit(0)
    if between > 0:
        os.waitpid(between, 0)
    os.write(answer, b"\n")
    for fd in fds:
        os.close(fd)
    return True


def _fork(answer: int) -> int:
    """Fork; return -1 where that fails, after writing the reason to `answer`."""
    try:
        return os.fork()
    except OSError as error:  # the limit of processes, most likely
        os.write(answer, f"!{error.strerror}".encode())
        return -1


def _become(
    argv: list[str], env: dict[str, str], output: int, answer: int, go: int, folder: int
) -> NoReturn:
    """Become the command, as soon as the executor follows it; answer why, if it cannot start."""
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        for target, fd in enumerate((null, output, output)):
            os.dup2(fd, target)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        if os.read(go, 1):
            os.fchdir(folder)
            os.environ.update(env)
            os.execvp(argv[0], argv)  # noqa: S606 - starting it is the job
    except OSError as error:
        os.write(answer, f"cannot start {argv[0]}: {error.strerror}\n".encode())
    except ValueError as error:
        os.write(answer, f"cannot start the command: {error}\n".encode())
    finally:
        os._exit(127)


def _confine(rules: int) -> None:
    """Forbid tracing of this process, then enter the domain of its commands for good."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) or libc.syscall(_RESTRICT_SELF, rules, 0):
        raise OSError(ctypes.get_errno(), "the starter cannot be sandboxed")
    os.close(rules)


if __name__ == "__main__":
    _confine(int(sys.argv[1]))
    for name in sys.argv[2:]:  # what Python itself has added to the environment
        os.environ.pop(name, None)
    serve()
