"""Answers that notifications follow on the same connection, for as long as the client reads them.

The server of the control socket sends them; what is in them is up to the request (`follow`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

FOLLOWERS_MAX = 16
"""Connections with a stream at a time; they have no place among the clients."""

STALLED_S = 5.0
"""How long a client may take to read one line; then it is cut off."""


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer, and the lines that follow it."""

    answer: dict[str, Any]
    lines: AsyncGenerator[bytes]


async def send_stream(
    answer: bytes, stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send the answer, then the lines until they end, or the client hangs up or sends anything.

    Only what the socket's buffers and one line take is in memory. Raises TimeoutError for a client that does not read.
    """
    sending = asyncio.ensure_future(_send(answer, stream.lines, writer))
    hung_up = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait((sending, hung_up), return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()
    finally:
        sending.cancel()
        hung_up.cancel()
        await asyncio.gather(sending, hung_up, return_exceptions=True)
        writer.transport.abort()  # what it did not read must not wait for it


async def _send(answer: bytes, lines: AsyncGenerator[bytes], writer: asyncio.StreamWriter) -> None:
    await _write(answer, writer)
    async with aclosing(lines):
        async for line in lines:
            await _write(line, writer)


async def _write(line: bytes, writer: asyncio.StreamWriter) -> None:
    if writer.transport.is_closing():  # the client went away; uvloop raises RuntimeError
        raise ConnectionResetError
    writer.write(line)
    async with asyncio.timeout(STALLED_S):
        await writer.drain()
