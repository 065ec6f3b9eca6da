"""The files of the inbox that are not taken yet: which are due now, and when to look at the others.

Times are in seconds on the event loop's clock, and come in as arguments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from clew_daemon.inbox import files
from clew_daemon.inbox.settle import Ignore, Look, SeenFile, Take, Wait, decide
from clew_daemon.inbox.taking import DueFile

if TYPE_CHECKING:
    from clew_daemon.inbox.files import Claim
    from clew_daemon.inbox.notices import Notices
    from clew_daemon.inbox.taking import RetryLater

BATCH_FILES = 64
BATCH_BYTES = 8 * 1024 * 1024
RETRY_INITIAL_S = 0.5
RETRY_MAX_S = 60.0


@dataclass(frozen=True, slots=True)
class _ClaimRetry:
    """A claimed file is not to be tried before `at`."""

    at: float
    tries: int


class WaitingFiles:
    """Remembers how each file looked, and when each one that could not be taken is tried again."""

    def __init__(self, settle_s: float, notices: Notices) -> None:
        self._settle_s = settle_s
        self._notices = notices
        self._seen: dict[str, SeenFile] = {}
        self._retries: dict[str, _ClaimRetry] = {}  # by the claims' hidden names

    def due(
        self, looks: dict[str, Look | None], claims: list[Claim], now: float
    ) -> tuple[list[DueFile], float]:
        """Return the files that are due, oldest first, and when the next of the others will be."""
        due, until = self._due_claims(claims, now)
        seen: dict[str, SeenFile] = {}
        for name, look in looks.items():
            before = self._seen.get(name)
            decision = (
                Ignore() if look is None else decide(now, before, look, settle_s=self._settle_s)
            )
            if look is None or isinstance(decision, Ignore):
                self._notices.ignored(name)
                continue
            unchanged = before is not None and before.look == look
            seen[name] = before if before is not None and unchanged else SeenFile(look, now)
            match decision:
                case Take():
                    due.append(DueFile(name, seen[name].tries, look=look))
                case Wait(at):
                    until = min(until, at)
                case _:
                    assert_never(decision)
        self._seen = seen
        self._notices.retain(looks.keys(), [one.name for one in claims])
        due.sort(key=lambda one: one.order)
        return due, until

    def _due_claims(self, claims: list[Claim], now: float) -> tuple[list[DueFile], float]:
        self._retries = {
            one.hidden.name: self._retries.get(one.hidden.name, _ClaimRetry(now, 0))
            for one in claims
        }
        retries = self._retries
        due = [
            DueFile(one.name, retries[one.hidden.name].tries, claim=one)
            for one in claims
            if retries[one.hidden.name].at <= now
        ]
        later = (retry.at for retry in retries.values() if retry.at > now)
        return due, min(later, default=math.inf)

    def reschedule(self, due: DueFile, retry: RetryLater | None, now: float) -> float:
        """Return when to try a file again; inf for one that is done with, which is forgotten."""
        seen = self._seen.pop(due.name, None) if due.claim is None else None
        if due.claim is not None:
            self._retries.pop(due.claim.hidden.name, None)
        if retry is None:
            return math.inf
        after_s, tries = retry.after_s, due.tries + retry.tried
        if after_s is None:
            after_s = min(RETRY_INITIAL_S * 2 ** min(due.tries, 20), RETRY_MAX_S)
        at = now + after_s
        if retry.claim is not None:
            self._retries[retry.claim.hidden.name] = _ClaimRetry(at, tries)
        elif retry.look is not None:
            since = now if seen is None else seen.since
            self._seen[retry.name] = SeenFile(retry.look, since, not_before=at, tries=tries)
        return at


def first_batch(due: list[DueFile]) -> list[DueFile]:
    """Return as many of the first as are read into memory together; at least one."""
    total = 0
    for count, one in enumerate(due[:BATCH_FILES]):
        total += min(one.size, files.MAX_BYTES)
        if count and total > BATCH_BYTES:
            return due[:count]
    return due[:BATCH_FILES]
