"""Places at the control socket: who waits for an answer keeps one."""

import asyncio
import json
from contextlib import ExitStack, asynccontextmanager

import pytest
from structlog.testing import capture_logs

from clew_daemon.control.server import CLIENTS_MAX, Control


class Served:
    """A control socket with one method that is answered when `go` is set."""

    def __init__(self, path):
        self.path = path
        self.go = asyncio.Event()
        self.asked = asyncio.Semaphore(0)
        self.control = Control(path, {"wait": self._wait})

    async def _wait(self, _):
        self.asked.release()
        await self.go.wait()
        return {"waited": True}

    async def client(self, *, asks):
        reader, writer = await asyncio.open_unix_connection(self.path)
        if asks:
            writer.write(b'{"jsonrpc":"2.0","id":1,"method":"wait","params":{}}\n')
        return reader, writer


@asynccontextmanager
async def served(path):
    one = Served(path)
    await one.control.start()
    try:
        yield one
    finally:
        await one.control.stop()


async def line(client):
    async with asyncio.timeout(60):
        return json.loads(await client[0].readline())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "control.sock"


async def test_a_request_that_is_under_way_is_never_dropped_for_another_client(path):
    async with served(path) as one:
        with ExitStack() as closing, capture_logs() as logs:
            waiting = [await one.client(asks=True) for _ in range(CLIENTS_MAX)]
            for client in waiting:
                closing.callback(client[1].close)
                await one.asked.acquire()
            for _ in range(300):
                more = await one.client(asks=False)
                assert "too many clients" in (await line(more))["error"]["message"]
                more[1].close()
            one.go.set()
            for client in waiting:
                assert (await line(client))["result"]["waited"]
        assert 1 <= len(logs) < 300  # one a second
        assert {entry["event"] for entry in logs} == {"control.refused"}
