"""The socket that `clew web` listens on: a TCP port, or a Unix socket for a reverse proxy."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from clew_daemon.reading.errors import CliError

BACKLOG = 64


@dataclass(frozen=True)
class Listening:
    """A bound socket, and the address in links to it; `port` is 0 for a Unix socket, which has a `path`.

    `file` is device and inode of that path.
    """

    socket: socket.socket
    address: str
    port: int
    path: Path | None = None
    file: tuple[int, int] = (0, 0)

    @property
    def base(self) -> str:
        """What links begin with."""
        return f"http://{self.address}:{self.port}" if self.port else f"http://{self.address}"

    @property
    def is_found(self) -> bool:
        """Whether others can still reach it: the file of a path was not removed or replaced."""
        return self.path is None or _file_at(self.path) == self.file

    def close(self) -> None:
        """Close the socket, and remove that of a path."""
        self.socket.close()
        if self.path is not None and self.is_found:
            self.path.unlink(missing_ok=True)


def listening(listen: str) -> Listening:
    """Bind `HOST:PORT` or `unix:PATH`; CliError where that cannot be done."""
    if listen.startswith("unix:"):
        path = Path(listen.removeprefix("unix:")).expanduser()
        return Listening(_unix(path), "localhost", 0, path, _file_at(path))
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host.strip("[]"), int(port)))
        sock.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        sock.close()
        raise CliError(_explained(error, listen, int(port))) from None
    shown = "127.0.0.1" if host == "0.0.0.0" else "[::1]" if host == "[::]" else host  # noqa: S104 - compared
    return Listening(sock, shown, sock.getsockname()[1])


def _unix(path: Path) -> socket.socket:
    """Bind a socket that its user alone can reach; one that a killed server left is replaced."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        if path.is_socket() and not _answers(path):
            path.unlink()
        before = os.umask(0o177)
        try:
            sock.bind(str(path))
        finally:
            os.umask(before)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        why = "another program listens there" if error.errno == errno.EADDRINUSE else error.strerror
        raise CliError(f"cannot listen at {path}: {why or error}") from None
    return sock


def _file_at(path: Path) -> tuple[int, int]:
    """Return device and inode of a path, zeros where there is nothing."""
    try:
        found = path.lstat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _explained(error: Exception, listen: str, port: int) -> str:
    if not isinstance(error, OSError):
        return f"cannot listen on {listen}: {error}"
    if error.errno != errno.EADDRINUSE:
        return f"cannot listen on {listen}: {error.strerror}"
    who = _holder(port) or "another program, which cannot be seen from here"
    return f"port {port} is in use by {who}; end it, or choose another port: clew web --listen 127.0.0.1:PORT"


def _holder(port: int) -> str:
    """Return the process that listens on a port, "" if it cannot be found."""
    import psutil

    with suppress(psutil.Error, OSError):
        for one in psutil.net_connections("tcp"):
            here = one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port
            if here and one.pid:
                return f"process {one.pid} ({psutil.Process(one.pid).name()})"
    return ""
