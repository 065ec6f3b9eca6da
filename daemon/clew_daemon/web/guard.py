"""The guard in front of all pages: it refuses what the rules refuse, opens sessions, and adds the headers of safety.

Nothing behind it sees a request without a session. Pages are served below a prefix that is made at the start: the
session's cookie belongs to that path alone, so a browser does not send it to servers on other ports of this machine,
one of which may be a worker's (cookies know no ports).
"""

from __future__ import annotations

import asyncio
import html
import secrets
import time

from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clew_daemon.web.rules import Head, Policy, Refusal, cookie
from clew_daemon.web.sessions import Refused, Sessions

BODY_S = 10.0
"""How long the body of a request may take."""
SEND_S = 30.0
"""How long a client may take nothing of what it was sent."""
LINK_PATH = "/link/"

_NO_SESSION = (
    "This page needs a session. `clew web` printed a link that opens one, once; "
    "for another one, run: clew web --link"
)

_ANOTHER = "For another one, run: clew web --link"
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
        head = Head.of(scope["method"], scope["path"], scope["headers"])
        send = _safe(send)
        if refusal := self._policy.refusal(head):
            await _refused(refusal)(scope, receive, send)
        elif head.path.startswith(LINK_PATH):
            await self._opened(head)(scope, receive, send)
        elif not self._sessions.knows(cookie(head, self._cookie)):
            await _refused(Refusal(401, _NO_SESSION))(scope, receive, send)
        elif head.path == "/":
            await RedirectResponse(f"{self.prefix}/", 303)(scope, receive, send)
        else:
            inner = {**scope, "root_path": self.prefix}
            if not head.path.startswith(f"{self.prefix}/"):
                inner["path"] = f"{self.prefix}{head.path}"
            await self._app(inner, _bounded(receive), send)

    def _opened(self, head: Head) -> Response:
        """Redeem a link: it is used up by the first GET, and not by the look-ahead of a HEAD."""
        if head.method != "GET":
            return _refused(Refusal(405, "Open this link in a browser."))
        opened = self._sessions.redeem(head.path.removeprefix(LINK_PATH), time.monotonic())
        if isinstance(opened, Refused):
            return _refused(Refusal(401, f"{opened.value} {_ANOTHER}"))
        path = f"{self.prefix}/"
        crumb = f"{self._cookie}={opened}; Path={path}; HttpOnly; SameSite=Strict"
        return RedirectResponse(path, 303, {"set-cookie": crumb})


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


def _bounded(receive: Receive) -> Receive:
    """Bound the time of the whole body; its length is bounded by the rules, and the server counts it.

    After the body, what comes is the end of the connection, for which an answer that streams may wait long.
    """
    ends_at, over = time.monotonic() + BODY_S, False

    async def receive_in_time() -> Message:
        nonlocal over
        if over:
            return await receive()
        async with asyncio.timeout(max(0.0, ends_at - time.monotonic())):
            message = await receive()
        over = not message.get("more_body", False)
        return message

    return receive_in_time


def _refused(refusal: Refusal) -> Response:
    reason = html.escape(refusal.reason)
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>clew</title><h1>clew</h1><p>{reason}</p>'
    return HTMLResponse(page, refusal.status, {"connection": "close"})
