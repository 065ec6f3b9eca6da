"""The command line and a daemon that is played by the test: questions, answers, deadlines."""

import json
import os
import socket
import socketserver
import threading
from contextlib import contextmanager

import pytest

from clew_daemon.cli import run
from clew_daemon.reading.client import RequestRefused, call
from clew_daemon.reading.errors import CliError


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


@pytest.mark.parametrize("answer", [b"no json\n", b'{"jsonrpc"'])
def test_an_answer_that_is_none_is_an_error(tmp_path, answer):
    with daemon(tmp_path, {"ping": answer}) as (path, _), pytest.raises(CliError):
        call(path, "ping")


def test_a_daemon_that_does_not_answer_in_time_is_named(tmp_path):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        with pytest.raises(CliError, match="did not answer `ping`"):
            call(tmp_path / "s", "ping", within_s=0.05)
