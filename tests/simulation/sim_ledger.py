"""A ledger in memory that keeps the promises of the real one, and breaks where a disk may break.

One call of `append` is one transaction. What waits is committed together, a while later; who waits hears of it
after that. A death in between loses what was not committed; a failed commit may or may not have reached the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew_daemon.ledger import lock
from clew_shared.ledger.errors import LedgerFailed, LedgerState, NewEvent
from clew_shared.ledger.reader import EventRow

if TYPE_CHECKING:
    from sim_world import World

PATH = Path("simulated/ledger.db")


@dataclass
class Disk:
    """What is durable: it outlives every daemon."""

    rows: dict[str, list[EventRow]] = field(default_factory=dict)
    outputs: dict[int, bytes] = field(default_factory=dict)
    snapshots: dict[str, tuple[int, int, bytes]] = field(default_factory=dict)
    last: int = 0


@dataclass
class Job:
    """What becomes durable together."""

    done: asyncio.Future[None]
    rows: list[EventRow] = field(default_factory=list)
    outputs: dict[int, bytes] = field(default_factory=dict)
    snapshot: tuple[str, tuple[int, int, bytes]] | None = None


class SimLedger:
    """One daemon's handle on the disk; after `die` it reaches nothing any more.

    Its lock is a real one, taken by the daemon's own code. `role` is None for one that only reads.
    """

    def __init__(
        self,
        world: World,
        loop: asyncio.AbstractEventLoop,
        on_state: Any,
        role: str | None = lock.DAEMON,
    ) -> None:
        self._lock = lock.acquire(world.folder / "ledger.db.lock", role=role) if role else None
        if role:
            world.watch.opens(self, role)
        self._world, self._loop, self._on_state = world, loop, on_state
        self._disk = world.disk
        self._next = self._disk.last
        self._jobs: list[Job] = []
        self._batch: list[Job] = []
        self._told: list[Job] = []
        self._error: LedgerFailed | None = None
        self.state = LedgerState.OK

    def append(self, entries: Sequence[NewEvent], told: Any = None) -> tuple[list[int], Any]:
        if self._error:
            raise self._error
        job = Job(self._loop.create_future())
        job.done.add_done_callback(lambda f: told(f.exception()) if told else None)
        for entry in entries:
            self._next += 1
            job.rows.append(EventRow(self._next, entry.goal, 0, entry.kind, entry.body, b""))
            if entry.output is not None:
                job.outputs[self._next] = entry.output
        self._put(job)
        self._world.watch.queued(job.rows)
        return [row.seq for row in job.rows], job.done

    async def snapshot(self, goal: str, seq: int, version: int, state: bytes) -> None:
        if self._error:
            raise self._error
        job = Job(self._loop.create_future(), snapshot=(goal, (seq, version, state)))
        self._put(job)
        await job.done

    @property
    def has_room(self) -> bool:
        return self.state is not LedgerState.FULL

    @property
    def failure(self) -> LedgerFailed | None:
        return self._error

    def look(self) -> None:
        """Its files are where they were: no life moves them."""
        if self._error:
            raise self._error

    @property
    def idle(self) -> bool:
        """Nothing waits to become durable."""
        return not (self._jobs or self._batch or self._told)

    def _put(self, job: Job) -> None:
        self._jobs.append(job)
        if not self._batch and not self._told:
            self._begin()

    def _begin(self) -> None:
        self._batch, self._jobs = self._jobs, []
        self._loop.call_later(self._world.commit_s(), self._commit)

    def _commit(self) -> None:
        if self._error:
            return
        match self._world.disk_fate():
            case "full":
                self.state = LedgerState.FULL
                self._on_state(self.state)
                self._loop.call_later(self._world.rng.uniform(1.0, 30.0), self._commit)
            case "lost":
                self._loop.call_soon(self._fail)
            case "kept":  # the fsync failed, and yet all of it is there
                self._write()
                self._loop.call_soon(self._fail)
            case _:
                self._write()
                self._loop.call_soon(self._deliver)

    def _write(self) -> None:
        disk = self._disk
        for job in self._batch:
            for row in job.rows:
                disk.rows.setdefault(row.goal, []).append(row)
                disk.last = row.seq
            disk.outputs |= job.outputs
            if job.snapshot:
                goal, kept = job.snapshot
                disk.snapshots[goal] = kept
            self._world.watch.durable(job.rows)
        self._told, self._batch = self._batch, []

    def _deliver(self) -> None:
        if self._error:
            return
        if self.state is not LedgerState.OK:
            self.state = LedgerState.OK
            self._on_state(self.state)
        told, self._told = self._told, []
        for job in told:
            if not job.done.done():
                job.done.set_result(None)
        if self._jobs:
            self._begin()

    def _fail(self) -> None:
        if self._error:
            return
        self._world.trace("disk", "a commit failed: the daemon stops")
        self._error = LedgerFailed(PATH, "cannot be written", "repair the disk")
        self.state = LedgerState.FAILED
        for job in self._told + self._batch + self._jobs:
            if not job.done.done():
                job.done.set_exception(self._error)
                job.done.exception()
        self._batch, self._jobs = [], []
        self._on_state(self.state)

    def die(self) -> None:
        """SIGKILL: what is being committed is there as a whole or not at all, the rest is not."""
        if self._error is None:
            if self._batch and self._world.rng.random() < 0.5:
                self._write()
            self._error = LedgerFailed(PATH, "closed", "open it again")
        if self._lock:
            self._lock.release()
        self._world.watch.closes(self)

    # -- reading -------------------------------------------------------------------------------------

    def goals(self) -> list[str]:
        return sorted(goal for goal in self._disk.rows if goal)

    def read(self, goal: str, after: int = 0, limit: int | None = None) -> Iterator[EventRow]:
        rows = self._disk.rows.get(goal, [])
        found = [row for row in rows if row.seq > after] if after else list(rows)
        return iter(found if limit is None else found[:limit])

    def last_snapshots(self, version: int) -> dict[str, bytes]:
        kept = self._disk.snapshots.items()
        return {
            goal: state
            for goal, (seq, made, state) in kept
            if made == version and self._disk.rows[goal][-1].seq == seq
        }

    def purged(self) -> list[str]:
        return []

    def own(self, kind: str, limit: int = 1 << 60) -> list[bytes]:
        found = [row.body for row in self.read("") if row.kind == kind]
        return found[::-1][:limit]

    def latest_snapshot(self, goal: str, version: int) -> tuple[int, bytes] | None:
        found = self._disk.snapshots.get(goal)
        return (found[0], found[2]) if found and found[1] == version else None

    def output(self, seq: int) -> bytes | None:
        return self._disk.outputs.get(seq)

    @property
    def assigned(self) -> int:
        return self._next
