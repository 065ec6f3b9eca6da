"""The agent's line: what happens when nobody reads at the other end of it."""

import asyncio
import socket

import pytest

from clew_daemon import channel
from clew_daemon.channel import Channel

LINE = b"x" * 65_536 + b"\n"


@pytest.fixture
def ends(monkeypatch):
    monkeypatch.setattr(channel, "WRITE_TIMEOUT_S", 0.05)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        yield ours, theirs


async def test_an_agent_that_reads_nothing_is_noticed_by_a_bounded_wait(ends):
    line = await Channel.over(ends[0])
    async with asyncio.timeout(60):
        while await line.send(LINE):
            pass
    assert line.unread
    line.close()
    await asyncio.sleep(0)  # the transport goes with the next turn of the loop


async def test_an_agent_that_is_gone_has_left_nothing_unread(ends):
    line = await Channel.over(ends[0])
    ends[1].close()
    async with asyncio.timeout(60):
        while await line.send(LINE):
            pass
    assert not line.unread
    line.close()
    await asyncio.sleep(0)  # the transport goes with the next turn of the loop
