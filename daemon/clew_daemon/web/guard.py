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
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

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

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
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

    def __init__(self, app: AsgiApp, policy: Policy, sessions: Sessions, port: int) -> None:
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
            await _refuse(send, refusal)
        elif head.path.startswith(LINK_PATH):
            await self._open(head, send)
        elif not self._sessions.knows(cookie(head, self._cookie)):
            await _refuse(send, Refusal(401, _NO_SESSION))
        elif head.path == "/":
            await _redirect(send, f"{self.prefix}/")
        else:
            inner = {**scope, "root_path": self.prefix}
            if not head.path.startswith(f"{self.prefix}/"):
                inner["path"] = f"{self.prefix}{head.path}"
            await self._app(inner, _bounded(receive), send)

    async def _open(self, head: Head, send: Send) -> None:
        """Redeem a link: it is used up by the first GET, and not by the look-ahead of a HEAD."""
        if head.method != "GET":
            await _refuse(send, Refusal(405, "Open this link in a browser."))
            return
        opened = self._sessions.redeem(head.path.removeprefix(LINK_PATH), time.monotonic())
        if isinstance(opened, Refused):
            await _refuse(send, Refusal(401, f"{opened.value} {_ANOTHER}"))
            return
        path = f"{self.prefix}/"
        crumb = f"{self._cookie}={opened}; Path={path}; HttpOnly; SameSite=Strict"
        await _redirect(send, path, (b"set-cookie", crumb.encode()))


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


async def _refuse(send: Send, refusal: Refusal) -> None:
    reason = html.escape(refusal.reason)
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>clew</title><h1>clew</h1><p>{reason}</p>'
    headers = [(b"content-type", b"text/html; charset=utf-8"), (b"connection", b"close")]
    await _answer(send, refusal.status, headers, page.encode())


async def _redirect(send: Send, path: str, *headers: tuple[bytes, bytes]) -> None:
    await _answer(send, 303, [(b"location", path.encode()), *headers], b"")


async def _answer(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
