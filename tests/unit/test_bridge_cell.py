"""What a bridge reads of a running CLI, and when it stops reading."""

import asyncio
import os
import socket
from contextlib import suppress

import pytest

from clew_worker.bridge.cell import CliRun
from clew_worker.bridge.wire import CliEnded, packet


@pytest.fixture
def ends():
    """What the bridge is given of a run: its output and its channel; and the other ends of these."""
    out, out_w = os.pipe()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        yield (out, ours), (out_w, theirs)
    with suppress(OSError):
        os.close(out_w)


async def lines_of(run):
    async with asyncio.timeout(60):
        return [line async for line in run.lines()]


def test_a_run_is_read_to_the_end_of_its_output(ends):
    given, (out_w, theirs) = ends

    async def read():
        run = CliRun(*given)
        os.write(out_w, b"one\ntwo\nthree")
        os.close(out_w)
        lines = await lines_of(run)
        theirs.send(packet(CliEnded(code=3, errors="a complaint")))
        return lines, (await run.ended).errors, run.code

    assert asyncio.run(read()) == ([b"one", b"two", b"three"], "a complaint", 3)


def test_reading_ends_with_the_cli_although_a_process_that_it_left_holds_its_pipes(ends):
    given, (out_w, theirs) = ends

    async def read():
        run = CliRun(*given)
        os.write(out_w, b"last\n")
        theirs.send(packet(CliEnded(code=0)))
        return await lines_of(run)

    assert asyncio.run(read()) == [b"last"]
