"""The control socket: who keeps a place at it, what requests may hold, and what its client makes of answers."""

import asyncio
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial

import pytest
from structlog.testing import capture_logs

from clew_daemon.cli import run
from clew_daemon.control.goal_changes import GoalChanges
from clew_daemon.control.handlers import ControlHandlers
from clew_daemon.control.lookup import handler
from clew_daemon.control.server import CLIENTS_MAX, Control, ControlError
from clew_daemon.reading.client import RequestRefused, call
from clew_daemon.reading.errors import CliError
from clew_shared.exit_codes import ExitCode


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


STATUS, CHANGE = ControlHandlers._status, partial(GoalChanges.change, verb="pause")


@pytest.mark.parametrize(
    ("answer", "params", "name"),
    [
        (STATUS, {"goal": 5}, "goal"),
        (STATUS, {"limit": True}, "limit"),
        (STATUS, {"limit": "3"}, "limit"),
        (STATUS, {"goals": "a"}, "goals"),
        (GoalChanges.feedback, {"goal": "a"}, "text"),
        (STATUS, {"limit": "3", "goal": 5}, "goal`: .+; `limit"),
        (CHANGE, {"goals": ["a", 1]}, "goals"),
        (CHANGE, {"goal": "a", "all": "no"}, "all"),
        (ControlHandlers._remove_strategy, {}, "id"),
    ],
)
async def test_a_parameter_that_is_missing_unknown_or_of_another_type_is_named(
    answer, params, name
):
    with pytest.raises(ControlError, match=f"asked: `{name}`: "):
        await handler("asked", partial(answer, None))(params)


@contextmanager
def answering(folder, answer, times=1):
    """Answer so many requests at the socket of a home's run folder: with raw bytes, or an error."""
    (folder / "run").mkdir()
    path = folder / "run" / "control.sock"
    with socket.socket(socket.AF_UNIX) as listening, ThreadPoolExecutor() as pool:
        listening.bind(str(path))
        listening.listen()

        def serve():
            for _ in range(times):
                with listening.accept()[0] as channel, channel.makefile("rb") as lines:
                    lines.readline()
                    channel.sendall(answer)

        served = pool.submit(serve)
        yield path
        served.result(60)


def test_an_error_is_told_in_the_daemons_words(tmp_path, capsys):
    error = {"code": -32001, "message": "goal x is over: \x1b[31m`retry` starts it again"}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode() + b"\n"
    with answering(tmp_path, line, times=2) as path:
        with pytest.raises(RequestRefused, match="is over"):
            call(path, "reload")
        assert run(["--home", str(tmp_path), "reload"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "retry" in said.err
    assert "\x1b" not in said.err


@pytest.mark.parametrize(
    ("answer", "why", "code"),
    [
        (b"no json\n", "cannot be read", ExitCode.FAILED),
        (b'{"jsonrpc"', "no daemon is running", ExitCode.NO_DAEMON),  # it ended in the middle of it
    ],
)
def test_an_answer_that_is_none_is_an_error(tmp_path, answer, why, code):
    with answering(tmp_path, answer) as path, pytest.raises(CliError, match=why) as told:
        call(path, "ping")
    assert told.value.code == code


def test_a_daemon_that_answers_byte_by_byte_has_no_more_time_for_it(path):
    with socket.socket(socket.AF_UNIX) as slow, ThreadPoolExecutor() as pool:
        slow.bind(str(path))
        slow.listen()
        asked = pool.submit(call, path, "ping", within_s=0.2)
        channel = slow.accept()[0]
        with channel, suppress(BrokenPipeError):
            for _ in range(400):
                channel.send(b" ")
                time.sleep(0.01)
                if asked.done():
                    break
        with pytest.raises(CliError, match="did not answer `ping`"):
            asked.result()
