"""The inbox: hands each completely written goal file to `accept` once; the file leaves when the goal is durable.

What becomes of a file is decided by `accept`, which the daemon supplies; how a goal is parsed and stored is not known
here.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING

from clew_daemon.inbox import files
from clew_daemon.inbox.folder_watch import FolderWatch
from clew_daemon.inbox.notices import Notices
from clew_daemon.inbox.owner import NotOwnerError
from clew_daemon.inbox.taking import GATHER_S, Taking
from clew_daemon.inbox.verdicts import Accept, Later
from clew_daemon.inbox.waiting import WaitingFiles, first_batch

if TYPE_CHECKING:
    from pathlib import Path

    from structlog.typing import FilteringBoundLogger

    from clew_daemon.inbox.files import Claim
    from clew_daemon.inbox.owner import InboxOwner
    from clew_daemon.inbox.settle import Look
    from clew_daemon.inbox.taking import DueFile

STOP_DEADLINE_S = 10.0
UNWATCHED_SWEEP_S = 2.0


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
        self._sweep_s = sweep_s
        self._owner = owner
        self._log = log
        self._notices = Notices(folder, log)
        self._waiting = WaitingFiles(settle_s, self._notices)
        self._taking = Taking(folder, rejected, accept, self._notices)
        self._watched = False
        self._full_until = 0.0  # nothing could be decided: on the loop's clock
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
        self._taking.stopping = False
        self._task = asyncio.create_task(self._run(), name="inbox")

    async def stop(self) -> None:
        """Take nothing more, and return when what is under way has ended."""
        self._taking.stopping = True
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
        while not self._taking.stopping:
            try:
                until = await self._round()
            except Exception:  # noqa: BLE001 - an inbox that has silently died is worse than any fault
                self._log.exception("inbox.failed", folder=str(self._folder))
                until = math.inf
            await self._pause(until)

    async def _pause(self, until: float) -> None:
        """Sleep until then, the next sweep, or an event, whichever is first."""
        now = asyncio.get_running_loop().time()
        in_trouble = self._notices.in_trouble
        sweep_s = min(self._sweep_s, UNWATCHED_SWEEP_S) if in_trouble else self._sweep_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(until - now, sweep_s))):
                await self._wake.wait()
                await asyncio.sleep(GATHER_S)

    async def _round(self) -> float:
        """Look once and take what is due; return when to look again, on the loop's clock."""
        async with self._round_lock:
            self._wake.clear()
            self._noticed = False
            looks, claims = await asyncio.to_thread(self._look_around)
            now = asyncio.get_running_loop().time()
            due, until = self._waiting.due(looks, claims, now)
            self._taking.retain([one.hidden.name for one in claims])
            if due and now < self._full_until:
                return min(until, self._full_until)
            while due and not self._taking.stopping:
                batch = first_batch(due)
                due = due[len(batch) :]
                at, decided = await self._take(batch)
                until = min(until, at)
                if not decided:  # the disk is full: the others would only be renamed to and fro
                    self._full_until = at
                    break
            return until

    async def _take(self, batch: list[DueFile]) -> tuple[float, bool]:
        """Claim, read, have judged, and put away one batch.

        Returns when the first of them is to be retried, and whether anything could be decided now.
        """
        taking = self._taking
        claimed = await asyncio.to_thread(lambda: list(map(taking.claim, batch)))
        verdicts = await asyncio.gather(*map(taking.judge, batch, claimed))
        retries = await asyncio.to_thread(
            lambda: list(map(taking.put_away, batch, claimed, verdicts))
        )
        decided = not all(isinstance(one, Later) and one.after_s for one in verdicts)
        now = asyncio.get_running_loop().time()
        at = [self._waiting.reschedule(*one, now) for one in zip(batch, retries, strict=True)]
        return min(at, default=math.inf), decided

    def _look_around(self) -> tuple[dict[str, Look | None], list[Claim]]:
        """Return how the folder looks, and its claims; blocks."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._owner.take()
            self._keep_watch()
            for name in files.restore(self._folder):
                self._log.warning("inbox.restored", name=name)
            looks, claims = files.look_around(self._folder), files.claims(self._folder)
            if self._watch.holds(self._folder):
                self._notices.no_trouble()
        except OSError as error:
            self._notices.trouble("inbox.unusable", error.strerror or str(error))
            return {}, []
        except NotOwnerError as error:
            self._notices.trouble("inbox.unusable", str(error))
            return {}, []
        return looks, claims

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
            self._notices.trouble("inbox.unwatched", error.strerror or str(error))
        else:
            self._watched = True
