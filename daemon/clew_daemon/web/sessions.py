"""One-time links and the sessions that they open; in memory, so that a restart ends all of them.

Only digests are stored, and every comparison takes the same time whichever of them matches.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

T = TypeVar("T")

LINKS_MAX = 16
"""Links that were not used yet, at most; the oldest is dropped."""
LINK_S = 3600.0
USED_MAX = 64
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
        self._links: OrderedDict[bytes, float] = OrderedDict()
        self._used: OrderedDict[bytes, None] = OrderedDict()
        self._sessions: OrderedDict[bytes, None] = OrderedDict()

    def new_link(self, now: float) -> str:
        """Return the token of a new link; `now` is in seconds on a monotonic clock."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        _add(self._links, _digest(token), now + LINK_S, LINKS_MAX)
        return token

    def redeem(self, token: str, now: float) -> str | Refused:
        """Return the secret of a new session for a link's token, which is used up; or why there is none."""
        found = _matching(token, self._links)
        if found is None:
            return Refused.UNKNOWN if _matching(token, self._used) is None else Refused.USED
        expires = self._links.pop(found)
        _add(self._used, found, None, USED_MAX)
        if now > expires:
            return Refused.EXPIRED
        secret = secrets.token_urlsafe(TOKEN_BYTES)
        _add(self._sessions, _digest(secret), None, SESSIONS_MAX)
        return secret

    def knows(self, secret: str) -> bool:
        """Return whether this is the secret of a session."""
        return _matching(secret, self._sessions) is not None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def _matching(secret: str, digests: Iterable[bytes]) -> bytes | None:
    """Return the digest of a secret if it is among these; all of them are compared."""
    wanted, found = _digest(secret), None
    for digest in digests:
        if hmac.compare_digest(digest, wanted):
            found = digest
    return found


def _add(known: OrderedDict[bytes, T], digest: bytes, value: T, most: int) -> None:
    known[digest] = value
    while len(known) > most:
        known.popitem(last=False)
