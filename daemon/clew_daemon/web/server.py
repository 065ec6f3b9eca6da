"""One life of `clew web`: its socket, the guard before its pages, the links, and the end by a signal.

Its pages are at a TCP port or a Unix socket, and requests for links at a socket of their own. The latter is in the run
folder, which its user alone can reach, and refuses workers as the control socket does: a link opens a session, and a
session may change everything.
"""

import asyncio
import errno
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from clew_daemon.control.server import Control
from clew_daemon.host.folders import FolderError, make_private
from clew_daemon.host.own_process import Notifier, collect_as_usual, let_others_first
from clew_daemon.reading.client import LOOK_S, NoDaemon, RequestRefused, call
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.follow import News, following
from clew_daemon.reading.instance import Instance
from clew_daemon.web.app import ALL, LiveChanges, web_app
from clew_daemon.web.guard import LINK_PATH, Guard, Policy, Sessions, served_hosts
from clew_shared.config.tables import WebSettings
from clew_shared.exit_codes import ExitCode

BACKLOG = 64
TAKEN = "another program listens there; end it, or choose another port: clew web --listen 127.0.0.1:PORT"
NOT_RUNNING = "no `clew web` is running: start it with `clew web`, or as a service"
CONNECTIONS_MAX = 256
HEAD_S = 5.0  # how long a client may take for the head of a request
HEAD_BYTES_MAX = 16 << 10
IDLE_S = 15
THREADS = 4  # pages that are made at once; each thread costs memory
STOP_S = 1


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
        return f"http://{self.address}{f':{self.port}' if self.port else ''}"

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
        is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = TAKEN if is_taken else getattr(error, "strerror", None) or error
        raise CliError(f"cannot listen on {path or listen}: {why}") from None
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


def link_socket(instance: Instance) -> Path:
    """Return where a running `clew web` is asked for links."""
    return instance.places.run / "web.sock"


def asked_link(instance: Instance) -> str:
    """Ask the running server for a new link; CliError where none runs."""
    try:
        return str(call(link_socket(instance), "link", within_s=LOOK_S)["link"])
    except NoDaemon:
        raise CliError(NOT_RUNNING, ExitCode.NO_DAEMON) from None


class BoundedConnection(H11Protocol):
    """Closes a connection whose next head is not whole in time; where there are too many, the one that waits longest.

    So a client that opens connections and sends nothing, for which no session is needed, keeps no one else out.
    """

    late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= CONNECTIONS_MAX and not self._end_longest():
            transport.abort()
            return
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.stop_waiting()
        elif not self.transport.is_closing():
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_waiting()
        if self in self.connections:
            super().connection_lost(exc)

    def _end_longest(self) -> bool:
        """End the connection that has waited longest for a head; return whether there was one."""
        ours = [one for one in self.connections if isinstance(one, BoundedConnection)]
        waiting = {one.late.when(): one for one in ours if one.late is not None}
        if waiting:
            longest = waiting[min(waiting)]
            longest.stop_waiting()
            longest.transport.abort()
        return bool(waiting)

    def _expect_head(self) -> None:
        if self.late is None:
            self.late = self.loop.call_later(HEAD_S, self._give_up)

    def stop_waiting(self) -> None:
        """Wait for no head any more."""
        if self.late is not None:
            self.late.cancel()
            self.late = None

    def _give_up(self) -> None:
        self.late = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def serve(instance: Instance, settings: WebSettings, announce: Callable[[str], None] | None) -> int:
    """Serve the pages until a signal ends this process; `announce` is given the first link, if there is to be one."""
    with suppress(NoDaemon):
        try:
            # not "link": the oldest one would be dropped for a new one
            found = call(link_socket(instance), "where", within_s=LOOK_S)
            why = f"at {found['base']}; for a link to it: clew web --link"
        except RequestRefused as error:
            why = error.message
        raise CliError(f"`clew web` runs already: {why}")
    let_others_first()
    collect_as_usual()
    with closing(listening(settings.listen)) as place:
        return asyncio.run(_serve(instance, settings, place, announce))


async def _serve(
    instance: Instance,
    settings: WebSettings,
    place: Listening,
    announce: Callable[[str], None] | None,
) -> int:
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    sessions, live, loop = Sessions(), LiveChanges(), asyncio.get_running_loop()
    hosts = served_hosts(place.address, place.port or 80, settings.hosts)
    app = web_app(instance, live, read_only=settings.read_only)
    guard = Guard(app, Policy(hosts, settings.read_only), sessions, place.port)
    config = uvicorn.Config(
        guard,
        http=BoundedConnection,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=STOP_S,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        backlog=BACKLOG,  # fewer than there are places, so that a new connection is read before it can be dropped
    )
    server = uvicorn.Server(config)

    def new_link() -> str:
        return f"{place.base}{LINK_PATH}{sessions.new_link(time.monotonic())}"

    async def link(_: Mapping[str, object]) -> Mapping[str, object]:
        return {"link": new_link()}

    async def where(_: Mapping[str, object]) -> Mapping[str, object]:
        return {"base": place.base}

    def daemon() -> int | None:
        holder = instance.holder
        return holder.pid if holder is not None and holder.is_here else None

    def heard(news: News) -> None:
        """Note the goals of new events, or all where the daemon came or went."""
        goals = sorted({event.goal for event in news.events}) or [ALL]
        with suppress(RuntimeError):  # the server has just ended
            loop.call_soon_threadsafe(live.add, goals)

    def end(*_: object) -> None:  # before the server takes signals, and when it raises them again
        server.should_exit = True

    links = Control(link_socket(instance), {"link": link, "where": where}, daemon)
    try:
        make_private(instance.places.run)
        await links.start()
    except (FolderError, OSError) as error:
        raise CliError(f"cannot listen for `clew web --link`: {error}") from None
    notifier = Notifier.from_env(os.environ)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, end)
    ended = following(instance, heard)
    try:
        if announce:
            announce(new_link())
        notifier.ready(f"serving {place.base}")
        await server.serve(sockets=[place.socket])
    finally:
        notifier.tell("STOPPING=1")
        ended.set()
        await links.stop()
    return 0
