"""A line to an agent or an executor: what happens when nobody reads at the other end of it."""

import asyncio
import socket
from contextlib import suppress

import pytest

from clew_daemon.processes import lines
from clew_daemon.processes.lines import LineChannel, LineError

LINE = b"x" * 65_536 + b"\n"


@pytest.fixture
def ends(monkeypatch):
    monkeypatch.setattr(lines, "WRITE_TIMEOUT_S", 0.05)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        yield ours, theirs


async def test_an_agent_that_reads_nothing_is_noticed_by_a_bounded_wait(ends):
    line = await LineChannel.over(ends[0], 1 << 20)
    async with asyncio.timeout(60):
        while await line.send(LINE):
            pass
    assert line.unread
    line.close()
    await asyncio.sleep(0)  # the transport goes with the next turn of the loop


def words(number: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"advance"}\n' % number


async def test_messages_come_one_by_one_however_their_bytes_do(ends):
    line = await LineChannel.over(ends[0], 1 << 20)
    whole = words(1) + words(2) + words(3)
    for piece in (whole[:7], whole[7:60], whole[60:]):
        ends[1].sendall(piece)
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        got = [await line.receive() for _ in range(3)]
        ends[1].close()
        assert await line.receive() is None
    assert got == [words(1), words(2), words(3)]
    line.close()
    await asyncio.sleep(0)


async def test_an_agent_that_floods_waits_in_its_own_socket_and_nothing_is_lost(ends):
    line = await LineChannel.over(ends[0], 1 << 20)
    ends[1].setblocking(False)
    flood = words(0) * 100_000
    taken = 0
    async with asyncio.timeout(60):
        for _ in range(2_000):
            await asyncio.sleep(0)
            try:
                taken += ends[1].send(flood[taken : taken + 65_536])
            except BlockingIOError:
                continue
        assert len(words(0)) < taken < len(flood), "all of it was read before anybody asked"
        whole = taken // len(words(0))
        for _ in range(whole):
            assert await line.receive()
    line.close()
    await asyncio.sleep(0)


async def test_a_line_that_is_too_long_is_refused_before_it_has_an_end(ends):
    line = await LineChannel.over(ends[0], 1 << 20)
    ends[1].setblocking(False)
    refused = asyncio.ensure_future(line.receive())
    async with asyncio.timeout(60):
        while not refused.done():
            with suppress(BlockingIOError):
                ends[1].send(LINE[:-1])
            await asyncio.sleep(0)
    with pytest.raises(LineError, match="over"):
        await refused
    line.close()
    await asyncio.sleep(0)
