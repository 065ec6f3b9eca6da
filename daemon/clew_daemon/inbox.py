"""The inbox: hands over each completely written goal file once; it leaves when that is durable.

What becomes of a file is decided by `accept`, which the daemon supplies; what a goal is, how it is
parsed and where it is kept is not known here. A file is accepted first and removed after, so a
daemon killed in between finds it again, and `accept` recognises it by its identity (`Already`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from clew_daemon import inbox_files
from clew_daemon.inbox_files import Changed, Dropped
from clew_daemon.inbox_settle import Ignore, Look, Seen, Take, Wait, decide
from clew_daemon.inbox_watch import FolderWatch

if TYPE_CHECKING:
    from pathlib import Path

    from structlog.typing import FilteringBoundLogger

__all__ = ["Accept", "Accepted", "Already", "Dropped", "Inbox", "Later", "Rejected", "Verdict"]

BATCH_FILES = 64
BATCH_BYTES = 8 * 1024 * 1024
FAULTS_CHARS = 500
ACCEPT_DEADLINE_S = 60.0
STOP_DEADLINE_S = 10.0
RETRY_INITIAL_S = 0.5
RETRY_MAX_S = 60.0
UNWATCHED_SWEEP_S = 2.0
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
class _Due:
    name: str
    look: Look


class Inbox:
    """Watches `folder`; rejected files go to `rejected`. Times in seconds.

    `accept` is called for up to 64 files at once, the oldest first; when it raises, the file stays
    and is tried again later. Logs `goal.rejected` and `inbox.*`; `goal.accepted` is the daemon's.
    """

    def __init__(
        self,
        folder: Path,
        rejected: Path,
        *,
        settle_s: float,
        sweep_s: float,
        accept: Accept,
        log: FilteringBoundLogger,
    ) -> None:
        self._folder = folder
        self._rejected = rejected
        self._settle_s = settle_s
        self._sweep_s = sweep_s
        self._accept = accept
        self._log = log
        self._seen: dict[str, Seen] = {}
        self._ignored: set[str] = set()
        self._kept: dict[str, Look] = {}  # recorded, but not to be removed yet
        self._trouble = ""  # what is wrong with the folder itself, so that it is logged once
        self._watched = False
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
        sweep_s = self._sweep_s if self._trouble == "" else min(self._sweep_s, UNWATCHED_SWEEP_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(until - now, sweep_s))):
                await self._wake.wait()
                await asyncio.sleep(GATHER_S)

    async def _round(self) -> float:
        """Look once and take what is due; when to look again, on the loop's clock."""
        async with self._round_lock:
            self._wake.clear()
            self._noticed = False
            looks = await asyncio.to_thread(self._look_around)
            due, until = self._settled(looks, asyncio.get_running_loop().time())
            while due and not self._stopping:
                batch = _batch(due)
                due = due[len(batch) :]
                until = min(until, await self._take(batch))
            return until

    def _settled(self, looks: dict[str, Look | None], now: float) -> tuple[list[_Due], float]:
        """Tell what is due, oldest first, and when the next of the others will be."""
        due: list[_Due] = []
        until = math.inf
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
                    due.append(_Due(name, look))
                case Wait(at):
                    until = min(until, at)
                case _:
                    assert_never(decision)
        self._seen = seen
        self._ignored &= looks.keys()
        due.sort(key=lambda one: (one.look.content.mtime_ns, one.name))
        return due, until

    async def _take(self, batch: list[_Due]) -> float:
        """Read, have judged, and put away one batch; when the first of them is to be retried."""
        drops = await asyncio.to_thread(lambda: [self._read(one) for one in batch])
        verdicts = await asyncio.gather(*map(self._judge, batch, drops))
        left = await asyncio.to_thread(
            lambda: [self._put_away(*pair) for pair in zip(batch, verdicts, strict=True)]
        )
        return min(map(self._reschedule, batch, left), default=math.inf)

    def _read(self, one: _Due) -> Dropped | Verdict | None:
        """Read the file; or tell what to do where that fails; None if it has changed."""
        if self._kept.get(one.name) == one.look:
            return Already()
        try:
            return inbox_files.read(self._folder / one.name, one.look)
        except (Changed, FileNotFoundError):
            return None
        except PermissionError as error:
            return Rejected(f"{one.name} cannot be read: {error.strerror}. Give the user that clew "
                            "runs as the right to read it, and drop it again.")  # fmt: skip
        except OSError as error:
            self._say_deferred(one, f"cannot be read: {error.strerror}")
            return Later()

    async def _judge(self, one: _Due, drop: Dropped | Verdict | None) -> Verdict | None:
        if not isinstance(drop, Dropped):
            return drop
        try:
            async with asyncio.timeout(ACCEPT_DEADLINE_S):
                return await self._accept(drop)
        except Exception as error:  # noqa: BLE001 - whatever it is, the file must stay and others go on
            self._say_deferred(one, f"{type(error).__name__}: {error}")
            return Later()

    def _put_away(self, one: _Due, verdict: Verdict | None) -> Later | None:
        """Do to the file what was decided; Later when it is still to be done."""
        path = self._folder / one.name
        try:
            match verdict:
                case Accepted() | Already():
                    self._kept[one.name] = one.look
                    inbox_files.remove(path, one.look)
                    del self._kept[one.name]
                case Rejected(error):
                    if inbox_files.reject(path, one.look, self._rejected, error):
                        self._log.warning("goal.rejected", name=one.name, error=_in_one_line(error))
                case Later():
                    return verdict
                case None:
                    return Later(0.0)
                case _:
                    assert_never(verdict)
        except OSError as error:
            self._say_deferred(one, f"cannot be moved: {error.strerror}")
            return Later()
        return None

    def _reschedule(self, one: _Due, left: Later | None) -> float:
        """When to try a file again, on the loop's clock; forget one that is dealt with."""
        seen = self._seen.pop(one.name, None)
        if left is None or seen is None:
            return math.inf
        after_s = left.after_s
        if after_s is None:
            after_s = min(RETRY_INITIAL_S * 2 ** min(seen.tries, 20), RETRY_MAX_S)
        at = asyncio.get_running_loop().time() + after_s
        self._seen[one.name] = replace(seen, not_before=at, tries=seen.tries + 1)
        return at

    # The folder, in a thread

    def _look_around(self) -> dict[str, Look | None]:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._keep_watch()
            for name in inbox_files.restore(self._folder):
                self._log.warning("inbox.restored", name=name)
            looks = inbox_files.look_around(self._folder)
            if self._watch.holds(self._folder):
                self._trouble = ""
        except OSError as error:
            self._say_trouble("inbox.unusable", error)
            return {}
        return looks

    def _keep_watch(self) -> None:
        """See that the folder is there and watched; another one of its name is watched anew."""
        if self._watch.holds(self._folder):
            return
        if self._watched:
            self._watched = False
            self._log.warning("inbox.recreated", folder=str(self._folder))
        try:
            self._watch.renew(self._folder)
        except OSError as error:
            self._say_trouble("inbox.unwatched", error)
        else:
            self._watched = True

    # Said once

    def _say_trouble(self, event: str, error: OSError) -> None:
        if self._trouble != event:
            self._trouble = event
            self._log.error(event, folder=str(self._folder), error=error.strerror)

    def _say_ignored(self, name: str) -> None:
        if name not in self._ignored:
            self._ignored.add(name)
            self._log.warning("inbox.ignored", name=name, error="neither a file nor a link to one")

    def _say_deferred(self, one: _Due, error: str) -> None:
        seen = self._seen.get(one.name)
        if seen is not None and seen.tries == 0:
            self._log.warning("inbox.deferred", name=one.name, error=error)


def _batch(due: list[_Due]) -> list[_Due]:
    """As many of the first as are read into memory together; one at least."""
    total = 0
    for count, one in enumerate(due[:BATCH_FILES]):
        total += min(one.look.content.size, inbox_files.MAX_BYTES)
        if count and total > BATCH_BYTES:
            return due[:count]
    return due[:BATCH_FILES]


def _in_one_line(text: str) -> str:
    """Give the first line; where that is only a heading, the faults below it."""
    first, _, rest = text.strip().partition("\n")
    return "; ".join(rest.splitlines())[:FAULTS_CHARS] if rest and first.endswith(":") else first
