"""The inbox: hands over each completely written goal file once; it leaves when that is durable.

What becomes of a file is decided by `accept`, which the daemon supplies; what a goal is, how it is
parsed and where it is kept is not known here. A file is claimed first, then accepted, then removed:
a daemon killed in between finds its claim again, and `accept` recognises it by its identity
(`Already`). It gets its name back where it certainly has not been accepted, and cannot be now.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from clew_daemon.inbox import files
from clew_daemon.inbox.files import BeingWritten, Changed, Claim, Dropped
from clew_daemon.inbox.notify import FolderWatch
from clew_daemon.inbox.owner import NotOwnerError
from clew_daemon.inbox.settle import Ignore, Look, Seen, Take, Wait, decide

if TYPE_CHECKING:
    from pathlib import Path

    from structlog.typing import FilteringBoundLogger

    from clew_daemon.inbox.owner import InboxOwner

__all__ = ["Accept", "Accepted", "Already", "Dropped", "Inbox", "Later", "Rejected", "Verdict"]

BATCH_FILES = 64
BATCH_BYTES = 8 * 1024 * 1024
FAULTS_CHARS = 500
ACCEPT_DEADLINE_S = 60.0
STOP_DEADLINE_S = 10.0
RETRY_INITIAL_S = 0.5
RETRY_MAX_S = 60.0
UNWATCHED_SWEEP_S = 2.0
WRITER_S = 1.0
"""How often a file that someone has open for writing is looked at."""
GATHER_S = 0.05
"""A thousand files that arrive together are looked at together."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """It is a goal, and durably recorded: the file may go."""

    goal_id: str


@dataclass(frozen=True, slots=True)
class Already:
    """The very same drop was recorded before, by a daemon that died before it removed the file."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """It can never be a goal; `error` says why, where, and what would be right."""

    error: str


@dataclass(frozen=True, slots=True)
class Later:
    """It cannot be decided now (a full disk): try again in `after_s`, by default with back-off."""

    after_s: float | None = None


Verdict = Accepted | Already | Rejected | Later
Accept = Callable[[Dropped], Awaitable[Verdict]]


@dataclass(frozen=True, slots=True)
class _Again:
    """It is not, or not yet, what was looked at: look again in `after_s`."""

    after_s: float


@dataclass(frozen=True, slots=True)
class _Unknown:
    """It may have been accepted: it stays claimed, so that `accept` knows it again in `after_s`."""

    after_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Due:
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
class _Taken:
    """What came of claiming and reading a file; `claim` is None if it still has its name."""

    claim: Claim | None
    found: Dropped | Verdict | _Again | _Unknown


@dataclass(frozen=True, slots=True)
class _Left:
    """A file that is still to be taken, in `after_s` (None: with back-off).

    `claim` where it stayed claimed, else `name` is its name, and `look` how it looks, unwritten
    since it settled. `tried` counts for the back-off.
    """

    after_s: float | None
    claim: Claim | None = None
    name: str = ""
    look: Look | None = None
    tried: bool = True


@dataclass(frozen=True, slots=True)
class _Retry:
    """A claimed file is not to be tried before `at` (s, on the loop's clock)."""

    at: float
    tries: int


class Inbox:
    """Watches `folder`; rejected files go to `rejected`. Times in seconds.

    `owner` holds the folder's lock: while it cannot, nothing is taken. `accept` is called for up
    to 64 files at once, the oldest first; when it raises, the file stays claimed and is tried
    again later. Logs `goal.rejected` and `inbox.*`; `goal.accepted` is the daemon's.
    """

    def __init__(
        self,
        folder: Path,
        rejected: Path,
        *,
        settle_s: float,
        sweep_s: float,
        owner: InboxOwner,
        accept: Accept,
        log: FilteringBoundLogger,
    ) -> None:
        self._folder = folder
        self._rejected = rejected
        self._settle_s = settle_s
        self._sweep_s = sweep_s
        self._owner = owner
        self._accept = accept
        self._log = log
        self._seen: dict[str, Seen] = {}
        self._retries: dict[str, _Retry] = {}  # of claims, by their hidden names
        self._accepted: set[str] = set()  # hidden names of claims that could not be removed yet
        self._ignored: set[str] = set()
        self._waiting: set[str] = set()  # for their writers
        self._trouble = ("", "")  # what is wrong with the folder itself, so that it is logged once
        self._watched = False
        self._full_until = 0.0  # nothing could be decided: on the loop's clock
        self._round_lock = asyncio.Lock()
        self._wake = asyncio.Event()
        self._noticed = False
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._watch = FolderWatch(self._notice)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Make the folder, finish what an earlier daemon began, and watch from now on."""
        if self._task is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._stopping = False
        self._task = asyncio.create_task(self._run(), name="inbox")

    async def stop(self) -> None:
        """Take nothing more, and return when what is under way has ended."""
        self._stopping = True
        self._wake.set()
        task, self._task = self._task, None
        if task is not None:
            _, late = await asyncio.wait({task}, timeout=STOP_DEADLINE_S)
            if late:
                task.cancel()
                await asyncio.wait(late, timeout=STOP_DEADLINE_S)
        await asyncio.to_thread(self._watch.close)

    async def sweep(self) -> None:
        """Look at the folder now, and take everything in it that has settled."""
        await self._round()

    def _notice(self) -> None:
        """Wake the loop; called by the watch's thread, a thousand times for a thousand files."""
        if self._noticed or self._loop is None:
            return
        self._noticed = True
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(self._wake.set)

    async def _run(self) -> None:
        while not self._stopping:
            try:
                until = await self._round()
            except Exception:  # noqa: BLE001 - an inbox that has silently died is worse than any fault
                self._log.exception("inbox.failed", folder=str(self._folder))
                until = math.inf
            await self._pause(until)

    async def _pause(self, until: float) -> None:
        """Sleep until then, the next sweep, or an event, whichever is first."""
        now = asyncio.get_running_loop().time()
        sweep_s = min(self._sweep_s, UNWATCHED_SWEEP_S) if self._trouble[0] else self._sweep_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(until - now, sweep_s))):
                await self._wake.wait()
                await asyncio.sleep(GATHER_S)

    async def _round(self) -> float:
        """Look once and take what is due; when to look again, on the loop's clock."""
        async with self._round_lock:
            self._wake.clear()
            self._noticed = False
            looks, claims = await asyncio.to_thread(self._look_around)
            now = asyncio.get_running_loop().time()
            due, until = self._settled(looks, claims, now)
            if due and now < self._full_until:
                return min(until, self._full_until)
            while due and not self._stopping:
                batch = _batch(due)
                due = due[len(batch) :]
                at, decided = await self._take(batch)
                until = min(until, at)
                if not decided:  # the disk is full: the others would only be renamed to and fro
                    self._full_until = at
                    break
            return until

    def _settled(
        self, looks: dict[str, Look | None], claims: list[Claim], now: float
    ) -> tuple[list[_Due], float]:
        """Tell what is due, oldest first, and when the next of the others will be."""
        due, until = self._claimed(claims, now)
        seen: dict[str, Seen] = {}
        for name, look in looks.items():
            before = self._seen.get(name)
            decision = (
                Ignore() if look is None else decide(now, before, look, settle_s=self._settle_s)
            )
            if look is None or isinstance(decision, Ignore):
                self._say_ignored(name)
                continue
            unchanged = before is not None and before.look == look
            seen[name] = before if before is not None and unchanged else Seen(look, now)
            match decision:
                case Take():
                    due.append(_Due(name, seen[name].tries, look=look))
                case Wait(at):
                    until = min(until, at)
                case _:
                    assert_never(decision)
        self._seen = seen
        self._ignored &= looks.keys()
        self._waiting &= looks.keys() | {one.name for one in claims}
        due.sort(key=lambda one: one.order)
        return due, until

    def _claimed(self, claims: list[Claim], now: float) -> tuple[list[_Due], float]:
        """Tell which claims are due, and when the next of the others will be."""
        retries = {
            one.hidden.name: self._retries.get(one.hidden.name, _Retry(now, 0)) for one in claims
        }
        self._retries = retries
        self._accepted &= retries.keys()
        due = [
            _Due(one.name, retries[one.hidden.name].tries, claim=one)
            for one in claims
            if retries[one.hidden.name].at <= now
        ]
        return due, min(
            (retry.at for retry in retries.values() if retry.at > now), default=math.inf
        )

    async def _take(self, batch: list[_Due]) -> tuple[float, bool]:
        """Claim, read, have judged, and put away one batch.

        Tells when the first of them is to be retried, and whether anything could be decided now.
        """
        taken = await asyncio.to_thread(lambda: [self._claim(one) for one in batch])
        answers = await asyncio.gather(*map(self._judge, batch, taken))
        left = await asyncio.to_thread(
            lambda: [self._put_away(*one) for one in zip(batch, taken, answers, strict=True)]
        )
        decided = not all(isinstance(one, Later) and one.after_s for one in answers)
        return min(map(self._reschedule, batch, left), default=math.inf), decided

    def _claim(self, one: _Due) -> _Taken:
        """Claim and read a file; or tell what to do if that fails."""
        claim = one.claim
        try:
            if claim is None and one.look is not None:
                claim = files.claim(self._folder / one.name, one.look)
        except (Changed, FileNotFoundError):
            return _Taken(None, _Again(GATHER_S))
        except BeingWritten:
            self._say_waiting(one.name)
            return _Taken(None, _Again(WRITER_S))
        except OSError as error:
            self._say_deferred(one, f"cannot be renamed: {error.strerror}")
            return _Taken(None, Later())
        if claim is None or claim.hidden.name in self._accepted:
            return _Taken(claim, Already())
        return _Taken(claim, self._read(one, claim))

    def _read(self, one: _Due, claim: Claim) -> Dropped | Verdict | _Again | _Unknown:
        known = one.claim is None  # not to be accepted yet; of an older claim only `accept` knows
        try:
            return files.read(claim)
        except (Changed, FileNotFoundError):
            return _Again(GATHER_S)
        except BeingWritten:
            self._say_waiting(one.name)
            return _Again(WRITER_S) if known else _Unknown(WRITER_S)
        except PermissionError as error:
            return Rejected(f"{one.name} cannot be read: {error.strerror}. Let the user that clew "
                            "runs as read it (chmod), and submit it again.")  # fmt: skip
        except OSError as error:
            self._say_deferred(one, f"cannot be read: {error.strerror}")
            return Later() if known else _Unknown()

    async def _judge(self, one: _Due, taken: _Taken) -> Verdict | _Again | _Unknown:
        drop = taken.found
        if not isinstance(drop, Dropped):
            return drop
        if self._stopping:
            return Later(0.0) if one.claim is None else _Unknown()
        try:
            async with asyncio.timeout(ACCEPT_DEADLINE_S):
                return await self._accept(drop)
        except Exception as error:  # noqa: BLE001 - whatever it is, the file must stay and others go on
            self._say_deferred(one, f"{type(error).__name__}: {error}")
            return _Unknown()

    def _put_away(
        self, one: _Due, taken: _Taken, verdict: Verdict | _Again | _Unknown
    ) -> _Left | None:
        """Do to the file what was decided; None when nothing is left to be done."""
        claim = taken.claim
        if claim is None:
            after_s = verdict.after_s if isinstance(verdict, Later | _Again) else None
            return _Left(after_s, name=one.name, look=one.look, tried=isinstance(verdict, Later))
        match verdict:
            case Accepted() | Already():
                return self._remove(one, claim)
            case Rejected(error):
                return self._reject(one, claim, error)
            case Later(after_s):
                return self._give_back(one, claim, after_s)
            case _Again(after_s):
                return replace(self._give_back(one, claim, after_s), tried=False)
            case _Unknown(after_s):
                return _Left(after_s, claim=claim)
            case _:
                assert_never(verdict)

    def _remove(self, one: _Due, claim: Claim) -> _Left | None:
        self._accepted.add(claim.hidden.name)
        try:
            files.remove(claim)
        except OSError as error:
            self._say_deferred(one, f"is a goal, but cannot be removed: {error.strerror}")
            return _Left(None, claim=claim)
        self._accepted.discard(claim.hidden.name)
        return None

    def _reject(self, one: _Due, claim: Claim, error: str) -> _Left | None:
        try:
            if files.reject(claim, self._rejected, error):
                self._log.warning("goal.rejected", name=claim.name, error=_in_one_line(error))
        except OSError as failed:
            self._say_deferred(one, f"cannot be moved to {self._rejected}: {failed.strerror}")
            return self._give_back(one, claim, None)
        return None

    def _give_back(self, one: _Due, claim: Claim, after_s: float | None) -> _Left:
        """Restore the name of a file that was certainly not accepted."""
        try:
            path = files.put_back(claim.hidden, self._folder / claim.name)
            look = files.look_at(path)
        except FileNotFoundError:
            return _Left(after_s)
        except OSError as error:
            self._say_deferred(one, f"cannot be renamed: {error.strerror}")
            return _Left(after_s, claim=claim)
        unwritten = look is not None and look.entry.same_but_moved(claim.entry)
        return _Left(after_s, name=path.name, look=look if unwritten else None)

    def _reschedule(self, one: _Due, left: _Left | None) -> float:
        """When to try a file again, on the loop's clock; forget one that is dealt with."""
        now = asyncio.get_running_loop().time()
        seen = self._seen.pop(one.name, None) if one.claim is None else None
        if one.claim is not None:
            self._retries.pop(one.claim.hidden.name, None)
        if left is None:
            return math.inf
        after_s, tries = left.after_s, one.tries + left.tried
        if after_s is None:
            after_s = min(RETRY_INITIAL_S * 2 ** min(one.tries, 20), RETRY_MAX_S)
        if left.claim is not None:
            self._retries[left.claim.hidden.name] = _Retry(now + after_s, tries)
        elif left.look is not None:
            since = now if seen is None else seen.since
            self._seen[left.name] = Seen(left.look, since, not_before=now + after_s, tries=tries)
        return now + after_s

    # The folder, in a thread

    def _look_around(self) -> tuple[dict[str, Look | None], list[Claim]]:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._owner.take()
            self._keep_watch()
            for name in files.restore(self._folder):
                self._log.warning("inbox.restored", name=name)
            looks, claims = files.look_around(self._folder), files.claims(self._folder)
            if self._watch.holds(self._folder):
                self._trouble = ("", "")
        except OSError as error:
            self._say_trouble("inbox.unusable", error.strerror or str(error))
            return {}, []
        except NotOwnerError as error:
            self._say_trouble("inbox.unusable", str(error))
            return {}, []
        return looks, claims

    def _keep_watch(self) -> None:
        """Watch the folder that is there now, which may be another one of its name."""
        if self._watch.holds(self._folder):
            return
        if self._watched:
            self._watched = False
            self._log.warning("inbox.recreated", folder=str(self._folder))
        try:
            self._watch.renew(self._folder)
        except OSError as error:
            self._say_trouble("inbox.unwatched", error.strerror or str(error))
        else:
            self._watched = True

    # Said once

    def _say_trouble(self, event: str, reason: str) -> None:
        if self._trouble != (event, reason):
            self._trouble = (event, reason)
            self._log.error(event, folder=str(self._folder), error=reason)

    def _say_ignored(self, name: str) -> None:
        if name not in self._ignored:
            self._ignored.add(name)
            self._log.warning("inbox.ignored", name=name, error="neither a file nor a link to one")

    def _say_waiting(self, name: str) -> None:
        if name not in self._waiting:
            self._waiting.add(name)
            self._log.info(
                "inbox.waiting", name=name, reason="another program still has it open for writing"
            )

    def _say_deferred(self, one: _Due, error: str) -> None:
        if one.tries == 0:
            self._log.warning("inbox.deferred", name=one.name, error=error)


def _batch(due: list[_Due]) -> list[_Due]:
    """As many of the first as are read into memory together; one at least."""
    total = 0
    for count, one in enumerate(due[:BATCH_FILES]):
        total += min(one.size, files.MAX_BYTES)
        if count and total > BATCH_BYTES:
            return due[:count]
    return due[:BATCH_FILES]


def _in_one_line(text: str) -> str:
    """Return the first line; where that is only a heading, the faults below it."""
    first, _, rest = text.strip().partition("\n")
    return "; ".join(rest.splitlines())[:FAULTS_CHARS] if rest and first.endswith(":") else first
