"""A line to an agent or an executor: what happens when nobody reads at the other end of it."""

import asyncio
import os
import socket
from contextlib import suppress
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock

import pytest

from clew_daemon.processes import lines
from clew_daemon.processes.executor import ExecutorDied, ExecutorProcess
from clew_daemon.processes.lines import LineChannel, LineError
from clew_shared.wire import executor as wire

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


async def test_what_was_said_is_read_though_the_other_side_left_without_its_answers(ends):
    line, theirs = ends
    for number in range(4):
        theirs.send(words(number))
        await asyncio.sleep(0.01)
    theirs.close()
    for number in range(4):
        assert await line.receive() == words(number)
        await line.send(LINE)
        await asyncio.sleep(0)
    assert await line.receive() is None


async def test_nothing_is_read_after_a_line_that_is_too_long(ends):
    line, theirs = ends
    sent = 0
    for _ in range(2_000):
        await asyncio.sleep(0)
        with suppress(BlockingIOError):
            sent += theirs.send(LINE[:-1])
    assert sent < 4 << 20
    with pytest.raises(LineError):
        await line.receive()


class Executor:
    """In place of a nursery and of the executor that it starts, which says `first` as soon as it runs."""

    def __init__(self, first):
        self.first = first

    async def spawn(self, _spec, fd, *_):
        self.end = socket.socket(fileno=os.dup(fd))
        self.say(self.first)
        guard = SimpleNamespace(ended=asyncio.get_running_loop().create_future())
        return SimpleNamespace(guard=guard, kill=AsyncMock(return_value=1), kill_nowait=Mock())

    def say(self, *messages):
        self.end.send(b"".join(map(wire.to_line, messages)))


async def test_an_executor_that_fails_at_its_start_is_believed_why(monkeypatch):
    playing = Executor(wire.ExecutorFailed(error="no root"))
    over = LineChannel.over

    async def late(*args):
        playing.end.close()
        line = await over(*args)
        await asyncio.sleep(0.01)  # all of it has come
        return line

    monkeypatch.setattr(LineChannel, "over", late)
    with pytest.raises(ExecutorDied, match="an error in clew: no root"):
        await ExecutorProcess.start(playing, None, None)


@pytest.mark.parametrize("answer", [wire.DigestDone(id=7), wire.RestoreDone(id=1)])
async def test_an_executor_that_answers_something_else_is_given_up_at_once(answer):
    playing = Executor(wire.ExecutorReady())
    executor = await ExecutorProcess.start(playing, None, None)
    asked = [executor.digest(wire.DigestRequest()) for _ in range(2)]
    playing.say(answer, wire.DigestDone(id=1), wire.DigestDone(id=2))
    for one in asked:
        with pytest.raises(ExecutorDied, match="invalid message"):
            await one
    assert not executor.alive
    playing.end.close()
