"""Pipes that are read in an event loop."""

import asyncio
import os
import shutil
import subprocess
import sys

import pytest

from clew_shared.files.pipes import PipeReader

DRAINS = """
import asyncio, os, uvloop
from clew_daemon.session.launcher import WorkerOutput, drain

async def main():
    for _ in range(3):
        read, write = os.pipe()
        os.write(write, b"one line\\n")
        os.close(write)
        await drain(read, WorkerOutput(print))

uvloop.run(main())
"""


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


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_no_descriptor_is_closed_twice():
    """Else another thread loses what it has opened in between under the same number."""
    strace = ["strace", "-f", "-e", "trace=close", "-e", "status=failed"]
    done = subprocess.run(
        [*strace, sys.executable, "-c", DRAINS],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "ptrace" in done.stderr and "one line" not in done.stdout:
        pytest.skip(f"strace cannot trace here: {done.stderr.strip()}")
    assert done.stdout.count("one line") == 3
    closed_twice = [line for line in done.stderr.splitlines() if "EBADF" in line]
    assert closed_twice == []
