"""The control socket: who keeps a place at it, what requests may hold, and what its client makes of answers."""

import asyncio
import json
import os
import socket
import socketserver
import threading
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
def daemon(folder, answers):
    """Serve `answers` (by method: a result, or raw bytes) on the socket of a home's run folder."""
    asked = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            for line in self.rfile:
                request = json.loads(line)
                asked.append((request["method"], request["params"]))
                answer = answers[request["method"]]
                if isinstance(answer, bytes):
                    self.wfile.write(answer)
                    return
                key = "error" if "code" in answer else "result"
                body = {"jsonrpc": "2.0", "id": request["id"], key: answer}
                self.wfile.write(json.dumps(body).encode() + b"\n")

    (folder / "run").mkdir(parents=True, exist_ok=True)
    path = folder / "run" / "control.sock"
    listening = socket.socket(socket.AF_UNIX)
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    listening.bind(f"/proc/self/fd/{directory}/{path.name}")
    os.close(directory)
    listening.listen()
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket, server.server_address = listening, str(path)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield path, asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_error_is_told_in_the_daemons_words(tmp_path, capsys):
    error = {"code": -32001, "message": "goal x is over: \x1b[31m`retry` starts it again"}
    with daemon(tmp_path, {"reload": error}) as (path, _):
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
    with (
        daemon(tmp_path, {"ping": answer}) as (path, _),
        pytest.raises(CliError, match=why) as told,
    ):
        call(path, "ping")
    assert told.value.code == code


def test_a_daemon_that_does_not_answer_in_time_is_named(tmp_path):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        with pytest.raises(CliError, match="did not answer `ping`"):
            call(tmp_path / "s", "ping", within_s=0.05)


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
