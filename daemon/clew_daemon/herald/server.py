"""`/metrics`, `/healthz` and `/readyz` on a loopback address; reading only, and for an exact Host (docs/herald.md)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

REQUEST_S = 5.0
"""How long a client may take for its request, and to read the answer."""
CLIENTS_MAX = 16
TEXT = "text/plain; charset=utf-8"


class PortTakenError(Exception):
    """Another process listens there; the message names it where that is possible."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What the server shows: `metrics` for an Accept header, and why the ledger does not answer, "" if it does."""

    metrics: Callable[[str], tuple[bytes, str]]
    unready: Callable[[], str]


class MetricsServer:
    """Serves in threads, a bounded number at a time."""

    def __init__(self, host: str, port: int, answers: Answers) -> None:
        try:
            self._server = _Server((host, port), _Handler)
        except OSError as error:
            raise PortTakenError(
                f"cannot listen on {host}:{port}: {error.strerror}{_holder(port)}"
            ) from None
        self._server.answers = answers
        self._server.hosts = {f"{name}:{self.port}" for name in (host, "localhost")}
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def begin(self) -> None:
        """Start serving."""
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    answers: Answers
    hosts: set[str]

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(CLIENTS_MAX)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(timeout=REQUEST_S):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log no error: a client went away."""


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_S
    server_version, sys_version = "clew", ""

    def do_GET(self) -> None:
        """Answer a request."""
        server = cast("_Server", self.server)
        if self.headers.get("Host", "").lower() not in server.hosts:
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, b"this host name is not served\n")
            return
        match self.path.partition("?")[0]:
            case "/metrics":
                body, kind = server.answers.metrics(self.headers.get("Accept", ""))
                self._answer(HTTPStatus.OK, body, kind)
            case "/healthz":
                self._answer(HTTPStatus.OK, b"ok\n")
            case "/readyz":
                if why := server.answers.unready():
                    self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{why}\n".encode())
                else:
                    self._answer(HTTPStatus.OK, b"ok\n")
            case _:
                self._answer(HTTPStatus.NOT_FOUND, b"/metrics, /healthz, /readyz\n")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str = TEXT) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base
        """Log no requests."""


def _holder(port: int) -> str:
    """Return which process listens on a port, as the end of a sentence; "" if that cannot be known."""
    import psutil

    try:
        for found in psutil.net_connections("tcp"):
            if found.status == psutil.CONN_LISTEN and found.laddr and found.laddr.port == port:
                name = psutil.Process(found.pid).name() if found.pid else ""
                return f": {name} (process {found.pid}) has it" if name else ""
    except (psutil.Error, OSError):
        pass
    return ""
