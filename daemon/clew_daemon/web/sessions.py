"""One-time links and the sessions that they open; in memory, so that a restart ends all of them.

Only digests are stored: how long it takes to find one says nothing of a secret.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from enum import Enum
from typing import TypeVar

T = TypeVar("T")

LINKS_MAX = 64
"""Links that are remembered, used ones too; the oldest is dropped."""
LINK_S = 3600.0
SESSIONS_MAX = 32
TOKEN_BYTES = 32


class Refused(Enum):
    """Why a link opens no session."""

    USED = "This link has been used already."
    EXPIRED = "This link has expired."
    UNKNOWN = "This link is not valid."


class Sessions:
    """Makes links and redeems each of them once."""

    def __init__(self) -> None:
        self._links: OrderedDict[bytes, float | None] = OrderedDict()  # None: it was used
        self._sessions: OrderedDict[bytes, None] = OrderedDict()

    def new_link(self, now: float) -> str:
        """Return the token of a new link; `now` is in seconds on a monotonic clock."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        _add(self._links, _digest(token), now + LINK_S, LINKS_MAX)
        return token

    def redeem(self, token: str, now: float) -> str | Refused:
        """Return the secret of a new session for a link's token, which is used up; or why there is none."""
        digest = _digest(token)
        if digest not in self._links:
            return Refused.UNKNOWN
        expires, self._links[digest] = self._links[digest], None
        if expires is None or now > expires:
            return Refused.USED if expires is None else Refused.EXPIRED
        secret = secrets.token_urlsafe(TOKEN_BYTES)
        _add(self._sessions, _digest(secret), None, SESSIONS_MAX)
        return secret

    def knows(self, secret: str) -> bool:
        """Return whether this is the secret of a session."""
        return _digest(secret) in self._sessions


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def _add(known: OrderedDict[bytes, T], digest: bytes, value: T, most: int) -> None:
    known[digest] = value
    while len(known) > most:
        known.popitem(last=False)
