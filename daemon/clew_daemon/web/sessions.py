"""One-time links and the sessions that they open; in memory, so that a restart ends all of them.

Only digests are stored: how long it takes to find one says nothing of a secret.
"""

import hashlib
import secrets
from collections import OrderedDict

LINKS_MAX = 64
"""Links that are remembered, used ones too; the oldest is dropped."""
LINK_S = 3600.0
SESSIONS_MAX = 32
TOKEN_BYTES = 32


class NotOpenedError(Exception):
    """A link opens no session; the text says why."""


class Sessions:
    """Makes links and redeems each of them once."""

    def __init__(self) -> None:
        self._links: OrderedDict[bytes, float | None] = OrderedDict()  # when it expires; None: used
        self._sessions: OrderedDict[bytes, float | None] = OrderedDict()

    def new_link(self, now: float) -> str:
        """Return the token of a new link; `now` is in seconds on a monotonic clock."""
        return _add(self._links, now + LINK_S, LINKS_MAX)

    def redeem(self, token: str, now: float) -> str:
        """Return the secret of a new session for a link's token, which is used up; or raise NotOpenedError."""
        digest = _digest(token)
        if digest not in self._links:
            raise NotOpenedError("This link is not valid.")
        expires, self._links[digest] = self._links[digest], None
        if expires is None:
            raise NotOpenedError("This link has been used already.")
        if now > expires:
            raise NotOpenedError("This link has expired.")
        return _add(self._sessions, None, SESSIONS_MAX)

    def knows(self, secret: str) -> bool:
        """Return whether this is the secret of a session."""
        return _digest(secret) in self._sessions


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def _add(known: OrderedDict[bytes, float | None], expires: float | None, most: int) -> str:
    """Return a new secret, after adding it to those that are known."""
    secret = secrets.token_urlsafe(TOKEN_BYTES)
    known[_digest(secret)] = expires
    while len(known) > most:
        known.popitem(last=False)
    return secret
