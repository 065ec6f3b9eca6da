"""A model's endpoint on loopback that plays a script, in the wire formats of Codex, Claude Code and opencode.

Codex speaks "responses", Claude Code "messages", opencode "chat completions". The step of a request is the number of
moves that the model has made in its conversation: a repeated request gets the same step, a resumed session the next.
"""

import gzip
import http.server
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scripted_wires import WIRES, Call, Say

TITLE = Say("Title")
"""The answer to a request without tools: the CLIs ask for titles and summaries beside the conversation."""


@dataclass(frozen=True)
class Fail:
    """An HTTP error, for the first `times` requests of its step; then the step after it is played."""

    status: int
    body: dict
    headers: dict = field(default_factory=dict)
    times: int = 1_000


Step = Say | Call | Fail


@dataclass(frozen=True)
class Seen:
    """One request of a CLI: tools by the CLI's names for them, the texts of all tool results, and the whole body."""

    path: str
    moves: int
    tools: tuple[str, ...]
    results: tuple[str, ...]
    body: dict
    headers: dict


class ScriptedEndpoint:
    """Plays `script`, a list of steps or a function of the request, then says "All done."; a context manager."""

    def __init__(self, script: Sequence[Step] | Callable[[Seen], Step]):
        self._script = script
        self._failed: dict[int, int] = {}
        self._lock = threading.Lock()
        self.seen: list[Seen] = []
        self._server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"endpoint": self})
        )
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def talks(self) -> list[Seen]:
        """The requests of the conversation: those with tools."""
        return [one for one in self.seen if one.tools]

    def answer(self, seen: Seen) -> Step:
        with self._lock:
            self.seen.append(seen)
            if not seen.tools:
                return TITLE
            if callable(self._script):
                return self._script(seen)
            return self._step(seen.moves)

    def _step(self, moves: int) -> Step:
        """The step of the script after this number of moves; a call that failed does not count as one."""
        at = 0
        for position, step in enumerate(self._script):
            if isinstance(step, Fail):
                count = self._failed.get(position, 0)
                if at == moves and count < step.times:
                    self._failed[position] = count + 1
                    return step
                continue
            if at == moves:
                return step
            at += 1
        return Say("All done.")


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers one connection; `endpoint` is set by a class of its own for each endpoint."""

    endpoint: ScriptedEndpoint
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self._send(b"")

    def do_GET(self):
        self._send(json.dumps({"object": "list", "data": [{"id": "m"}], "models": []}).encode())

    def do_POST(self):
        path = self.path.split("?")[0]
        body = json.loads(self._body() or b"{}")
        if path.endswith("/count_tokens"):
            return self._send(b'{"input_tokens": 100}')
        wire = next((w for ending, w in WIRES.items() if path.endswith(ending)), None)
        return self._send(b"{}", 404) if wire is None else self._play(path, wire(body), body)

    def _play(self, path, request, body):
        headers = {k.lower(): v for k, v in self.headers.items()}
        seen = Seen(path, request.moves, request.tools, request.results, body, headers)
        step = self.endpoint.answer(seen)
        if isinstance(step, Fail):
            return self._send(json.dumps(step.body).encode(), step.status, **step.headers)
        kind = "text/event-stream" if body.get("stream") else "application/json"
        return self._send(request.reply(step), **{"content-type": kind})

    def _body(self) -> bytes:
        length = self.headers.get("content-length")
        raw = self.rfile.read(int(length)) if length else self._chunks()
        zipped = self.headers.get("content-encoding") == "gzip"
        return gzip.decompress(raw) if zipped else raw

    def _chunks(self) -> bytes:
        raw = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            raw += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return raw

    def _send(self, body: bytes, status: int = 200, **headers: str):
        self.send_response(status)
        for name, value in ({"content-type": "application/json"} | headers).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
