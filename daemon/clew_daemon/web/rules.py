"""Which requests `clew web` serves: pure rules of a request's head (docs/web.md has the reason for each).

A page of any site can make the browser send requests to a loopback address, and every program of the machine can
connect to it. So a request must name this server, come from its own pages, and carry a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

READING = ("GET", "HEAD")
CHANGING = "POST"
OWN_SITES = ("none", "same-origin")
HEADER_VALUES_MAX = 64
BODY_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request; header names are lower-case, each with all of its values."""

    method: str
    path: str
    headers: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, method: str, path: str, headers: Iterable[tuple[bytes, bytes]]) -> Head:
        """Make it from headers as ASGI has them."""
        found: dict[str, tuple[str, ...]] = {}
        for name, value in headers:
            key = name.decode("latin-1").lower()
            found[key] = (*found.get(key, ()), value.decode("latin-1"))
        return cls(method, path, found)

    def all(self, name: str) -> tuple[str, ...]:
        """Return all values of a header."""
        return self.headers.get(name, ())

    def only(self, name: str) -> str:
        """Return the value of a header that occurs once, otherwise ""."""
        values = self.all(name)
        return values[0] if len(values) == 1 else ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The status and the reason with which a request is refused."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Policy:
    """What is served: under which hosts, and whether anything may be changed."""

    hosts: frozenset[str]
    read_only: bool = False

    def refusal(self, head: Head) -> Refusal | None:
        """Return why a request is refused, with a session or without; None if it may go on."""
        return self._foreign(head) or self._unfit(head)

    def _foreign(self, head: Head) -> Refusal | None:
        """Refuse what names another server (rebinding of a DNS name) or comes from another site's page."""
        if head.only("host") not in self.hosts:
            return Refusal(421, "This server does not answer for that host: see `[web] hosts`.")
        if head.all("upgrade"):
            return Refusal(403, "There are no web sockets here.")
        if any(site not in OWN_SITES for site in head.all("sec-fetch-site")):
            return Refusal(403, "This request comes from the page of another site.")
        if any(origin not in _origins(head.only("host")) for origin in head.all("origin")):
            return Refusal(403, "This request comes from the page of another site.")
        return None

    def _unfit(self, head: Head) -> Refusal | None:
        if head.method in READING:
            return None
        if head.method != CHANGING:
            return Refusal(405, f"{head.method} is not used here.")
        if self.read_only:
            return Refusal(403, "This server only shows things: it was started with `read_only`.")
        if len(head.all("origin")) != 1:
            return Refusal(403, "A change must come from a page of this server.")
        if head.only("content-type").partition(";")[0].strip().lower() != "application/json":
            return Refusal(403, "A change must be sent as application/json.")
        return _wrong_length(head)


def cookie(head: Head, name: str) -> str:
    """Return the value of a cookie, "" if there is none or the header cannot be read."""
    jar = SimpleCookie()
    try:
        jar.load("; ".join(head.all("cookie")))
    except CookieError:
        return ""
    return jar[name].value if name in jar else ""


def served_hosts(address: str, port: int, named: Iterable[str]) -> frozenset[str]:
    """Return the values of `Host` that are served on an address, with those that the config names.

    One that is named without a port is served with and without that of this server: a reverse proxy has its own.
    """
    known = {address, *({"127.0.0.1", "localhost", "[::1]"} if is_loopback(address) else set())}
    found = {f"{host}:{port}" for host in known}
    found |= known if port == 80 else set()
    for host in named:
        found |= {host} if _has_port(host) else {host, f"{host}:{port}"}
    return frozenset(host.lower() for host in found)


def is_loopback(address: str) -> bool:
    """Return whether this machine alone can reach an address; all addresses (0.0.0.0) include it."""
    return address in ("localhost", "[::1]", "0.0.0.0", "[::]") or address.startswith("127.")  # noqa: S104 - compared


def _has_port(host: str) -> bool:
    return host.rpartition("]")[2].rpartition(":")[2].isdigit() and ":" in host.rpartition("]")[2]


def _origins(host: str) -> tuple[str, str]:
    return f"http://{host}", f"https://{host}"


def _wrong_length(head: Head) -> Refusal | None:
    length = head.only("content-length")
    if not length.isdigit() or head.all("transfer-encoding"):
        return Refusal(411, "The length of the request must be given.")
    if len(length) > 9 or int(length) > BODY_BYTES_MAX:
        return Refusal(413, f"A request may have {BODY_BYTES_MAX:,} bytes at most.")
    return None
