"""What follows once a goal rests or has ended: its report, and the removal of what is no longer needed.

A settled goal is evicted: only its outline stays in memory. A goal that ended more than `keep_days` ago is removed from
the ledger with its folder. The user's own files (workspaces, reports in the outbox, rejected files) are never touched.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller
from pathlib import Path

import structlog

from clew_daemon.config.places import Places
from clew_daemon.host.tasks import RETRY_S, GoalQueue, within
from clew_daemon.parts import DaemonParts
from clew_daemon.processes import cell_rules
from clew_daemon.publish import report
from clew_daemon.record import pages
from clew_daemon.record.changed_files import changed_files
from clew_daemon.record.dependencies import KnownGoals
from clew_daemon.session.snapshots import from_store
from clew_shared.files import remove_tree
from clew_shared.ledger.errors import LedgerCorrupt
from clew_shared.record import events as ev
from clew_shared.record.state import State
from clew_shared.text.plain import plain

log = structlog.get_logger()

InUse = Callable[[str], bool]

DAY_S = 86_400.0
EVERY_S = 3_600.0
PAUSE_S = 0.05  # between two pieces of work, so that verdicts get the ledger in between
GAPS = 10  # A time of which the record has nothing counts as at most this part of `keep_days`


def kept_since(times: Iterable[float], now: float, keep_s: float, lived_s: float) -> float:
    """Return the moment before which what has ended is old: `keep_s` ago, as far as that time was seen to pass.

    Of a gap between two `times` on record only a part counts: the clock may have been set forward in it.
    """
    gap_s = keep_s / GAPS
    most_s = max(gap_s, lived_s)
    for at in sorted((at for at in times if at < now), reverse=True):
        seen_s = min(now - at, most_s)
        if seen_s >= keep_s:
            break
        keep_s, now, most_s = keep_s - seen_s, at, gap_s
    return now - keep_s


def expired(states: Iterable[State], oldest: float) -> list[str]:
    """Return the goals to remove: settled, ended before `oldest`, and not awaited by another goal."""
    known = KnownGoals({s.goal_id: s for s in states})
    names = {name for s in known.states.values() if not s.ended for name in s.spec.depends_on}
    awaited = {goal for name in names for goal in known.named(name)}
    old = (goal for goal, s in known.states.items() if s.settled and s.updated_at < oldest)
    return [goal for goal in old if goal not in awaited]


@dataclass(eq=False)
class Retention:
    """Evicts and expires goals, each periodically; `in_use` returns whether a goal has a worker."""

    _d: DaemonParts
    _in_use: InUse
    _began: float = field(default_factory=time.monotonic)

    async def evict(self) -> None:
        """Drop all but the outline of settled goals from memory."""
        for goal in filter(self._is_evictable, list(self._d.goals.cores)):
            await clear(self._d.places, goal)  # where an earlier daemon died before it did so
            if self._is_evictable(goal):  # it may have been retried meanwhile
                self._d.goals.evict(goal)

    def _is_evictable(self, goal: str) -> bool:
        goals = self._d.goals
        return not self._is_busy(goal) and goal in goals.cores and goals.may_evict(goal)

    def _is_busy(self, goal: str) -> bool:
        return self._in_use(goal) or self._d.publisher.keeps(goal)

    async def run(self) -> None:
        """Remove all that ended too long ago."""
        keep_s = self._d.settings.ledger.keep_days * DAY_S
        goals = self._d.goals
        times = {at for s in goals.states().values() for at in (s.accepted_at, s.updated_at)}
        oldest = kept_since(times, time.time(), keep_s, time.monotonic() - self._began)
        for goal in expired(goals.states().values(), oldest):
            # it may have been retried meanwhile, or a new goal may depend on it
            if not self._is_busy(goal) and goal in expired(goals.states().values(), oldest):
                await goals.purge(goal)
                log.info("goal.forgotten", goal=goal)
                await asyncio.sleep(PAUSE_S)
        # the folder of a goal that was not purged may be its last copy
        is_purged = goals.gone.__contains__
        await asyncio.to_thread(remove_folders, self._d.places.state / "goals", is_purged)


# -- folders of goals --------------------------------------------------------------------------------

GONE = ".gone"  # The suffix of folders that are being removed
_is_gone = methodcaller("endswith", GONE)


async def clear(places: Places, goal: str) -> None:
    """Remove a goal's TMPDIR and HOME when it has ended, and those of its CLI with copies of login files."""
    cli, view = (
        cell_rules.private(places, goal, cli=True)[0].parent,
        cell_rules.view_of(places, goal),
    )
    await remove(*cell_rules.private(places, goal), cli, view)


async def remove(*folders: Path) -> None:
    """Remove folders beside each other: at once by their names, so that new ones may be made, then in pieces."""
    for folder in folders:
        with suppress(OSError):
            folder.rename(folder.with_name(f".{folder.name}.{secrets.token_hex(4)}{GONE}"))
    await asyncio.to_thread(remove_folders, folders[0].parent, _is_gone)


def remove_folders(parent: Path, is_expired: Callable[[str], bool]) -> None:
    """Remove the folders in `parent` whose names are expired; what cannot be removed stays."""
    with suppress(OSError):
        for folder in filter(lambda folder: is_expired(folder.name), parent.iterdir()):
            with suppress(OSError):
                remove_tree(folder)


# -- stores of snapshots (docs/snapshots.md) ---------------------------------------------------------
#
# Those of the goals that ended first are removed first. That a store is removed is recorded before it is done: a record
# that lacks a store is never taken for damage, and a store that outlives its removal is removed later.

MB = 1024 * 1024
LOST = "they are not in this home: they were removed, or left behind when it was copied or restored"


@dataclass(eq=False)
class SnapshotStores:
    """Removes stores; `in_use` returns whether a goal has a worker or is held, `hold` keeps it from starting."""

    _d: DaemonParts
    _in_use: InUse
    _hold: Callable[[str], AbstractContextManager[None]]
    _removing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._d.space.make_room = self.make_room

    async def open(self) -> None:
        """Measure the stores, and record which are missing; before the first worker starts."""
        await asyncio.to_thread(self._d.space.measure)
        found = await asyncio.to_thread(self._d.space.folders)
        if found is None:
            return  # they may be whole: what cannot be read is not recorded as gone
        there = await asyncio.to_thread(lambda: {*filter(self._has_store, found)})
        for goal, state in self._d.goals.states().items():
            if state.snapshots.first and goal not in there:
                log.warning("snapshot.lost", goal=goal)
                await self._record(goal, LOST)

    async def run(self) -> None:
        """Remove what belongs to no goal any more."""
        async with self._removing:
            for goal in await asyncio.to_thread(self._d.space.folders) or ():
                if self._is_leftover(goal):
                    with self._hold(goal):
                        await self._remove(goal)
            await asyncio.to_thread(remove_folders, self._d.places.snapshots, _is_gone)

    async def make_room(self, goal: str) -> bool:
        """Remove stores of the goals that ended first, until this one may have half of the limit; return if any was."""
        removed, limit = False, self._d.settings.snapshots.max_mb
        async with self._removing:
            kept = filter(is_removable, self._d.goals.states().values())
            for other in [s.goal_id for s in sorted(kept, key=lambda state: state.ended_at)]:
                used = self._d.space.bytes
                if used.total() - used[goal] <= limit * MB // 2:
                    break
                core = self._d.goals.cores.get(other)
                gone = core is None or not is_removable(core.state)  # retried or purged meanwhile
                if other == goal or not used[other] or gone or self._in_use(other):
                    continue
                with self._hold(other):
                    log.info("snapshot.removed", goal=other, bytes=used[other])
                    why = f"they were removed to keep all goals' below {limit} MB"
                    await self._record(other, why)
                    await self._remove(other)
                removed = True
        return removed

    async def _record(self, goal: str, reason: str) -> None:
        event = ev.SnapshotsMissing(at=time.time(), reason=reason, removed=True)
        await self._d.goals.emit(await self._d.goals.whole(goal), event)

    async def _remove(self, goal: str) -> None:
        await remove(self._d.places.snapshots / goal)
        self._d.space.bytes.pop(goal, None)

    def _has_store(self, goal: str) -> bool:
        try:
            (self._d.places.snapshots / goal / "HEAD").stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            pass  # it cannot be read
        return True

    def _is_leftover(self, goal: str) -> bool:
        """Return whether a store belongs to a purged goal, or to one whose record says that it is removed."""
        core = self._d.goals.cores.get(goal)
        if core is None:
            return goal in self._d.goals.gone  # any other folder may be the last copy of something
        return core.state.settled and not core.state.snapshots.first and not self._in_use(goal)


def is_removable(state: State) -> bool:
    """Return whether a goal's snapshots may be removed: it has ended, and no undo is under way."""
    return state.settled and bool(state.snapshots.first) and not state.snapshots.undoing


WAIT_S = 30.0
FILES_S = 20.0  # How long a report waits for the files that the goal changed


class ReportWriter(GoalQueue):
    """Writes one report after the other, once a goal has `finished`; folders of a goal `in_use` are not cleared."""

    def __init__(
        self, daemon: DaemonParts, finished: Callable[[str, float], Awaitable[None]], in_use: InUse
    ) -> None:
        super().__init__(self._report, self._log_unwritten)
        self._d = daemon
        self._finished = finished
        self._in_use = in_use
        self._unwritten: set[str] = set()

    def _log_unwritten(self, goal: str, error: Exception) -> None:
        if isinstance(error, LedgerCorrupt):
            log.error("report.unwritable", goal=goal, error=str(error))
        elif goal not in self._unwritten:
            self._unwritten.add(goal)
            log.warning("report.unwritable", goal=goal, error=plain(error), again_s=RETRY_S)

    async def _report(self, goal: str) -> None:
        await self._finished(goal, WAIT_S)  # the report includes the worker's end
        await within(WAIT_S, self._d.publisher.settle(goal))  # a reported goal is published, too
        core = self._d.goals.cores.get(goal)
        if core is None or core.state.rested_seq <= core.state.reported_seq:
            return  # purged meanwhile, or an earlier report has all of it
        ledger, told = self._d.goals.ledger, (core.state.rested_seq, core.state.snapshots.undone)
        read, most = asyncio.to_thread, report.TRIED_MAX
        actions, _ = await read(pages.actions, ledger, goal, most, outputs=False)
        loops, _ = await read(pages.loops, ledger, goal, most)
        files = None
        if core.state.snapshots.first:
            changed = partial(changed_files, ledger, goal)
            files = await from_store(self._d, goal, FILES_S, changed, "report.without_files")
        text = report.render(core.state, actions, loops, files)
        await asyncio.to_thread(report.write, self._d.places.outbox, core.state, text)
        self._unwritten.discard(goal)
        if (core.state.rested_seq, core.state.snapshots.undone) != told:
            return  # it has come to rest again: that report is due, and `Reported` would cover it unwritten
        await self._d.goals.emit(core, ev.Reported(at=time.time()))
        if core.state.ended and not self._in_use(goal):
            await clear(self._d.places, goal)
