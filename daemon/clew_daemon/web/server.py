"""One life of `clew web`: its socket, the guard before its pages, the links, and the end by a signal."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import anyio.to_thread
import uvicorn

from clew_daemon.host.folders import FolderError, make_private
from clew_daemon.host.own_process import Notifier, collect_as_usual, let_others_first
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.follow import Following, StreamBatch, StreamNews
from clew_daemon.reading.instance import Instance
from clew_daemon.web.app import ALL, LiveChanges, web_app
from clew_daemon.web.connections import HEAD_BYTES_MAX, BoundedConnection
from clew_daemon.web.guard import LINK_PATH, Guard
from clew_daemon.web.listening import BACKLOG, Listening, link_server, listening, refuse_second
from clew_daemon.web.rules import Policy, served_hosts
from clew_daemon.web.sessions import Sessions
from clew_shared.config.tables import WebSettings

IDLE_S = 15
THREADS = 4
"""Pages that are made at once; each thread costs memory."""
STOP_S = 1


def serve(instance: Instance, settings: WebSettings, announce: Callable[[str], None] | None) -> int:
    """Serve the pages until a signal ends this process; `announce` is given the first link, if there is to be one."""
    refuse_second(instance)
    let_others_first()
    collect_as_usual()
    place = listening(settings.listen)
    try:
        return asyncio.run(_serve(instance, settings, place, announce))
    finally:
        place.close()


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
    server = uvicorn.Server(_config(guard))

    def new_link() -> str:
        return f"{place.base}{LINK_PATH}{sessions.new_link(time.monotonic())}"

    def heard(news: StreamNews) -> None:
        """Note the goals of new events, or all where the daemon came or went."""
        goals = {e.goal for e in news.events} if isinstance(news, StreamBatch) else {ALL}
        with suppress(RuntimeError):  # the server has just ended
            if goals:
                loop.call_soon_threadsafe(live.add, sorted(goals))

    def end(*_: object) -> None:  # before the server takes signals, and when it raises them again
        server.should_exit = True

    links = link_server(instance, place.base, new_link)
    try:
        make_private(instance.places.run)
        await links.start()
    except (FolderError, OSError) as error:
        raise CliError(f"cannot listen for `clew web --link`: {error}") from None
    followed, notifier = Following(instance, heard), Notifier.from_env(os.environ)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, end)
    try:
        followed.begin()
        if announce:
            announce(new_link())
        notifier.ready(f"serving {place.base}")
        await server.serve(sockets=[place.socket])
    finally:
        notifier.tell("STOPPING=1")
        followed.end()
        await links.stop()
    return 0


def _config(guard: Guard) -> uvicorn.Config:
    return uvicorn.Config(
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
        backlog=BACKLOG,  # so many come at once, fewer than there are places: each is heard before it can lose its own
    )
