"""The agent's side of the worker protocol without I/O: lines to send, and what the lines received mean.

`AgentClient` (asyncio) and `SyncClient` (threads) carry the bytes.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Literal

from clew_shared.wire import protocol
from clew_shared.wire.framing import Lines

Notice = Callable[[dict[str, Any]], None]

CHUNK_BYTES = 1 << 16

ANSWER_TIMEOUT_S = 8 * 86_400.0
"""Longer than any answer takes: an action has its own deadline, and so has the wait for an LLM slot."""


class RpcError(Exception):
    """The daemon refused a request: `code` as in `clew_shared.wire.protocol` (WRONG_STATE, ...)."""

    def __init__(self, method: str, code: int, message: str) -> None:
        super().__init__(f"{method}: {message}")
        self.code = code
        self.message = message

    @property
    def stopping(self) -> bool:
        """Whether the daemon refused because it is stopping this worker."""
        return self.code == protocol.STOPPING


class Disconnected(Exception):
    """The daemon has closed the connection, or no longer answers."""


class CannotContinue(Exception):
    """The agent must stop: `temporary` (a later try may work), or `configuration` (a person must act)."""

    def __init__(
        self,
        kind: Literal["temporary", "configuration"],
        reason: str,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.retry_after_s = retry_after_s


class Rpc:
    """One connection's requests and answers; notifications of the daemon go to those who subscribed."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._lines = Lines(protocol.LINE_BYTES_MAX)
        self._notices: dict[str, list[Notice]] = {}

    def on(self, method: str, callback: Notice) -> None:
        """Call `callback` with the params of each notification of that name."""
        self._notices.setdefault(method, []).append(callback)

    def request(self, method: str, params: dict[str, Any]) -> tuple[int, bytes]:
        """Return a request's id and line; ValueError if it is too long to be sent."""
        number = next(self._ids)
        return number, message_line(method, params, number)

    def received(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Take in bytes: answers are returned, notifications delivered; ProtocolError or ValueError for others."""
        for line in self._lines.take(data):
            message = protocol.parse(line)
            if "method" not in message:
                yield message
                continue
            for callback in self._notices.get(str(message["method"]), ()):
                callback(message.get("params") or {})


def message_line(method: str, params: dict[str, Any], number: int | None = None) -> bytes:
    """Return a request, or a notification where it has no id; ValueError if it is too long to be sent."""
    ids = {} if number is None else {"id": number}
    line = protocol.line({"jsonrpc": "2.0", **ids, "method": method, "params": params})
    if len(line) > protocol.LINE_BYTES_MAX:
        raise ValueError(
            f"{method}: a message of {len(line)} bytes; at most "
            f"{protocol.LINE_BYTES_MAX} can be sent: use smaller arguments"
        )
    return line


def result_of(method: str, answer: dict[str, Any]) -> Any:
    """Return the result of an answer; RpcError where the daemon refused."""
    if fault := answer.get("error"):
        raise RpcError(method, int(fault.get("code", 0)), str(fault.get("message", "")))
    return answer.get("result")
