"""Which requests `clew web` serves: pure rules of a request's head (docs/web.md has the reason for each).

A page of any site can make the browser send requests to a loopback address, and every program of the machine can
connect to it. So a request must name this server, come from its own pages, and carry a session.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers

READING = ("GET", "HEAD")
CHANGING = "POST"
OWN_SITES = ("none", "same-origin")
BODY_BYTES_MAX = 1 << 20
FOREIGN = "This request comes from the page of another site."


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

    def refusal(self, method: str, headers: Headers) -> Refusal | None:
        """Return why a request is refused, with a session or without; None if it may go on."""
        return self._foreign(headers) or self._unfit(method, headers)

    def _foreign(self, headers: Headers) -> Refusal | None:
        """Refuse what names another server (rebinding of a DNS name) or comes from another site's page."""
        host = _only(headers, "host")
        if host not in self.hosts:
            return Refusal(421, "This server does not answer for that host: see `[web] hosts`.")
        if "upgrade" in headers:
            return Refusal(403, "There are no web sockets here.")
        if any(site not in OWN_SITES for site in headers.getlist("sec-fetch-site")):
            return Refusal(403, FOREIGN)
        own = (f"http://{host}", f"https://{host}")
        if any(origin not in own for origin in headers.getlist("origin")):
            return Refusal(403, FOREIGN)
        return None

    def _unfit(self, method: str, headers: Headers) -> Refusal | None:
        if method in READING:
            return None
        if method != CHANGING:
            return Refusal(405, f"{method} is not used here.")
        if self.read_only:
            return Refusal(403, "This server only shows things: it was started with `read_only`.")
        if len(headers.getlist("origin")) != 1:
            return Refusal(403, "A change must come from a page of this server.")
        kind = _only(headers, "content-type").partition(";")[0].strip().lower()
        if kind != "application/json":
            return Refusal(403, "A change must be sent as application/json.")
        return _wrong_length(headers)


def _wrong_length(headers: Headers) -> Refusal | None:
    length = _only(headers, "content-length")
    if not length.isdigit() or "transfer-encoding" in headers:
        return Refusal(411, "The length of the request must be given.")
    if len(length) > 9 or int(length) > BODY_BYTES_MAX:
        return Refusal(413, f"A request may have {BODY_BYTES_MAX:,} bytes at most.")
    return None


def _only(headers: Headers, name: str) -> str:
    """Return the value of a header that occurs once, otherwise ""."""
    values = headers.getlist(name)
    return values[0] if len(values) == 1 else ""


def cookie(headers: Headers, name: str) -> str:
    """Return the value of a cookie, "" if there is none or the header cannot be read."""
    jar = SimpleCookie()
    try:
        jar.load("; ".join(headers.getlist("cookie")))
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
        _, colon, its = host.rpartition("]")[2].rpartition(":")
        found |= {host} if colon and its.isdigit() else {host, f"{host}:{port}"}
    return frozenset(host.lower() for host in found)


def is_loopback(address: str) -> bool:
    """Return whether this machine alone can reach an address; all addresses (0.0.0.0) include it."""
    return address in ("localhost", "[::1]", "0.0.0.0", "[::]") or address.startswith("127.")  # noqa: S104 - compared
