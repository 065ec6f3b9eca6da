"""The inbox: each completely written goal file becomes a goal once; it leaves when the goal is durable.

A file is claimed first, then accepted, then removed: a daemon killed in between finds its claim again, and `accept`
recognises it by its identity. All of `Inbox` but `accept` runs in a thread of its own, which may block.
"""

import asyncio
import logging
import math
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog
from structlog.typing import FilteringBoundLogger
from watchdog import events
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from clew_daemon.backoff import backoff_s
from clew_daemon.host.folders import located
from clew_daemon.host.tasks import ThreadsError
from clew_daemon.inbox import files
from clew_daemon.inbox.files import BeingWritten, Changed, Dropped, Found, InboxOwner
from clew_daemon.inbox.goalfile.keys import GoalFile, GoalFileError, GoalFileFault
from clew_daemon.inbox.goalfile.parse import goal_id, parse
from clew_daemon.ledger.lock import LockError
from clew_daemon.parts import DaemonParts
from clew_daemon.record import dependencies
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record.fold import fold
from clew_shared.record.spec import Spec
from clew_shared.text.plain import plain, recordable
from clew_shared.text.redact import has_hidden, redact

log = structlog.get_logger()

GATHER_S = 0.05  # A thousand files that arrive together are looked at together
WRITER_S = 1.0  # How often a file that is open for writing, or `ready`, is looked at again
TROUBLE_S = 2.0  # How often a folder that cannot be used, or watched, is looked at
RETRY_INITIAL_S, RETRY_MAX_S = 0.5, 60.0
ACCEPT_DEADLINE_S = 60.0
STOP_DEADLINE_S = 10.0
BATCH_FILES = 32  # Files that are read into memory and accepted together

_EVENTS: list[type[events.FileSystemEvent]] = [
    *(events.FileClosedEvent, events.FileCreatedEvent, events.FileMovedEvent),
    events.FileDeletedEvent,  # with a folder that is deleted goes its lock
]
# watchdog logs as an error that a watch which is being closed has nothing more to read.
logging.getLogger("watchdog.observers.inotify").setLevel(logging.CRITICAL)

# Returns why a drop can never be a goal; None once it is one, durably, also if it was recorded before.
Accept = Callable[[Dropped], Awaitable[str | None]]


class _Waker(events.FileSystemEventHandler):
    """Wakes the thread; what has changed is found by looking."""

    def __init__(self, wake: threading.Event) -> None:
        self._wake = wake

    def on_any_event(self, event: events.FileSystemEvent) -> None:  # noqa: ARG002
        self._wake.set()


@dataclass(eq=False, kw_only=True)
class Inbox:
    """Looks after `folder`; rejected files go to `rejected/` in it. Times in seconds.

    `owner` holds the folder's lock: while it cannot, nothing is taken; nor while `ready` says no (a full disk).
    `accept` is called on the event loop for several files at once, the oldest first; when it raises, the file stays
    claimed and is tried again later. Logs `goal.rejected` and `inbox.*`, each once as long as its reason lasts.
    """

    folder: Path
    settle_s: float
    sweep_s: float
    owner: InboxOwner
    accept: Accept
    logs: FilteringBoundLogger
    ready: Callable[[], bool] = lambda: True
    _waiting: dict[str, Found] = field(default_factory=dict)  # by the name that a file has now
    _told: set[str] = field(default_factory=set)  # names that are open for writing
    _trouble: str = ""
    _observer: BaseObserver | None = None
    _watched: tuple[int, int] | None = None  # the device and inode that are watched
    _wake: threading.Event = field(default_factory=threading.Event)
    _stopping: bool = False
    _asked: "list[Future[str | None]]" = field(default_factory=list)
    _thread: threading.Thread | None = None

    async def start(self) -> None:
        """Make the folder, finish what an earlier daemon began, and look after it from now on."""
        self._loop, self._observer = asyncio.get_running_loop(), Observer()
        thread = threading.Thread(target=self._run, name="inbox", daemon=True)
        try:
            self._observer.start()
            thread.start()
        except RuntimeError:
            raise ThreadsError from None
        self._thread = thread

    async def stop(self) -> None:
        """Take nothing more, and return when what is under way has ended."""
        self._stopping = True
        self._wake.set()
        if self._thread and self._observer:
            await asyncio.to_thread(self._thread.join, STOP_DEADLINE_S)
            for judged in self._asked:  # nothing is accepted once the folder has another owner
                judged.cancel()
            self._observer.stop()
            await asyncio.to_thread(self._observer.join, STOP_DEADLINE_S)

    def _run(self) -> None:
        while not self._stopping:
            try:
                until = self._sweep()
            except Exception:
                self.logs.exception("inbox.failed", folder=str(self.folder))
                until = math.inf
            # a sleep until then, the next sweep, or an event, whichever is first
            sweep_s = self.sweep_s if self._watched else min(self.sweep_s, TROUBLE_S)
            wait_s = min(until - time.monotonic(), sweep_s, threading.TIMEOUT_MAX)
            if self._wake.wait(max(0.0, wait_s)):
                time.sleep(0 if self._stopping else GATHER_S)
            elif time.monotonic() < until:  # a new folder may have the inode of the old one
                self._watched = None  # watch it again

    # -- one round ---------------------------------------------------------------------------------

    def _sweep(self) -> float:
        """Look once and take what is due; return when to look again, in monotonic seconds."""
        self._wake.clear()
        due, now = self._due(self._look_around()), time.monotonic()
        for at in range(0, len(due), BATCH_FILES):
            if self._stopping:
                break
            if not self.ready():
                return now + WRITER_S
            self._take(due[at : at + BATCH_FILES])
        return min((one.due_at(self.settle_s) for one in self._waiting.values()), default=math.inf)

    def _look_around(self) -> list[Found]:
        """Return the files of the folder, which is made and locked where it is another one."""
        reason, found = "", list[Found]()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.owner.take()
            self._watch()
            found = files.look_around(self.folder)
        except (OSError, LockError) as error:
            self._watched = None
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if reason and reason != self._trouble:
            self.logs.error("inbox.unusable", folder=str(self.folder), error=reason)
        self._trouble = reason
        return found

    def _watch(self) -> None:
        """Watch the folder that is there now; where that fails, it is looked at more often."""
        found, observer = self.folder.stat(), self._observer
        if observer is None or self._watched == (found.st_dev, found.st_ino):
            return
        self._watched = None
        observer.unschedule_all()
        with suppress(OSError, RuntimeError):  # no watch left, or no thread to be had
            observer.schedule(_Waker(self._wake), str(self.folder.resolve()), event_filter=_EVENTS)
            self._watched = found.st_dev, found.st_ino

    def _due(self, found: list[Found]) -> list[Found]:
        """Return the files that are due, oldest first; a first look decides nothing."""
        before, self._waiting, due, now = self._waiting, {}, [], time.monotonic()
        for one in found:
            seen = before.get(one.path.name)
            if seen and seen.look == one.look:
                self._waiting[one.path.name] = seen
                due += [seen] if seen.due_at(self.settle_s) <= now else []
            else:
                one.since = now
                self._waiting[one.path.name] = one
        self._told &= {one.name for one in found}
        return sorted(due, key=lambda one: (one.look.mtime_ns, one.name))

    # -- taking files ------------------------------------------------------------------------------

    def _take(self, batch: list[Found]) -> None:
        """Claim, read, have judged, and put away one batch, in order."""
        for one in batch:
            del self._waiting[one.path.name]
        read = [(one, drop) for one in batch if (drop := self._fetch(one)) is not None]
        if self._stopping:
            return
        ask = asyncio.run_coroutine_threadsafe
        self._asked = [ask(self._judge(drop), self._loop) for _, drop in read]
        for (one, _), judged in zip(read, self._asked, strict=True):
            self._conclude(one, judged)

    def _fetch(self, one: Found) -> Dropped | None:
        """Claim and read a file, None where that cannot be done now."""
        try:
            files.claim(one)
            return files.read(one)
        except (Changed, FileNotFoundError):
            pass  # it is looked at as a new one
        except BeingWritten:
            one.not_before = time.monotonic() + WRITER_S
            self._waiting[one.path.name] = one
            if one.name not in self._told:
                self._told.add(one.name)
                reason = "another program still has it open for writing"
                self.logs.info("inbox.waiting", name=one.name, reason=reason)
        except OSError as error:
            if isinstance(error, PermissionError) and one.token:
                how = "Let the user that clew runs as read it (chmod), and submit it again."
                self._put_away(one, f"{one.name} cannot be read: {error.strerror}. {how}")
            else:
                self._defer(one, f"cannot be taken: {error.strerror}")
        return None

    async def _judge(self, drop: Dropped) -> str | None:
        async with asyncio.timeout(ACCEPT_DEADLINE_S):
            return await self.accept(drop)

    def _conclude(self, one: Found, judged: "Future[str | None]") -> None:
        try:
            refusal = judged.result()
        except Exception as error:  # noqa: BLE001 - whatever it is, the file must stay and others go on
            self._defer(one, f"{type(error).__name__}: {error}")
        else:
            self._put_away(one, refusal)

    def _put_away(self, one: Found, refusal: str | None) -> None:
        """Remove a file that is a goal, and reject any other."""
        try:
            if not refusal:
                files.settle(self.folder / files.REJECTED, one.name)
                files.remove(one)
            elif files.reject(one, self.folder / files.REJECTED, refusal):
                error = files.in_one_line(refusal)
                self.logs.warning("goal.rejected", name=one.name, error=error)
        except OSError as error:
            what = "cannot be rejected" if refusal else "is a goal, but cannot be removed"
            self._defer(one, f"{what}: {error.strerror}")

    def _defer(self, one: Found, error: str) -> None:
        if one.tries == 0:
            self.logs.warning("inbox.deferred", name=one.name, error=error)
        one.not_before = time.monotonic() + backoff_s(one.tries, RETRY_INITIAL_S, RETRY_MAX_S)
        one.tries += 1
        self._waiting[one.path.name] = one


# -- from a dropped file to a goal: parsed, checked, and durably recorded, each drop exactly once

TOKEN_BYTES = 2
KEY_IN_FILE = (
    "this is the API key of one of the agents, and a goal file is kept on record as it came: take the key out, "
    "and pass what commands need through the environment (`[sandbox] env`)"
)

_TRANSLATED = {"agent", "depends_on", "not_before", "unknown_keys", "workspace"}
_AS_THEY_ARE = set(GoalFile.model_fields) & set(Spec.model_fields) - _TRANSLATED


async def accept(daemon: DaemonParts, dropped: Dropped) -> str | None:
    """Make a goal of a dropped file, once, and wait until that is durable; return why it cannot be one."""
    identity = tuple(recordable(str(part)) for part in dropped.identity)
    if await daemon.goals.accepted(identity):
        return None
    try:
        with daemon.goals.accepting.place() as turn:
            agents = daemon.settings.agents.names
            found = await asyncio.to_thread(understood, daemon, dropped.raw, dropped.name, agents)
            await turn()  # in the order of the drops: a later one may name an earlier one
            core = _entered(daemon, dropped, found, identity)
    except GoalFileError as error:
        return redact(str(error))
    if core is None:  # the same drop was taken by another call meanwhile
        await daemon.goals.accepted(identity)
    else:
        await daemon.goals.commit(core)
        await asyncio.to_thread(_write_copy, daemon, core.state.goal_id, dropped.raw)
    return None


def _entered(
    daemon: DaemonParts, dropped: Dropped, found: GoalFile, identity: tuple[str, ...]
) -> Core | None:
    """Enter a goal, to be committed; None where it was entered meanwhile. Raises GoalFileError."""
    if identity in daemon.goals.identities:
        return None
    goal, goals = "", daemon.goals
    while not goal or goal in goals.cores or goal in goals.gone or goal in goals.names:
        goal = goal_id(found.description, secrets.token_hex(TOKEN_BYTES), found.name)
    own, env = str(daemon.places.workspaces / goal), daemon.keys.env
    try:
        workspace = str(found.folder or located(own, daemon.places, env))
    except ValueError as error:
        fault = GoalFileFault(None, f"its workspace: {error}")
        raise GoalFileError(dropped.name, [fault]) from None
    spec = bound_spec(daemon, found, workspace, recordable(dropped.name))
    event = ev.GoalAccepted(
        at=time.time(), goal_id=goal, spec=spec, tasks=found.tasks, identity=identity
    )
    if faults := misplaced(daemon, found, event):
        raise GoalFileError(dropped.name, faults)
    goals.ledger.look()  # what is accepted leaves the inbox: not for a ledger that is gone
    return goals.enter(event, dropped.raw)


def understood(daemon: DaemonParts, raw: bytes, name: str, agents: Collection[str]) -> GoalFile:
    """Parse a goal file, and resolve the workspace that it names. Raises GoalFileError."""
    place = partial(located, places=daemon.places, env=daemon.keys.env)
    found = parse(raw, name, agents, located=place)
    for line, text in enumerate(raw.decode("utf-8", "replace").splitlines(), start=1):
        if has_hidden(text):  # the ledger keeps the file as it is
            raise GoalFileError(name, [GoalFileFault(line, KEY_IN_FILE)])
    return found


def misplaced(daemon: DaemonParts, found: GoalFile, event: ev.GoalAccepted) -> list[GoalFileFault]:
    """Return why the goal cannot be taken beside the others: its name is in use, or it would wait for itself."""
    goals, faults, name = daemon.goals, [], found.name
    in_use = name and (name in goals.names or name in goals.cores)
    if in_use and (other := dependencies.holder(name, goals.states(), event.goal_id)):
        why = f"in use by {other}, which has not ended: choose another name, or end that goal (`clew cancel {other}`)"
        if name == other:
            why = "the id of another goal: choose another name"
        faults.append(GoalFileFault(found.lines.get("name"), f"`name` {name} is {why}"))
    if event.spec.depends_on:
        known = dependencies.KnownGoals(goals.states(), goals.gone)
        if way := dependencies.cycle(fold([(0, event)]), known):
            cycle = " → ".join(way)
            fault = f"`depends_on` makes a cycle: {cycle}; remove one of these dependencies"
            faults.append(GoalFileFault(found.lines.get("depends_on"), fault))
    return faults


def _write_copy(daemon: DaemonParts, goal: str, raw: bytes) -> None:
    """Write the file as it came to where a person finds it; the copy in the ledger is the one that counts."""
    folder = daemon.places.state / "goals" / goal
    try:
        for one in (folder.parent, folder):  # a state folder that is gone is not made again
            one.mkdir(exist_ok=True)
        (folder / "goal.md").write_bytes(raw)
    except OSError as error:
        log.warning("goal.copy_unwritable", goal=goal, error=plain(error))


def bound_spec(daemon: DaemonParts, found: GoalFile, workspace: str, file_name: str) -> Spec:
    """Return what a goal file asks for, as the ledger keeps it; without an agent, blocks decide for the runbook."""
    agent = "runbook"
    if found.agent or not found.runnable_without_llm:
        agent = daemon.settings.agents.resolve(found.agent)
    known = dependencies.KnownGoals(daemon.goals.states(), daemon.goals.gone)
    return Spec(
        **found.model_dump(include=_AS_THEY_ARE),
        workspace=workspace,
        agent=agent,
        budget_tokens=found.budget.tokens,
        budget_wall_s=found.budget.wall_s,
        not_before=found.not_before.timestamp() if found.not_before else None,
        depends_on=dependencies.bound(found.depends_on, known) if found.depends_on else (),
        timeout_s=found.timeout,
        unknown_keys=tuple(
            f"{key} (did you mean {meant}?)" if meant else key
            for key, meant in found.unknown_keys.items()
        ),
        file_name=file_name,
    )
