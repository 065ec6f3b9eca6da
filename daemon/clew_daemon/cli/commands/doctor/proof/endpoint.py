"""A model's endpoint on loopback that plays a list of moves, while a block lasts."""

from __future__ import annotations

import gzip
import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from clew_daemon.cli.commands.doctor.proof.wires import ModelText, wire_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew_daemon.cli.commands.doctor.proof.wires import ModelMove, ModelRequest

BODY_BYTES_MAX = 16 << 20
REQUESTS_MAX = 200
"""An agent that asks more often than this gets no more answers: it is in a loop of its own."""

READ_S = 30.0
POLL_S = 0.05
DONE = ModelText("Done.")


class ModelEndpoint:
    """Answers each request with the move that follows those in its conversation; a context manager.

    A repeated request gets the same move again, a resumed conversation the next one. `requests` are those with tools.
    """

    def __init__(self, moves: Sequence[ModelMove]) -> None:
        self._moves = tuple(moves)
        self._lock = threading.Lock()
        self.requests: list[ModelRequest] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_ModelHandler, self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,))

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def move(self, request: ModelRequest) -> ModelMove | None:
        """Return the answer to a request, None where there were too many."""
        if not request.tools:
            return DONE
        with self._lock:
            if len(self.requests) >= REQUESTS_MAX:
                return None
            self.requests.append(request)
        return self._moves[request.moves] if request.moves < len(self._moves) else DONE


class _ModelHandler(BaseHTTPRequestHandler):
    """Serves one connection."""

    protocol_version = "HTTP/1.1"
    timeout = READ_S

    def __init__(self, endpoint: ModelEndpoint, *connection: Any) -> None:
        self._endpoint = endpoint
        super().__init__(*connection)

    def do_HEAD(self) -> None:
        self._send(b"")

    def do_GET(self) -> None:
        self._send(b'{"object": "list", "data": [{"id": "m", "object": "model"}], "models": []}')

    def do_POST(self) -> None:
        body = self._body()
        if self.path.partition("?")[0].endswith("/count_tokens"):
            return self._send(b'{"input_tokens": 100}')
        wire = wire_of(self.path)
        if wire is None or body is None:
            return self._send(b"{}", 404 if wire is None else 400)
        request = wire.read(body)
        move = self._endpoint.move(request)
        if move is None:
            return self._send(b"{}", 429)
        kind = "text/event-stream" if request.stream else "application/json"
        return self._send(wire.write(request, move), kind=kind)

    def _body(self) -> dict[str, Any] | None:
        """Return the JSON object that was sent, None for anything else."""
        try:
            raw = self._raw()
            if self.headers.get("content-encoding") == "gzip":
                raw = gzip.decompress(raw)
            found = json.loads(raw)
        except (ValueError, OSError, EOFError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def _raw(self) -> bytes:
        length = self.headers.get("content-length")
        if length is not None:
            return self.rfile.read(min(int(length), BODY_BYTES_MAX))
        found = bytearray()
        while len(found) < BODY_BYTES_MAX and (size := int(self.rfile.readline(64), 16)):
            found += self.rfile.read(min(size, BODY_BYTES_MAX))
            self.rfile.readline(64)
        self.rfile.readline(64)
        return bytes(found)

    def _send(self, body: bytes, status: int = 200, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Print nothing."""
