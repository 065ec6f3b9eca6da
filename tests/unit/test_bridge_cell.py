"""What a bridge reads of a running CLI, and when it stops reading."""

import asyncio
import os
from contextlib import suppress

import pytest

from clew_worker.bridge.cell import CliRun
from clew_worker.bridge.wire import CliEnded


@pytest.fixture
def pipes():
    """The write ends of a run's two pipes, and the read ends for the run."""
    out, out_w = os.pipe()
    err, err_w = os.pipe()
    yield (out, err), (out_w, err_w)
    for fd in (out_w, err_w):
        with suppress(OSError):
            os.close(fd)


async def lines_of(run):
    return [line async for line in run.lines()]


def test_a_run_is_read_to_the_end_of_its_output(pipes):
    (out, err), (out_w, err_w) = pipes

    async def read():
        run = CliRun(1, out, err)
        os.write(out_w, b"one\ntwo\nthree")
        os.write(err_w, b"a complaint\n")
        os.close(out_w)
        os.close(err_w)
        return await lines_of(run), run.errors

    assert asyncio.run(read()) == ([b"one", b"two", b"three"], "a complaint")


def test_reading_ends_with_the_cli_although_a_process_that_it_left_holds_its_pipes(pipes):
    (out, err), (out_w, _) = pipes

    async def read():
        run = CliRun(1, out, err)
        os.write(out_w, b"last\n")
        run.ended.set_result(CliEnded(code=0))
        async with asyncio.timeout(60):
            return await lines_of(run)

    assert asyncio.run(read()) == [b"last"]
