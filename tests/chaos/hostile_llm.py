"""An LLM server whose behaviour below HTTP is a test's: a function that is given the request and the socket."""

import contextlib
import json
import socketserver
import threading

from llm_server import says

RIGHT = says(json.dumps({"tool": "finish", "args": {"summary": "done"}})).body


class HostileLlm:
    """Does `misbehave(socket, released)` with each request until `get_well` is called; then it answers as it should."""

    def __init__(self, misbehave):
        self._misbehave = misbehave
        self._well = threading.Event()
        self.released = threading.Event()
        self.asked = 0
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def get_well(self):
        self._well.set()
        self.released.set()

    def answer(self, sock):
        self.asked += 1
        if self._well.is_set():
            sock.sendall(http(RIGHT))
        else:
            self._misbehave(sock, self.released)


def http(body=b"", status="200 OK", length=None, **headers):
    """Write an HTTP answer; `length` is what it claims to have, -1 for no claim."""
    named = {"content-type": "application/json", "connection": "close"}
    named |= {name.replace("_", "-"): str(value) for name, value in headers.items()}
    if length != -1:
        named["content-length"] = str(len(body) if length is None else length)
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = False
    block_on_close = True
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        """Say nothing: a client that hangs up is part of the play."""


def _handler(llm):
    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            length = 0
            while (line := self.rfile.readline()).strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            self.rfile.read(length)
            with contextlib.suppress(OSError):
                llm.answer(self.connection)

    return Handler
