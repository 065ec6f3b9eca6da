"""The worker protocol for agents without an event loop: an `AgentClient` on a loop in a thread of its own.

That thread sends the heartbeats, so that a busy agent does not count as hung.
"""

import asyncio
import atexit
import os
import socket
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

from clew_shared.wire.hello import HelloAnswer
from clew_worker.agent.client import AgentClient

T = TypeVar("T")


class SyncClient:
    """The connection of this process to the daemon, which lasts until it exits."""

    def __init__(self, sock: socket.socket) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="clew-daemon", daemon=True).start()
        self._daemon = AgentClient(sock)
        self._wait(self._daemon.__aenter__())
        atexit.register(self._close)

    def greet(self, agent: str) -> HelloAnswer:
        """Introduce the agent (`name/version`), and return the goal's state as it is now."""
        return self._wait(self._daemon.greet(agent))

    def call(self, method: str, /, **params: Any) -> Any:
        """Send a request and return its result; raises as `AgentClient.call`."""
        return self._wait(self._daemon.call(method, **params))

    def _wait(self, doing: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result()

    def _close(self) -> None:
        self._wait(self._daemon.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)


@cache
def daemon_of(fd: int) -> SyncClient:
    """Return the one client of a descriptor: two readers would split each other's lines."""
    os.set_inheritable(fd, False)
    return SyncClient(socket.socket(fileno=fd))
