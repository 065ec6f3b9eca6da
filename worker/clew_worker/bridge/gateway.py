"""The MCP server "clew", on the socket that the CLI's relay connects to: it offers clew's tools and passes calls on.

Of the protocol it has what a server of tools on standard input and output needs: the handshake, `ping`, `tools/list`,
`tools/call` and its cancellation (modelcontextprotocol.io, revisions up to 2025-11-25; clients of later ones fall back
to the handshake). The official library brings 25 MB for the rest of it; the tests have its client.
"""

import asyncio
import contextlib
import hmac
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pydantic import BaseModel, StrictInt, StrictStr, ValidationError

from clew_shared.wire import protocol
from clew_shared.wire.protocol import ProtocolError
from clew_worker.bridge.clis.cli import SERVER
from clew_worker.bridge.starter import CONNECTIONS_MAX
from clew_worker.bridge.tools import OFFERED, ToolAnswer

WITHOUT_RELAY_S = 2.0  # after that a CLI without a relay is given up: it may start another
# a file to write as JSON at its worst, and more than a message to the daemon may have
LINE_BYTES_MAX = 4 << 20
TOKEN_TIMEOUT_S, CALLS_MAX = 10.0, 64
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

_CANCELLED = "notifications/cancelled"
_TOOLS = [
    {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}
    for tool in OFFERED
]

Call = Callable[[str, Mapping[str, Any]], Awaitable[ToolAnswer]]


class _Message(BaseModel):
    """A request, without an `id` a notification, and without a `method` an answer: nothing is asked of a client."""

    id: StrictInt | StrictStr | None = None
    method: str = ""
    params: dict[str, Any] | None = None


@dataclass(eq=False)
class Relays:
    """The relays of one run. `lost`: one ended with a call open, or the last for good; `listed`: they list tools.

    A CLI whose call had no answer would make it again, although the action may have been carried out.
    """

    lost: asyncio.Event = field(default_factory=asyncio.Event)
    listed: bool = False
    connected: int = 0
    came: int = 0

    def lose(self, came: int) -> None:
        """Give up, unless one is connected or has come after this number of them."""
        if not self.connected and self.came == came:
            self.lost.set()


class Gateway:
    """Serves relays while it is entered; `token` is the line that each has to send first, "" for none."""

    def __init__(self, listener: socket.socket, call: Call, token: str = "") -> None:
        self._listener = listener
        self._call = call
        self._token = token.encode()
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._relays = Relays()

    async def __aenter__(self) -> Self:
        is_unix = self._listener.family == socket.AF_UNIX
        start = asyncio.start_unix_server if is_unix else asyncio.start_server
        self._server = await start(self._accept, sock=self._listener, limit=LINE_BYTES_MAX)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._open.values():
            task.cancel()
        await asyncio.gather(*self._open.values(), return_exceptions=True)

    def begin(self) -> Relays:
        """Begin a run of the CLI; return what becomes of the relays that connect from now on."""
        self._relays = Relays()
        return self._relays

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            writer.close()
        else:
            self._open[writer] = asyncio.create_task(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not self._token or await self._admitted(reader):
                await _Connection(reader, writer, self._call, self._relays).converse()
        finally:
            del self._open[writer]
            writer.close()

    async def _admitted(self, reader: asyncio.StreamReader) -> bool:
        with contextlib.suppress(OSError, ValueError):  # nothing in time, or no line
            async with asyncio.timeout(TOKEN_TIMEOUT_S):
                return hmac.compare_digest((await reader.readline()).strip(), self._token)
        return False


@dataclass(eq=False)
class _Connection:
    """A conversation with one relay; it ends at a line that is too long."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter
    _call: Call
    _relays: Relays
    _calls: dict[str | int, asyncio.Task[None]] = field(default_factory=dict)
    _unanswered: bool = False

    async def converse(self) -> None:
        relays = self._relays
        relays.connected += 1
        relays.came += 1
        try:
            with contextlib.suppress(OSError, ValueError):
                while line := await self._reader.readline():
                    await self._take(line)
        finally:
            tasks = [task for task in self._calls.values() if not task.done()]
            for task in tasks:
                task.cancel()
            relays.connected -= 1
            if tasks or self._unanswered:
                relays.lost.set()
            asyncio.get_running_loop().call_later(WITHOUT_RELAY_S, relays.lose, relays.came)
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, line: bytes) -> None:
        number: str | int | None = None
        try:
            message = _read(line)
            number, params = message.id, message.params or {}
            if number is None:
                self._give_up(params.get("requestId") if message.method == _CANCELLED else None)
            elif message.method == "tools/call":
                self._begin(number, params)
            elif message.method:
                await self._send(number, result=self._result(message.method, params))
        except ProtocolError as error:
            await self._send(number, error={"code": error.code, "message": str(error)})

    def _result(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        match method:
            case "initialize":
                asked = params.get("protocolVersion")
                return {
                    "protocolVersion": asked if asked in REVISIONS else REVISIONS[-1],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": SERVER, "version": "1"},
                }
            case "ping":
                return {}
            case "tools/list":
                self._relays.listed = True
                return {"tools": _TOOLS}
        raise ProtocolError(f"unknown method {method}", protocol.METHOD_NOT_FOUND)

    def _give_up(self, number: object) -> None:
        """Stop waiting for a call: one that has begun goes on, and one that waits for its turn is not carried out."""
        if isinstance(number, str | int) and number in self._calls:
            self._calls[number].cancel()

    def _begin(self, number: str | int, params: Mapping[str, Any]) -> None:
        name, args = params.get("name"), params.get("arguments") or {}
        if not isinstance(name, str) or not isinstance(args, dict):
            fault = "a call has a name and an object of arguments"
            raise ProtocolError(fault, protocol.INVALID_PARAMS)
        if number in self._calls or len(self._calls) >= CALLS_MAX:
            raise ProtocolError("too many calls at once, or two of one id")
        task = self._calls[number] = asyncio.create_task(self._carry_out(number, name, args))
        task.add_done_callback(lambda _: self._calls.pop(number, None))

    async def _carry_out(self, number: str | int, name: str, args: Mapping[str, Any]) -> None:
        try:
            answer = await self._call(name, args)
        except Exception as error:  # noqa: BLE001 - a client waits for every answer
            answer = ToolAnswer(f"clew could not do this: {type(error).__name__}", refused=True)
        text = {"type": "text", "text": answer.text}
        await self._send(number, result={"content": [text], "isError": answer.refused})

    async def _send(self, number: str | int | None, **body: object) -> None:
        try:
            self._writer.write(protocol.line({"jsonrpc": "2.0", "id": number, **body}))
            await self._writer.drain()
        except OSError:  # the relay has ended
            self._unanswered = True


def _read(line: bytes) -> _Message:
    try:
        return _Message.model_validate(json.loads(line))
    except ValidationError:
        raise ProtocolError("no message of JSON-RPC with an object of params") from None
    except (ValueError, RecursionError):
        raise ProtocolError("no JSON", protocol.PARSE_ERROR) from None
