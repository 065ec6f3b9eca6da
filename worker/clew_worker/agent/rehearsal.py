"""A warm-up: one request to a server of our own on loopback, made in the nursery before it forks workers.

The first request of a process imports some eighty modules and builds their models, which takes longer than the rest
of a restart. Nothing of it stays open: no loop, no socket, no thread, and no TLS context (the address is http).
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from clew_shared.wire.hello import AgentOptions
from clew_worker.agent.llm_client import LlmClient
from clew_worker.agent.llm_faults import LlmError

_TIMEOUT_S = 10.0
_CALL = {"id": "c", "type": "function", "function": {"name": "wait", "arguments": "{}"}}
_MESSAGE = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
_ANSWER = json.dumps({"choices": [{"message": _MESSAGE, "finish_reason": "tool_calls"}]}).encode()
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
_HEAD += b"content-length: %d\r\n\r\n"


def rehearse() -> bool:
    """Make the request; False if there is no loopback, which only costs the workers their time."""
    try:
        asyncio.run(_ask())
    except (OSError, TimeoutError, LlmError):
        return False
    return True


async def _ask() -> None:
    async with asyncio.timeout(_TIMEOUT_S):
        server = await asyncio.start_server(_answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            url = f"http://127.0.0.1:{port}/v1"
            agent = AgentOptions(base_url=url, model="none", temperature=0.0)
            llm = LlmClient(agent, None, slot=_at_once)
            tool = {"type": "function", "function": {"name": "wait", "parameters": {}}}
            try:
                await llm.ask([{"role": "user", "content": "?"}], tools=[tool], max_tokens=1)
            finally:
                await llm.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_HEAD % len(_ANSWER) + _ANSWER)
        await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def _at_once() -> AsyncIterator[None]:
    yield
