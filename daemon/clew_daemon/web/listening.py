"""Where `clew web` listens: its pages at a TCP port or a Unix socket, and requests for links at a socket of its own.

The latter is in the run folder, which its user alone can reach, and refuses workers as the control socket does: a link
opens a session, and a session may change everything.
"""

import errno
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from clew_daemon.control.server import Control
from clew_daemon.reading.client import LOOK_S, NoDaemon, RequestRefused, call
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_shared.exit_codes import ExitCode

BACKLOG = 64
NOT_RUNNING = "no `clew web` is running: start it with `clew web`, or as a service"


@dataclass(frozen=True)
class Listening:
    """A bound socket, and the address in links to it; `port` is 0 for a Unix socket, which has a `path`."""

    socket: socket.socket
    address: str
    port: int
    path: Path | None = None

    @property
    def base(self) -> str:
        """What links begin with."""
        return f"http://{self.address}:{self.port}" if self.port else f"http://{self.address}"

    def close(self) -> None:
        """Close the socket, and remove that of a path."""
        self.socket.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def listening(listen: str) -> Listening:
    """Bind `HOST:PORT` or `unix:PATH`; CliError where that cannot be done."""
    host, _, port = listen.rpartition(":")
    path = Path(listen.removeprefix("unix:")).expanduser() if listen.startswith("unix:") else None
    inet = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    sock = socket.socket(socket.AF_UNIX if path else inet, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        if path:
            _bind_private(sock, path)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host.strip("[]"), int(port)))
        sock.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        sock.close()
        raise CliError(f"cannot listen on {path or listen}: {_explained(error)}") from None
    if path:
        return Listening(sock, "localhost", 0, path)
    shown = "127.0.0.1" if host == "0.0.0.0" else "[::1]" if host == "[::]" else host  # noqa: S104 - compared
    return Listening(sock, shown, sock.getsockname()[1])


def _bind_private(sock: socket.socket, path: Path) -> None:
    """Bind a socket that its user alone can reach; one that a killed server left is replaced."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(str(path)):
                path.unlink()
    before = os.umask(0o177)
    try:
        sock.bind(str(path))
    finally:
        os.umask(before)


def _explained(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    if error.errno != errno.EADDRINUSE:
        return error.strerror or str(error)
    how = "end it, or choose another port: clew web --listen 127.0.0.1:PORT"
    return f"another program listens there; {how}"


def link_socket(instance: Instance) -> Path:
    """Return where a running `clew web` is asked for links."""
    return instance.places.run / "web.sock"


def asked_link(instance: Instance) -> str:
    """Ask the running server for a new link; CliError where none runs."""
    try:
        return str(call(link_socket(instance), "link", within_s=LOOK_S)["link"])
    except NoDaemon:
        raise CliError(NOT_RUNNING, ExitCode.NO_DAEMON) from None


def refuse_second(instance: Instance) -> None:
    """Raise CliError where a `clew web` runs for this home already."""
    try:
        found = call(link_socket(instance), "where", within_s=LOOK_S)
    except NoDaemon:
        return
    except RequestRefused as error:
        raise CliError(f"a `clew web` runs already: {error.message}") from None
    where = f"as process {found['pid']} at {found['base']}"
    raise CliError(f"`clew web` runs already, {where}; for a link to it: clew web --link")


def link_server(instance: Instance, base: str, new_link: Callable[[], str]) -> Control:
    """Return the server of the socket for links; `new_link` makes one, `base` is what it begins with."""

    async def link(_: Mapping[str, object]) -> Mapping[str, object]:
        return {"link": new_link()}

    async def where(_: Mapping[str, object]) -> Mapping[str, object]:
        return {"base": base, "pid": os.getpid()}

    def daemon() -> int | None:
        holder = instance.holder
        return holder.pid if holder is not None and holder.is_here else None

    return Control(link_socket(instance), {"link": link, "where": where}, daemon)
