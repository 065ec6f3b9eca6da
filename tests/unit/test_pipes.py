"""Pipes that are read in an event loop."""

import asyncio
import os

import pytest

from clew_shared.files.pipes import PipeReader


async def test_what_is_written_is_read_and_then_the_end():
    read, write = os.pipe()
    async with PipeReader(read) as pipe:
        os.write(write, b"abc")
        assert await pipe.read(2) == b"ab"
        assert await pipe.read(2) == b"c"
        os.close(write)
        assert await pipe.read(2) == b""
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(read)


async def test_a_read_that_was_cancelled_loses_nothing():
    read, write = os.pipe()
    async with PipeReader(read) as pipe:
        waiting = asyncio.ensure_future(pipe.read(10))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        os.write(write, b"later")
        assert await pipe.read(10) == b"later"
    os.close(write)


async def test_a_writer_that_floods_the_pipe_does_not_hold_up_the_loop():
    read, write = os.pipe()
    os.set_blocking(write, False)
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    async with PipeReader(read) as pipe:
        for _ in range(20):
            os.write(write, b"x" * 100)
            assert len(await pipe.read(100)) == 100
    counting.cancel()
    os.close(write)
    assert turns >= 20
