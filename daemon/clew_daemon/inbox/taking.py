"""Taking one file from the inbox: claim, read, judge, and put away as the verdict says.

A file is claimed first, then accepted, then removed: a daemon killed in between finds its claim again, and `accept`
recognises it by its identity (`Already`). A file gets its name back where it certainly has not been accepted, and
cannot be now.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from clew_daemon.inbox import files
from clew_daemon.inbox.files import BeingWritten, Changed, Claim, Dropped
from clew_daemon.inbox.verdicts import Accept, Accepted, Already, Later, Rejected, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from clew_daemon.inbox.notices import Notices
    from clew_daemon.inbox.settle import Look

ACCEPT_DEADLINE_S = 60.0
WRITER_S = 1.0
"""How often a file that another program has open for writing is looked at."""
GATHER_S = 0.05
"""A thousand files that arrive together are looked at together."""


@dataclass(frozen=True, slots=True)
class LookAgain:
    """It is not, or not yet, what was looked at: look again in `after_s`."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Undecided:
    """It may have been accepted: it stays claimed, so that `accept` recognises it in `after_s`."""

    after_s: float | None = None


@dataclass(frozen=True, slots=True)
class DueFile:
    """A file to take: one that has settled (`look`), or one that is claimed already (`claim`)."""

    name: str
    tries: int
    look: Look | None = None
    claim: Claim | None = None

    @property
    def order(self) -> tuple[int, str]:
        if self.claim is not None:
            return self.claim.entry.mtime_ns, self.name
        return self.look.content.mtime_ns if self.look else 0, self.name

    @property
    def size(self) -> int:
        if self.claim is not None:
            return self.claim.entry.size
        return self.look.content.size if self.look else 0


@dataclass(frozen=True, slots=True)
class ClaimedFile:
    """The result of claiming and reading a file; `claim` is None if it still has its name."""

    claim: Claim | None
    found: Dropped | Verdict | LookAgain | Undecided


@dataclass(frozen=True, slots=True)
class RetryLater:
    """A file that is still to be taken, in `after_s` (None: with back-off).

    `claim` where it stayed claimed, else `name` is its name, and `look` how it looks, unwritten since it settled.
    `tried` counts for the back-off.
    """

    after_s: float | None
    claim: Claim | None = None
    name: str = ""
    look: Look | None = None
    tried: bool = True


class Taking:
    """Takes files of `folder`; `claim` and `put_away` block, `judge` runs on the event loop."""

    def __init__(self, folder: Path, rejected: Path, accept: Accept, notices: Notices) -> None:
        self._folder = folder
        self._rejected = rejected
        self._accept = accept
        self._notices = notices
        self._accepted: set[str] = set()  # hidden names of claims that could not be removed yet
        self.stopping = False

    def retain(self, hidden: Collection[str]) -> None:
        """Forget accepted claims that are gone; `hidden` has the names of those that are there."""
        self._accepted.intersection_update(hidden)

    def claim(self, due: DueFile) -> ClaimedFile:
        """Claim and read a file, or return what to do where that fails."""
        claim = due.claim
        try:
            if claim is None and due.look is not None:
                claim = files.claim(self._folder / due.name, due.look)
        except (Changed, FileNotFoundError):
            return ClaimedFile(None, LookAgain(GATHER_S))
        except BeingWritten:
            self._notices.waiting(due.name)
            return ClaimedFile(None, LookAgain(WRITER_S))
        except OSError as error:
            self._defer(due, f"cannot be renamed: {error.strerror}")
            return ClaimedFile(None, Later())
        if claim is None or claim.hidden.name in self._accepted:
            return ClaimedFile(claim, Already())
        return ClaimedFile(claim, self._read(due, claim))

    def _read(self, due: DueFile, claim: Claim) -> Dropped | Verdict | LookAgain | Undecided:
        # a new claim is not accepted yet; whether an older one is, `accept` decides
        is_new = due.claim is None
        try:
            return files.read(claim)
        except (Changed, FileNotFoundError):
            return LookAgain(GATHER_S)
        except BeingWritten:
            self._notices.waiting(due.name)
            return LookAgain(WRITER_S) if is_new else Undecided(WRITER_S)
        except PermissionError as error:
            return Rejected(f"{due.name} cannot be read: {error.strerror}. Let the user that clew "
                            "runs as read it (chmod), and submit it again.")  # fmt: skip
        except OSError as error:
            self._defer(due, f"cannot be read: {error.strerror}")
            return Later() if is_new else Undecided()

    async def judge(self, due: DueFile, claimed: ClaimedFile) -> Verdict | LookAgain | Undecided:
        """Return what `accept` decides about a file that was read, or what claiming it already decided."""
        dropped = claimed.found
        if not isinstance(dropped, Dropped):
            return dropped
        if self.stopping:
            return Later(0.0) if due.claim is None else Undecided()
        try:
            async with asyncio.timeout(ACCEPT_DEADLINE_S):
                return await self._accept(dropped)
        except Exception as error:  # noqa: BLE001 - whatever it is, the file must stay and others go on
            self._defer(due, f"{type(error).__name__}: {error}")
            return Undecided()

    def put_away(
        self, due: DueFile, claimed: ClaimedFile, verdict: Verdict | LookAgain | Undecided
    ) -> RetryLater | None:
        """Do to the file what was decided; None when it is done with."""
        claim = claimed.claim
        if claim is None:
            after_s = verdict.after_s if isinstance(verdict, Later | LookAgain) else None
            tried = isinstance(verdict, Later)
            return RetryLater(after_s, name=due.name, look=due.look, tried=tried)
        match verdict:
            case Accepted() | Already():
                return self._remove(due, claim)
            case Rejected(error):
                return self._reject(due, claim, error)
            case Later(after_s):
                return self._give_back(due, claim, after_s)
            case LookAgain(after_s):
                return replace(self._give_back(due, claim, after_s), tried=False)
            case Undecided(after_s):
                return RetryLater(after_s, claim=claim)
            case _:
                assert_never(verdict)

    def _remove(self, due: DueFile, claim: Claim) -> RetryLater | None:
        self._accepted.add(claim.hidden.name)
        try:
            files.remove(claim)
        except OSError as error:
            self._defer(due, f"is a goal, but cannot be removed: {error.strerror}")
            return RetryLater(None, claim=claim)
        self._accepted.discard(claim.hidden.name)
        return None

    def _reject(self, due: DueFile, claim: Claim, error: str) -> RetryLater | None:
        try:
            if files.reject(claim, self._rejected, error):
                self._notices.rejected(claim.name, error)
        except OSError as failed:
            self._defer(due, f"cannot be moved to {self._rejected}: {failed.strerror}")
            return self._give_back(due, claim, None)
        return None

    def _give_back(self, due: DueFile, claim: Claim, after_s: float | None) -> RetryLater:
        """Restore the name of a file that was certainly not accepted."""
        try:
            path = files.put_back(claim.hidden, self._folder / claim.name)
            look = files.look_at(path)
        except FileNotFoundError:
            return RetryLater(after_s)
        except OSError as error:
            self._defer(due, f"cannot be renamed: {error.strerror}")
            return RetryLater(after_s, claim=claim)
        unwritten = look is not None and look.entry.same_but_moved(claim.entry)
        return RetryLater(after_s, name=path.name, look=look if unwritten else None)

    def _defer(self, due: DueFile, error: str) -> None:
        self._notices.deferred(due.name, due.tries, error)
