"""The guard in front of all pages: it refuses what the rules refuse, opens sessions, and adds the headers of safety.

Nothing behind it sees a request without a session. Pages are served below a prefix that is made at the start: the
session's cookie belongs to that path alone, so a browser does not send it to servers on other ports of this machine,
one of which may be a worker's (cookies know no ports).
"""

import asyncio
import html
import secrets
import time

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clew_daemon.web.rules import Policy, Refusal, cookie
from clew_daemon.web.sessions import NotOpenedError, Sessions

SEND_S = 30.0
"""How long a client may take nothing of what it was sent."""
LINK_PATH = "/link/"

_ANOTHER = "For another one, run: clew web --link"
_NO_SESSION = f"This page needs a session. `clew web` printed a link that opens one. {_ANOTHER}"
SAFETY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """The ASGI application that stands in front of another one; `port` is in the cookie's name."""

    def __init__(self, app: ASGIApp, policy: Policy, sessions: Sessions, port: int) -> None:
        self._app = app
        self._policy = policy
        self._sessions = sessions
        self._cookie = f"clew-{port}"
        self.prefix = f"/{secrets.token_hex(8)}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        method, path, headers = scope["method"], scope["path"], Headers(scope=scope)
        send = _safe(send)
        if refusal := self._policy.refusal(method, headers):
            await _refused(refusal)(scope, receive, send)
        elif path.startswith(LINK_PATH):
            await self._opened(method, path)(scope, receive, send)
        elif not self._sessions.knows(cookie(headers, self._cookie)):
            await _refused(Refusal(401, _NO_SESSION))(scope, receive, send)
        elif path == "/":
            await RedirectResponse(f"{self.prefix}/", 303)(scope, receive, send)
        else:
            own = path if path.startswith(f"{self.prefix}/") else f"{self.prefix}{path}"
            await self._app({**scope, "root_path": self.prefix, "path": own}, receive, send)

    def _opened(self, method: str, path: str) -> Response:
        """Redeem a link: it is used up by the first GET, and not by the look-ahead of a HEAD."""
        if method != "GET":
            return _refused(Refusal(405, "Open this link in a browser."))
        try:
            secret = self._sessions.redeem(path.removeprefix(LINK_PATH), time.monotonic())
        except NotOpenedError as why:
            return _refused(Refusal(401, f"{why} {_ANOTHER}"))
        own = f"{self.prefix}/"
        crumb = f"{self._cookie}={secret}; Path={own}; HttpOnly; SameSite=Strict"
        return RedirectResponse(own, 303, {"set-cookie": crumb})


def _safe(send: Send) -> Send:
    """Add the headers of safety to each answer, and give up on a client that takes nothing."""
    safety = [(name.encode(), value.encode()) for name, value in SAFETY.items()]

    async def send_safely(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [pair for pair in message.get("headers", ()) if pair[0] not in dict(safety)]
            message["headers"] = [*own, *safety]
        async with asyncio.timeout(SEND_S):
            await send(message)

    return send_safely


def _refused(refusal: Refusal) -> Response:
    reason = html.escape(refusal.reason)
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>clew</title><h1>clew</h1><p>{reason}</p>'
    return HTMLResponse(page, refusal.status, {"connection": "close"})
