"""The inbox: hands each completely written goal file to `accept` once; the file leaves when the goal is durable.

A file is claimed first, then accepted, then removed: a daemon killed in between finds its claim again, and `accept`
recognises it by its identity. How a goal is parsed and stored is not known here.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from clew_daemon.inbox import files
from clew_daemon.inbox.files import BeingWritten, Changed, Dropped, Found, Look
from clew_daemon.inbox.folder import FolderWatch, InboxOwner, NotOwnerError
from clew_shared.backoff import backoff_s

EMPTY_SETTLE_S = 2.0
"""A file of no bytes is mostly one whose writer has only just opened it: it gets longer."""
GATHER_S = 0.05
"""A thousand files that arrive together are looked at together."""
WRITER_S = 1.0
"""How often a file that another program has open for writing is looked at, and an `accept` that is not ready."""
RETRY_INITIAL_S, RETRY_MAX_S = 0.5, 60.0
UNWATCHED_SWEEP_S = 2.0
ACCEPT_DEADLINE_S = 60.0
STOP_DEADLINE_S = 10.0
BATCH_FILES = 64
BATCH_BYTES = 8 * 1024 * 1024
FAULTS_CHARS = 500

Accept = Callable[[Dropped], Awaitable[str | None]]
"""Returns why a drop can never be a goal; None once it is one, durably, also if it was recorded before."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A look that has been the same since `since`; not to be tried before `not_before` (s, on one clock).

    `tries` counts how often it was tried and had to be left.
    """

    look: Look
    since: float
    not_before: float = 0.0
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """The file is looked at again after `after_s` seconds, None for a back-off; `forget`: as if it were new."""

    after_s: float | None = None
    forget: bool = False


def settle_time_s(look: Look, settle_s: float) -> float:
    """Return how long this look must last, in seconds, before the file counts as written."""
    return settle_s if look.content.size else max(settle_s * 4, EMPTY_SETTLE_S)


def due_at(seen: Seen, settle_s: float, *, claimed: bool = False) -> float:
    """Return when a file is to be taken, on the clock of `seen`; one that is claimed had settled before."""
    settled = seen.since if claimed else seen.since + settle_time_s(seen.look, settle_s)
    return max(settled, seen.not_before)


class Inbox:
    """Watches `folder`; rejected files go to `rejected`. Times in seconds.

    `owner` holds the folder's lock: while it cannot, nothing is taken; nor while `ready` says no (a full disk).
    `accept` is called for up to 64 files at once, the oldest first; when it raises, the file stays claimed and is tried
    again later. Logs `goal.rejected` and `inbox.*`, each once as long as its reason lasts.
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
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._folder = folder
        self._rejected = rejected
        self._settle_s = settle_s
        self._sweep_s = sweep_s
        self._owner = owner
        self._accept = accept
        self._ready = ready
        self._log = log
        self._seen: dict[str, Seen] = {}  # by the name that a file has now
        self._accepted: set[str] = set()  # claims that could not be removed yet
        self._told: set[tuple[str, str]] = set()
        self._trouble = ("", "")
        self._watched = False
        self._stopping = False
        self._round_lock = asyncio.Lock()
        self._wake = asyncio.Event()
        self._noticed = False
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

    # -- one round ---------------------------------------------------------------------------------

    async def _round(self) -> float:
        """Look once and take what is due; return when to look again, on the loop's clock."""
        async with self._round_lock:
            self._wake.clear()
            self._noticed = False
            found = await asyncio.to_thread(self._look_around)
            now = asyncio.get_running_loop().time()
            due, until = self._due(found, now)
            while due and not self._stopping:
                if not self._ready():
                    return min(until, now + WRITER_S)
                batch = first_batch(due)
                due = due[len(batch) :]
                until = min(until, await self._take(batch))
            return until

    def _look_around(self) -> list[Found]:
        """Return the files of the folder, which is made, locked and watched where it is another one; blocks."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._owner.take()
            self._keep_watch()
            found = files.look_around(self._folder)
            if self._watch.holds(self._folder):
                self._trouble = ("", "")
        except OSError as error:
            self._tell_trouble("inbox.unusable", error.strerror or str(error))
        except NotOwnerError as error:
            self._tell_trouble("inbox.unusable", str(error))
        else:
            return found
        return []

    def _keep_watch(self) -> None:
        """Watch the folder that is there now, which may be another one of the same name."""
        if self._watch.holds(self._folder):
            return
        if self._watched:
            self._watched = False
            self._log.warning("inbox.recreated", folder=str(self._folder))
        try:
            self._watch.renew(self._folder)
        except OSError as error:
            self._tell_trouble("inbox.unwatched", error.strerror or str(error))
        else:
            self._watched = True

    def _due(self, found: list[Found], now: float) -> tuple[list[Found], float]:
        """Return the files that are due, oldest first, and when the next of the others will be."""
        seen: dict[str, Seen] = {}
        due, until = [], math.inf
        for one in found:
            key = one.path.name
            if not one.look.regular:
                self._tell("inbox.ignored", one.name, error="neither a file nor a link to one")
                continue
            before = self._seen.get(key)
            seen[key] = before if before and before.look == one.look else Seen(one.look, now)
            at = due_at(seen[key], self._settle_s, claimed=one.is_claim)
            # A first look decides nothing, also where nothing is waited for.
            is_first = seen[key] is not before
            if at <= now and (one.is_claim or not is_first):
                due.append(one)
            else:
                until = min(until, at)
        self._seen = seen
        self._accepted.intersection_update(seen)
        names = {one.name for one in found}
        self._told = {told for told in self._told if told[1] in names}
        return sorted(due, key=lambda one: (one.look.content.mtime_ns, one.name)), until

    # -- taking files ------------------------------------------------------------------------------

    async def _take(self, batch: list[Found]) -> float:
        """Claim, read, have judged, and put away one batch; return when the first of them is to be retried."""
        tries = [self._seen.pop(one.path.name) for one in batch]
        fetched = await asyncio.to_thread(lambda: list(map(self._fetch, batch, tries)))
        judged = [self._judge(*one, seen) for one, seen in zip(fetched, tries, strict=True)]
        verdicts = await asyncio.gather(*judged)
        claims = [one for one, _ in fetched]
        ends = await asyncio.to_thread(lambda: list(map(self._put_away, claims, verdicts, tries)))
        now = asyncio.get_running_loop().time()
        again = [self._again(*one, now) for one in zip(claims, ends, tries, strict=True)]
        return min(again, default=math.inf)

    def _fetch(self, found: Found, seen: Seen) -> tuple[Found, Dropped | str | Wait | None]:
        """Claim and read a file; return where it is now, and what was read or what becomes of it; blocks."""
        try:
            found = files.claim(found)
            if found.path.name in self._accepted:
                return found, None
            return found, self._read(found)
        except (Changed, FileNotFoundError):
            return found, Wait(GATHER_S, forget=True)
        except BeingWritten:
            reason = "another program still has it open for writing"
            self._tell("inbox.waiting", found.name, "info", reason=reason)
            return found, Wait(WRITER_S)
        except OSError as error:
            return found, self._deferred(found, seen, f"cannot be taken: {error.strerror}")

    def _read(self, found: Found) -> Dropped | str:
        try:
            return files.read(found)
        except PermissionError as error:
            return (
                f"{found.name} cannot be read: {error.strerror}. Let the user that clew runs as read it (chmod), "
                "and submit it again."
            )

    async def _judge(
        self, found: Found, fetched: Dropped | str | Wait | None, seen: Seen
    ) -> str | Wait | None:
        """Return what `accept` decides about a file that was read, or what reading it decided."""
        if not isinstance(fetched, Dropped):
            return fetched
        if self._stopping:
            return Wait()
        try:
            async with asyncio.timeout(ACCEPT_DEADLINE_S):
                return await self._accept(fetched)
        except Exception as error:  # noqa: BLE001 - whatever it is, the file must stay and others go on
            return self._deferred(found, seen, f"{type(error).__name__}: {error}")

    def _put_away(self, found: Found, verdict: str | Wait | None, seen: Seen) -> Wait | None:
        """Do to a file what was decided; None when it is done with; blocks."""
        if isinstance(verdict, Wait):
            return verdict
        try:
            if verdict is None:
                self._accepted.add(found.path.name)
                files.remove(found)
            elif files.reject(found, self._rejected, verdict):
                self._log.warning("goal.rejected", name=found.name, error=_in_one_line(verdict))
        except OSError as error:
            what = "is a goal, but cannot be removed" if verdict is None else "cannot be rejected"
            return self._deferred(found, seen, f"{what}: {error.strerror}")
        self._accepted.discard(found.path.name)
        return None

    def _again(self, found: Found, wait: Wait | None, seen: Seen, now: float) -> float:
        """Return when to look at a file again, and remember it; inf for one that is done with."""
        if wait is None:
            return math.inf
        after_s = wait.after_s
        if after_s is None:
            after_s = backoff_s(seen.tries, RETRY_INITIAL_S, RETRY_MAX_S)
            seen = replace(seen, tries=seen.tries + 1)
        if not wait.forget:
            self._seen[found.path.name] = replace(seen, look=found.look, not_before=now + after_s)
        return now + after_s

    # -- what is logged ----------------------------------------------------------------------------

    def _deferred(self, found: Found, seen: Seen, error: str) -> Wait:
        if seen.tries == 0:
            self._log.warning("inbox.deferred", name=found.name, error=error)
        return Wait()

    def _tell(self, event: str, name: str, level: str = "warning", **values: str) -> None:
        if (event, name) not in self._told:
            self._told.add((event, name))
            getattr(self._log, level)(event, name=name, **values)

    def _tell_trouble(self, event: str, reason: str) -> None:
        if self._trouble != (event, reason):
            self._trouble = (event, reason)
            self._log.error(event, folder=str(self._folder), error=reason)


def first_batch(due: Sequence[Found]) -> list[Found]:
    """Return as many of the first as are read into memory together; at least one."""
    total = 0
    for count, one in enumerate(due[:BATCH_FILES]):
        total += min(one.look.content.size, files.MAX_BYTES)
        if count and total > BATCH_BYTES:
            return list(due[:count])
    return list(due[:BATCH_FILES])


def _in_one_line(text: str) -> str:
    """Return the first line; where that is only a heading, the faults below it."""
    first, _, rest = text.strip().partition("\n")
    return "; ".join(rest.splitlines())[:FAULTS_CHARS] if rest and first.endswith(":") else first
