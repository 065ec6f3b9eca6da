"""The guard in front of all pages: it refuses what the rules refuse, opens sessions, and adds the headers of safety.

A page of any site can make the browser send requests to a loopback address, and every program of the machine can
connect to it. So a request must name this server, come from its own pages, and carry a session (docs/web.md has the
reason for each rule). Nothing behind the guard sees a request without a session. Pages are served below a prefix that
is made at the start: the session's cookie belongs to that path alone, so a browser does not send it to servers on other
ports of this machine, one of which may be a worker's (cookies know no ports).
"""

import asyncio
import hashlib
import html
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ANOTHER = "For another one, run: clew web --link"
READING = ("GET", "HEAD")
CHANGING = "POST"
OWN_SITES = ("none", "same-origin")
BODY_BYTES_MAX = 1 << 20
FOREIGN = "This request comes from the page of another site."
LINKS_MAX = 64  # links that are remembered, used ones too; the oldest is dropped
LINK_S = 3600.0
SESSIONS_MAX = 32
TOKEN_BYTES = 32
SEND_S = 30.0  # how long a client may take nothing of what it was sent
LINK_PATH = "/link/"

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


@dataclass(frozen=True, slots=True)
class Policy:
    """What is served: under which hosts, and whether anything may be changed."""

    hosts: frozenset[str]
    read_only: bool = False

    def check(self, method: str, headers: Headers) -> None:
        """Raise HTTPException where a request is refused, with a session or without."""
        for is_broken, status, why in self._rules(method, headers):
            if is_broken:
                raise HTTPException(status, why)

    def _rules(self, method: str, headers: Headers) -> Iterator[tuple[bool, int, str]]:
        """Yield rule by rule whether it is broken, and how that is answered.

        The first ones are against rebinding of a DNS name, and pages of other sites.
        """
        host, origins = _only(headers, "host"), headers.getlist("origin")
        own = (f"http://{host}", f"https://{host}")
        yield host not in self.hosts, 421, "Not a name of this server: see `[web] hosts`."
        yield "upgrade" in headers, 403, "There are no web sockets here."
        yield any(one not in OWN_SITES for one in headers.getlist("sec-fetch-site")), 403, FOREIGN
        yield any(origin not in own for origin in origins), 403, FOREIGN
        if method in READING:
            return
        kind = _only(headers, "content-type").partition(";")[0].strip().lower()
        length = _only(headers, "content-length")
        is_open = not length.isdigit() or "transfer-encoding" in headers
        yield method != CHANGING, 405, f"{method} is not used here."
        yield self.read_only, 403, "This server only shows things: it was started with `read_only`."
        yield len(origins) != 1, 403, "A change must come from a page of this server."
        yield kind != "application/json", 403, "A change must be sent as application/json."
        yield is_open, 411, "The length of the request must be given."
        is_long = len(length) > 9 or int(length) > BODY_BYTES_MAX
        yield is_long, 413, f"A request may have {BODY_BYTES_MAX:,} bytes at most."


def _only(headers: Headers, name: str) -> str:
    values = headers.getlist(name)
    return values[0] if len(values) == 1 else ""


def served_hosts(address: str, port: int, named: Iterable[str]) -> frozenset[str]:
    """Return the values of `Host` that are served on an address, with those that the config names.

    One that is named without a port is served with and without that of this server: a reverse proxy has its own.
    """
    known = {address, *({"127.0.0.1", "localhost", "[::1]"} if is_loopback(address) else set())}
    found = {f"{host}:{port}" for host in known}
    found |= known if port == 80 else set()
    for host in named:
        _, colon, its = host.rpartition("]")[2].rpartition(":")
        found |= {host} if colon and its.isdigit() else {host, f"{host}:{port}"}
    return frozenset(host.lower() for host in found)


def is_loopback(address: str) -> bool:
    """Return whether this machine alone can reach an address; all addresses (0.0.0.0) include it."""
    return address in ("localhost", "[::1]", "0.0.0.0", "[::]") or address.startswith("127.")  # noqa: S104 - compared


class Sessions:
    """Makes one-time links and redeems each of them once; in memory, so that a restart ends all sessions.

    Only digests are stored: how long it takes to find one says nothing of a secret.
    """

    def __init__(self) -> None:
        self._links: OrderedDict[bytes, float | None] = OrderedDict()  # when it expires; None: used
        self._sessions: OrderedDict[bytes, float | None] = OrderedDict()

    def new_link(self, now: float) -> str:
        """Return the token of a new link; `now` is in seconds on a monotonic clock."""
        return _add(self._links, now + LINK_S, LINKS_MAX)

    def redeem(self, token: str, now: float) -> str:
        """Return the secret of a new session for a link's token, which is used up; HTTPException if it opens none."""
        digest = _digest(token)
        if digest not in self._links:
            raise HTTPException(401, f"This link is not valid. {_ANOTHER}")
        expires, self._links[digest] = self._links[digest], None
        if expires is None:
            raise HTTPException(401, f"This link has been used already. {_ANOTHER}")
        if now > expires:
            raise HTTPException(401, f"This link has expired. {_ANOTHER}")
        return _add(self._sessions, None, SESSIONS_MAX)

    def knows(self, secret: str) -> bool:
        """Return whether this is the secret of a session."""
        return _digest(secret) in self._sessions


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def _add(known: OrderedDict[bytes, float | None], expires: float | None, most: int) -> str:
    secret = secrets.token_urlsafe(TOKEN_BYTES)
    known[_digest(secret)] = expires
    while len(known) > most:
        known.popitem(last=False)
    return secret


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
        path, send = scope["path"], _safe(send)
        try:
            answer = self._answer(scope["method"], path, Headers(scope=scope))
        except HTTPException as refusal:
            await _page(refusal)(scope, receive, send)
            return
        own = path if path.startswith(f"{self.prefix}/") else f"{self.prefix}{path}"
        await answer({**scope, "root_path": self.prefix, "path": own}, receive, send)

    def _answer(self, method: str, path: str, headers: Headers) -> ASGIApp:
        """Return what answers a request: nothing of the application without a session. Raises HTTPException."""
        self._policy.check(method, headers)
        if path.startswith(LINK_PATH):
            if method != "GET":  # the look-ahead of a HEAD uses up no link
                raise HTTPException(405, "Open this link in a browser.")
            secret = self._sessions.redeem(path.removeprefix(LINK_PATH), time.monotonic())
            own = f"{self.prefix}/"
            crumb = f"{self._cookie}={secret}; Path={own}; HttpOnly; SameSite=Strict"
            return RedirectResponse(own, 303, {"set-cookie": crumb})
        crumbs = cookie_parser("; ".join(headers.getlist("cookie")))
        if not self._sessions.knows(crumbs.get(self._cookie, "")):
            raise HTTPException(401, _NO_SESSION)
        return RedirectResponse(f"{self.prefix}/", 303) if path == "/" else self._app


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


def _page(refusal: HTTPException) -> Response:
    reason = html.escape(refusal.detail)
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>clew</title><h1>clew</h1><p>{reason}</p>'
    return HTMLResponse(page, refusal.status_code, {"connection": "close"})
