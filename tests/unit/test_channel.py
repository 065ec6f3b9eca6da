"""A line to an agent or an executor: what happens when nobody reads at the other end of it."""

import asyncio
import socket
from contextlib import suppress

import pytest

from clew_daemon.processes import lines
from clew_daemon.processes.lines import LineChannel, LineError

LINE = b"x" * 65_536 + b"\n"


@pytest.fixture
async def ends(monkeypatch):
    """A line, and the socket at its other end."""
    monkeypatch.setattr(lines, "WRITE_TIMEOUT_S", 0.05)
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    line = await LineChannel.over(ours, 1 << 20)
    with theirs:
        yield line, theirs
    line.close()
    await asyncio.sleep(0)  # the transport goes with the next turn of the loop


async def test_an_agent_that_reads_nothing_is_noticed_by_a_bounded_wait(ends):
    line, _ = ends
    while await line.send(LINE):
        pass
    assert line.unread


def words(number: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"advance"}\n' % number


async def test_an_agent_that_floods_waits_in_its_own_socket_and_nothing_is_lost(ends):
    line, theirs = ends
    flood = words(0) * 100_000
    taken = 0
    for _ in range(2_000):
        await asyncio.sleep(0)
        with suppress(BlockingIOError):
            taken += theirs.send(flood[taken : taken + 65_536])
    assert len(words(0)) < taken < len(flood), "all of it was read before anybody asked"
    for _ in range(taken // len(words(0))):
        assert await line.receive()


async def test_a_line_that_is_too_long_is_refused_before_it_has_an_end(ends):
    line, theirs = ends
    refused = asyncio.ensure_future(line.receive())
    while not refused.done():
        with suppress(BlockingIOError):
            theirs.send(LINE[:-1])
        await asyncio.sleep(0)
    with pytest.raises(LineError, match="over"):
        await refused
