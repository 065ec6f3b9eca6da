"""The agent's side of the worker protocol for agents without an event loop: one call at a time, blocking.

It carries messages; a thread keeps the heartbeat, so that an agent at work is not taken for a hung one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
from collections.abc import Callable
from typing import Any, Self

from clew_shared.wire import protocol
from clew_worker.agent.client import ANSWER_TIMEOUT_S, Disconnected, RpcError

Notice = Callable[[dict[str, Any]], None]

_CHUNK_BYTES = 1 << 16
_JOIN_S = 1.0

_opening = threading.Lock()
_of_process: dict[int, SyncClient] = {}
"""The connections of this process, by descriptor: two readers of one would tear each other's lines."""


class SyncClient:
    """A connection to the daemon; use it as `with SyncClient.from_env() as daemon:`.

    `on(method, callback)` hears the daemon's notifications (`feedback`, `thresholds`,
    `intervention`, `stop`): they are read while an answer is waited for. Calls of several threads
    take turns; a callback must not call.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(ANSWER_TIMEOUT_S)
        self._sock = sock
        self._ids = itertools.count(1)
        self._buffer = bytearray()
        self._notices: dict[str, list[Notice]] = {}
        self._calling = threading.Lock()
        self._sending = threading.Lock()
        self._closed = threading.Event()
        self._heart: threading.Thread | None = None

    @classmethod
    def from_env(cls) -> SyncClient:
        """Return the connection that the daemon has left in `CLEW_FD`; KeyError without one.

        A process has one: until it is closed, anyone who asks gets the same.
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

    @property
    def closed(self) -> bool:
        """The connection is over."""
        return self._closed.is_set()

    def close(self) -> None:
        """Hang up; closing twice is fine."""
        self._closed.set()
        if self._heart and self._heart is not threading.current_thread():
            self._heart.join(_JOIN_S)
        with _opening:
            for fd in [fd for fd, client in _of_process.items() if client is self]:
                del _of_process[fd]
            self._sock.close()

    def on(self, method: str, callback: Notice) -> None:
        """Call back with the params of each notification of that name."""
        self._notices.setdefault(method, []).append(callback)

    def hello(self, agent: str) -> dict[str, Any]:
        """Say who is there (`name/version`); returns the state as it is now, at any time."""
        answer: dict[str, Any] = self.call("hello", protocol=protocol.PROTOCOL_VERSION, agent=agent)
        if self._heart is None:
            every_s = float(answer.get("heartbeat_s") or 1.0)
            self._heart = threading.Thread(
                target=self._beat, args=(every_s,), name="clew-heartbeat", daemon=True
            )
            self._heart.start()
        return answer

    def call(self, method: str, /, **params: Any) -> Any:
        """Ask and wait for the answer.

        Raises `RpcError` where the daemon refuses, `Disconnected` if it is gone, and ValueError
        for a message that is too long to be sent.
        """
        with self._calling:
            request_id = next(self._ids)
            self._send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
            answer = self._receive(method, request_id)
        if fault := answer.get("error"):
            raise RpcError(method, int(fault.get("code", 0)), str(fault.get("message", "")))
        return answer.get("result")

    def notify(self, method: str, /, **params: Any) -> None:
        """Send a notification; `Disconnected` where the daemon is gone."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        line = protocol.line(message)
        if len(line) > protocol.LINE_BYTES_MAX:
            raise ValueError(
                f"{message['method']}: a message of {len(line)} bytes; at most "
                f"{protocol.LINE_BYTES_MAX} can be sent: use smaller arguments"
            )
        if self.closed:
            raise Disconnected(f"{message['method']}: the connection is closed")
        try:
            with self._sending:
                self._sock.sendall(line)
        except OSError as error:
            raise Disconnected(f"{message['method']}: {error}") from error

    def _receive(self, method: str, request_id: int) -> dict[str, Any]:
        try:
            while True:
                message = protocol.parse(self._line())
                if "method" in message:
                    for callback in self._notices.get(str(message["method"]), ()):
                        callback(message.get("params") or {})
                elif message.get("id") == request_id:
                    return message
        except (OSError, protocol.ProtocolError) as error:
            self._closed.set()  # there is nothing left to understand
            raise Disconnected(f"{method}: no answer from the daemon: {error}") from error

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > protocol.LINE_BYTES_MAX:
                raise protocol.ProtocolError("an incomplete line")
            chunk = self._sock.recv(_CHUNK_BYTES)
            if not chunk:
                raise ConnectionResetError("the daemon closed the connection")
            self._buffer += chunk
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        return line

    def _beat(self, every_s: float) -> None:
        with contextlib.suppress(Disconnected):
            while not self._closed.wait(every_s):
                self.notify("heartbeat")
