"""The MCP server "clew", on the socket that the CLI's relay connects to: it offers clew's tools and passes calls on.

The only module that imports the package `mcp`.
"""

import asyncio
import contextlib
import hmac
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Self

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from clew_worker.bridge.clis.cli import SERVER
from clew_worker.bridge.place import CONNECTIONS_MAX
from clew_worker.bridge.relays import Relays
from clew_worker.bridge.tools import OFFERED, ToolAnswer

LINE_BYTES_MAX = 4 << 20
"""A file to write, as JSON at its worst, and more than a message to the daemon may have."""

TOKEN_TIMEOUT_S = 10.0

Call = Callable[[str, Mapping[str, Any]], Awaitable[ToolAnswer]]


class Gateway:
    """Serves relays while it is entered; `token` is the line that each has to send first, "" for none."""

    def __init__(self, listener: socket.socket, call: Call, token: str = "") -> None:
        self._listener = listener
        self._call = call
        self._token = token.encode()
        self._serving: set[asyncio.Task[None]] = set()
        self._relays = Relays()
        self.connected = asyncio.Event()
        logging.getLogger("mcp").setLevel(logging.CRITICAL)  # its tracebacks hold a CLI's texts

    async def __aenter__(self) -> Self:
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [self._accepting, *self._serving]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    def begin(self) -> Relays:
        """Begin a run of the CLI; return what becomes of the relays that connect from now on."""
        self._relays = Relays()
        return self._relays

    async def _accept(self) -> None:
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            if len(self._serving) >= CONNECTIONS_MAX:
                sock.close()
                continue
            task = asyncio.create_task(self._serve(sock))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _serve(self, sock: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=sock, limit=LINE_BYTES_MAX)
        try:
            if self._token and not await self._admitted(reader):
                return
            self.connected.set()
            await self._converse(_Lines(reader, writer), self._relays)
        except (OSError, ExceptionGroup):  # the relay has ended in the middle of a message
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _admitted(self, reader: asyncio.StreamReader) -> bool:
        try:
            async with asyncio.timeout(TOKEN_TIMEOUT_S):
                line = await reader.readline()
        except (OSError, TimeoutError, ValueError):
            return False
        return hmac.compare_digest(line.rstrip(b"\n"), self._token)

    async def _converse(self, lines: "_Lines", relays: Relays) -> None:
        server: Server[dict[str, Any]] = Server(
            SERVER,
            on_list_tools=partial(self._list_tools, relays),
            on_call_tool=partial(self._call_tool, lines),
        )
        pipe: Any = lines  # only the three methods of _Lines are called
        relays.came()
        try:
            async with stdio_server(stdin=pipe, stdout=pipe) as (read, write):
                await server.run(read, write, server.create_initialization_options())
        finally:
            relays.went(open_calls=lines.unanswered)

    async def _list_tools(
        self, relays: Relays, _context: object, _params: object
    ) -> types.ListToolsResult:
        relays.listed = True
        return types.ListToolsResult(
            tools=[
                types.Tool(name=one.name, description=one.description, input_schema=one.schema)
                for one in OFFERED
            ]
        )

    async def _call_tool(
        self, lines: "_Lines", _context: object, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        with lines.answering():
            answer = await self._call(params.name, params.arguments or {})
        text = types.TextContent(type="text", text=answer.text)
        return types.CallToolResult(content=[text], is_error=answer.refused)


class _Lines:
    """A connection as the text files that `stdio_server` reads and writes; it ends at a line that is too long."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._open_calls = 0
        self.unanswered = 0
        """Calls whose answers did not reach the relay before the connection ended."""

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Bracket the work on a call."""
        self._open_calls += 1
        try:
            yield
        finally:
            self._open_calls -= 1

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        try:
            line = await self._reader.readline()
        except (OSError, ValueError):
            line = b""
        if not line:
            self.unanswered += self._open_calls
            raise StopAsyncIteration
        return line.decode(errors="replace")

    async def write(self, text: str) -> None:
        """Queue a message."""
        self._writer.write(text.encode())

    async def flush(self) -> None:
        """Send what is queued."""
        try:
            await self._writer.drain()
        except OSError as error:
            self.unanswered += 1
            raise anyio.ClosedResourceError from error
