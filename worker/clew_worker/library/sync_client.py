"""The agent's side of the worker protocol for agents without an event loop: one blocking call at a time.

It transports messages; a thread sends the heartbeats, so that a busy agent does not count as hung.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Any, Self

from clew_shared.wire import protocol
from clew_shared.wire.hello import HelloAnswer
from clew_worker.agent.rpc import (
    ANSWER_TIMEOUT_S,
    CHUNK_BYTES,
    Disconnected,
    Notice,
    Rpc,
    message_line,
    result_of,
)

_JOIN_S = 1.0

_opening = threading.Lock()
_of_process: dict[int, SyncClient] = {}
"""The connections of this process, by descriptor: two readers of one would split each other's lines."""


class SyncClient:
    """A connection to the daemon; use it as `with SyncClient.from_env() as daemon:`.

    `on(method, callback)` subscribes to the daemon's notifications (`feedback`, `thresholds`, `intervention`,
    `stop`), which are read while a call waits for its answer. Calls of several threads are serialised; a callback
    must not call.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(ANSWER_TIMEOUT_S)
        self._sock = sock
        self._rpc = Rpc()
        self._calling = threading.Lock()
        self._sending = threading.Lock()
        self._closed = threading.Event()
        self._heart: threading.Thread | None = None

    @classmethod
    def from_env(cls) -> SyncClient:
        """Return a client for the connection in `CLEW_FD`; KeyError without one.

        A process has one client: every call returns the same until it is closed.
        """
        fd = int(os.environ["CLEW_FD"])
        with _opening:
            client = _of_process.get(fd)
            if client is None:
                os.set_inheritable(fd, False)
                client = _of_process[fd] = cls(socket.socket(fileno=fd))
            return client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self._closed.set()
        if self._heart and self._heart is not threading.current_thread():
            self._heart.join(_JOIN_S)
        with _opening:
            for fd in [fd for fd, client in _of_process.items() if client is self]:
                del _of_process[fd]
            self._sock.close()

    def on(self, method: str, callback: Notice) -> None:
        """Call `callback` with the params of each notification of that name."""
        self._rpc.on(method, callback)

    def hello(self, agent: str) -> dict[str, Any]:
        """Introduce the agent (`name/version`); returns the goal's state as it is now. Can be called at any time."""
        answer: dict[str, Any] = self.call("hello", protocol=protocol.PROTOCOL_VERSION, agent=agent)
        if self._heart is None:
            every_s = float(answer.get("heartbeat_s") or 1.0)
            self._heart = threading.Thread(
                target=self._beat, args=(every_s,), name="clew-heartbeat", daemon=True
            )
            self._heart.start()
        return answer

    def greet(self, agent: str) -> HelloAnswer:
        """Send `hello`, and return its answer as a model."""
        return HelloAnswer.model_validate(self.hello(agent))

    def call(self, method: str, /, **params: Any) -> Any:
        """Send a request and return its result.

        Raises `RpcError` where the daemon refuses, `Disconnected` if it is gone, and ValueError for a message that
        is too long.
        """
        with self._calling:
            request_id, line = self._rpc.request(method, params)
            self._send(method, line)
            return result_of(method, self._receive(method, request_id))

    def notify(self, method: str, /, **params: Any) -> None:
        """Send a notification; `Disconnected` where the daemon is gone."""
        self._send(method, message_line(method, params))

    def _send(self, method: str, line: bytes) -> None:
        if self._closed.is_set():
            raise Disconnected(f"{method}: the connection is closed")
        try:
            with self._sending:
                self._sock.sendall(line)
        except OSError as error:
            raise Disconnected(f"{method}: {error}") from error

    def _receive(self, method: str, request_id: int) -> dict[str, Any]:
        try:
            while data := self._sock.recv(CHUNK_BYTES):
                for message in self._rpc.received(data):
                    if message.get("id") == request_id:
                        return message
            raise ConnectionResetError("the daemon closed the connection")
        except (OSError, ValueError, protocol.ProtocolError) as error:
            self._closed.set()  # later bytes have no meaning
            raise Disconnected(f"{method}: no answer from the daemon: {error}") from error

    def _beat(self, every_s: float) -> None:
        with contextlib.suppress(Disconnected):
            while not self._closed.wait(every_s):
                self.notify("heartbeat")
