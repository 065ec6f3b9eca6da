"""Following the daemon from an event loop; `client` is for programs without one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from clew_daemon.cli.client import connected
from clew_daemon.cli.errors import CliError
from clew_daemon.cli.stream.client import ENDED
from clew_daemon.cli.stream.messages import (
    LINE_BYTES_MAX,
    RETRY_MAX_S,
    RETRY_S,
    SILENT_S,
    StreamBegin,
    StreamError,
    StreamGone,
    follow_line,
    read_line,
)
from clew_shared.backoff import backoff_s

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from clew_daemon.cli.client import Address
    from clew_daemon.cli.stream.messages import StreamNews


async def stream_news(
    find: Callable[[], Address], goal: str | None = None, after: str | None = None
) -> AsyncGenerator[StreamNews]:
    """Yield what arrives on the stream, for ever, continuing from its cursor when the daemon is back.

    `find` returns where the daemon listens. A daemon that cannot be followed is reported once, until it is back.
    """
    failures = 0
    while True:
        try:
            async with aclosing(_connection(find, goal, after)) as connection:
                async for news in connection:
                    if isinstance(news, StreamGone):
                        gone = news
                        break
                    if isinstance(news, StreamBegin):
                        failures = 0
                    after = news.after
                    yield news
                else:
                    gone = StreamGone(ENDED)
        except (OSError, EOFError, CliError, StreamError) as error:
            gone = StreamGone(str(error) or ENDED)
        if not failures:
            yield gone
        await asyncio.sleep(backoff_s(failures, RETRY_S, RETRY_MAX_S))
        failures += 1


async def _connection(
    find: Callable[[], Address], goal: str | None, after: str | None
) -> AsyncGenerator[StreamNews]:
    channel = await asyncio.to_thread(lambda: connected(find()))
    reader, writer = await asyncio.open_unix_connection(sock=channel, limit=LINE_BYTES_MAX)
    try:
        writer.write(follow_line(goal, after))
        while True:
            async with asyncio.timeout(SILENT_S):
                line = await reader.readuntil(b"\n")
            yield read_line(line)
    except asyncio.IncompleteReadError:
        return
    except asyncio.LimitOverrunError:
        raise StreamError(f"a line of more than {LINE_BYTES_MAX} bytes") from None
    finally:
        writer.close()
