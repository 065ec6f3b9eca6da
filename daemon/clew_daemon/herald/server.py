"""`/metrics`, `/healthz` and `/readyz` on a loopback address; reading only, and for an exact Host (docs/herald.md)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

REQUEST_S = 5.0
"""How long a client may take for its request, and to read the answer."""


class PortTakenError(Exception):
    """Another process listens there."""


class MetricsServer:
    """Serves in threads; `unready` returns why the ledger does not answer, "" if it does."""

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, unready: Callable[[], str]
    ) -> None:
        self._metrics = make_wsgi_app(registry, disable_compression=True)
        self._unready = unready
        kind = _Server6 if ":" in host else _Server
        try:
            self._server = make_server(host, port, self._app, kind, _Handler)
        except OSError as error:
            raise PortTakenError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        self.port = int(self._server.server_port)
        shown = f"[{host}]" if ":" in host else host
        self._hosts = {f"{name}:{self.port}" for name in (shown, "localhost")}
        serve = self._server.serve_forever
        threading.Thread(target=serve, name="metrics", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def _app(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        status, text = HTTPStatus.OK, "ok"
        if environ.get("HTTP_HOST", "").lower() not in self._hosts:
            status, text = HTTPStatus.MISDIRECTED_REQUEST, "this host name is not served"
        elif environ["REQUEST_METHOD"] != "GET":
            status, text = HTTPStatus.NOT_IMPLEMENTED, "GET alone"
        elif environ["PATH_INFO"] == "/metrics":
            found: Iterable[bytes] = self._metrics(environ, start)
            return found
        elif environ["PATH_INFO"] == "/readyz":
            if why := self._unready():
                status, text = HTTPStatus.SERVICE_UNAVAILABLE, why
        elif environ["PATH_INFO"] != "/healthz":
            status, text = HTTPStatus.NOT_FOUND, "/metrics, /healthz, /readyz"
        start(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{text}\n".encode()]


class _Server(ThreadingWSGIServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log no error: a client went away."""


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_S
    server_version, sys_version = "clew", ""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base
        """Log no requests."""
