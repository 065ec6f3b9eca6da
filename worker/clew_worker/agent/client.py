"""The agent's side of the worker protocol, for agents of any maker that are written in Python.

It carries messages and keeps the heartbeat; it does not know what an agent thinks, nor what the
daemon decides. The heartbeat runs on the agent's own event loop, so that a blocked loop is noticed.
"""

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import Callable
from typing import Any, Self

from clew_shared.wire import protocol

Notice = Callable[[dict[str, Any]], None]

ANSWER_TIMEOUT_S = 6 * 3600.0
"""No answer takes this long: an action has its own deadline, and so has a wait for a free LLM."""

_GOODBYE_S = 1.0


class RpcError(Exception):
    """The daemon refused a request: `code` as in `clew_shared.wire.protocol` (WRONG_STATE, ...)."""

    def __init__(self, method: str, code: int, message: str) -> None:
        super().__init__(f"{method}: {message}")
        self.code = code
        self.message = message


class Disconnected(Exception):
    """The daemon has closed the connection, or does not answer any more."""


class AgentClient:
    """A connection to the daemon; use it as `async with AgentClient.from_env() as daemon:`.

    Calls may run at the same time. After `hello` a heartbeat is sent every `heartbeat_s`.
    `on(method, callback)` hears the daemon's notifications: `feedback`, `thresholds`,
    `intervention`, `stop`.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._notices: dict[str, list[Notice]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._beating = False
        self.closed = asyncio.Event()

    @classmethod
    def from_env(cls) -> Self:
        """Take the connection that the daemon has left in `CLEW_FD`; KeyError without one."""
        return cls(socket.socket(fileno=int(os.environ["CLEW_FD"])))

    async def __aenter__(self) -> Self:
        self._sock.setblocking(False)
        self._reader, self._writer = await asyncio.open_connection(
            sock=self._sock, limit=protocol.LINE_BYTES_MAX + 1
        )
        self._tasks.append(asyncio.create_task(self._listen()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            await asyncio.wait_for(self._writer.wait_closed(), _GOODBYE_S)

    def on(self, method: str, callback: Notice) -> None:
        """Call back with the params of each notification of that name."""
        self._notices.setdefault(method, []).append(callback)

    async def hello(self, agent: str) -> dict[str, Any]:
        """Say who is there (`name/version`); returns the state as it is now, at any time."""
        answer = await self.call("hello", protocol=protocol.PROTOCOL_VERSION, agent=agent)
        if not self._beating:
            self._beating = True
            beat = self._beat(float(answer.get("heartbeat_s") or 1.0))
            self._tasks.append(asyncio.create_task(beat))
        return dict(answer)

    async def call(self, method: str, /, **params: Any) -> Any:
        """Ask and wait for the answer.

        Raises `RpcError` where the daemon refuses, `Disconnected` if it is gone, and ValueError
        for a message that is too long to be sent.
        """
        if self.closed.is_set():
            raise Disconnected(f"{method}: the daemon closed the connection")
        request_id = next(self._ids)
        line = _line({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        try:
            await self._send(line)
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                message = await answer
        except (OSError, TimeoutError) as error:
            raise Disconnected(f"{method}: no answer from the daemon: {error}") from error
        finally:
            self._waiting.pop(request_id, None)
        if fault := message.get("error"):
            raise RpcError(method, int(fault.get("code", 0)), str(fault.get("message", "")))
        return message.get("result")

    async def notify(self, method: str, /, **params: Any) -> None:
        """Send a notification; `Disconnected` where the daemon is gone."""
        try:
            await self._send(_line({"jsonrpc": "2.0", "method": method, "params": params}))
        except OSError as error:
            raise Disconnected(f"{method}: {error}") from error

    async def _send(self, line: bytes) -> None:
        self._writer.write(line)
        await self._writer.drain()

    async def _beat(self, every_s: float) -> None:
        with contextlib.suppress(Disconnected):
            while True:
                await asyncio.sleep(every_s)
                await self.notify("heartbeat")

    async def _listen(self) -> None:
        """Hand on what comes in, until the daemon hangs up or breaks the protocol."""
        try:
            while line := await self._reader.readline():
                self._take(protocol.parse(line))
        except (OSError, ValueError, protocol.ProtocolError):
            pass  # as good as hung up: there is nothing left to understand
        finally:
            self.closed.set()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(Disconnected("the daemon closed the connection"))

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message:
            for callback in self._notices.get(str(message["method"]), ()):
                callback(message.get("params") or {})
            return
        answer = self._waiting.get(message.get("id") or 0)
        if answer and not answer.done():
            answer.set_result(message)


def _line(message: dict[str, Any]) -> bytes:
    line = protocol.line(message)
    if len(line) > protocol.LINE_BYTES_MAX:
        raise ValueError(
            f"{message['method']}: a message of {len(line)} bytes; at most "
            f"{protocol.LINE_BYTES_MAX} can be sent: use smaller arguments"
        )
    return line
