"""A life of the real ledger on a disk whose power can be cut, and what must be left of it afterwards.

Chance, by a seed, draws what is appended, purged and kept. What is handed to the writer together is
told to it together, so that a seed gives the same transactions each time. The log of the disk also
holds, at their true place, what was acknowledged.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from queue import Empty
from random import Random

from power_vfs import Disk, Op, PowerDisk

from clew_daemon.ledger.ledger import Ledger
from clew_shared.ledger import opening, schema
from clew_shared.ledger.chain import whole
from clew_shared.ledger.errors import NewEvent

GOALS = "abcd"
WAL_PAGES_MAX = 12
DUMP = (
    "SELECT seq, goal, kind, body FROM events ORDER BY seq",
    "SELECT seq, data, digest FROM outputs JOIN events USING (seq) ORDER BY seq",
    "SELECT goal, seq, substr(state, 34) FROM snapshots ORDER BY goal",
)


class Together:
    """The queue of the writing thread; it hands out only released jobs, all of them at once."""

    def __init__(self) -> None:
        self._held: list = []
        self._open: list = []
        self._some = threading.Condition()

    def put(self, job) -> None:
        if job is None:  # the ledger is closed
            self.let_go(job)
        else:
            self._held.append(job)

    def let_go(self, *more) -> None:
        with self._some:
            self._open += [*self._held, *more]
            self._held.clear()
            self._some.notify()

    def get(self, timeout: float | None = None):
        with self._some:
            if not self._some.wait_for(lambda: self._open, 60):
                raise Empty
            return self._open.pop(0)

    def get_nowait(self):
        with self._some:
            if not self._open:
                raise Empty
            return self._open.pop(0)


class Model:
    """What a ledger must hold, by a few lines of its own."""

    def __init__(self) -> None:
        self.seq = 0
        self.events: list[tuple[int, str, str, bytes]] = []
        self.outputs: list[tuple[int, bytes]] = []
        self.snapshots: dict[str, tuple[int, bytes]] = {}

    def after(self, job: Job) -> Model:
        """Give what it holds when one more job has been done."""
        model = Model()
        model.seq, model.events, model.outputs = self.seq, [*self.events], [*self.outputs]
        model.snapshots = {**self.snapshots}
        match job:
            case list() as entries:
                model._append(entries)
            case (goal, state):
                model.snapshots[goal] = (self.seq, state)
            case str() as goal:
                model._purge(goal)
        return model

    def _append(self, entries: list[NewEvent]) -> None:
        for entry in entries:
            self.seq += 1
            self.events.append((self.seq, entry.goal, entry.kind, entry.body))
            if entry.output is not None:
                self.outputs.append((self.seq, entry.output))

    def _purge(self, goal: str) -> None:
        gone = {event[0] for event in self.events if event[1] == goal}
        self.events = [event for event in self.events if event[0] not in gone]
        self.outputs = [output for output in self.outputs if output[0] not in gone]
        self.snapshots.pop(goal, None)

    def digest(self) -> str:
        snapshots = [(goal, *kept) for goal, kept in sorted(self.snapshots.items())]
        return digest_of(self.events, self.outputs, snapshots, [(self.seq,)])


def digest_of(*tables) -> str:
    hashed = sha256()
    for table in tables:
        for row in table:
            for value in row:
                part = value if isinstance(value, bytes) else str(value).encode()
                hashed.update(b"%d:" % len(part) + part)
        hashed.update(b";")
    return hashed.hexdigest()


Job = list[NewEvent] | tuple[str, bytes] | str
"""Entries to append together, a goal's snapshot, or a goal to purge."""


@dataclass
class Life:
    """What the disk was and did, and what the ledger held after 0, 1, 2, … of the jobs."""

    before: Disk
    models: list[Model]
    log: list[Op] = field(default_factory=list)

    def images(self, *, deaf: bool = False) -> Iterator[tuple[int, int, Disk]]:
        """Give each moment: its number, the jobs that were acknowledged by then, the disk."""
        disk, acknowledged = deepcopy(self.before), 0
        disk.deaf = deaf
        yield 0, 0, disk
        for number, op in enumerate(self.log, start=1):
            if op.kind == "word":
                acknowledged = op.word
            else:
                disk.do(op)
            yield number, acknowledged, disk

    def digests(self) -> dict[str, int]:
        """Give by digest how many jobs had been done at the most."""
        return {model.digest(): done for done, model in enumerate(self.models)}


def draw(dice: Random) -> Job:
    goal = dice.choice(GOALS)
    match dice.choices(("append", "snapshot", "purge"), (8, 1, 1))[0]:
        case "snapshot":
            return goal, dice.randbytes(dice.choice((50, 2_000, 9_000)))
        case "purge":
            return goal
    return [
        NewEvent(
            dice.choice((goal, "", dice.choice(GOALS))),
            "noted",
            dice.randbytes(dice.choice((20, 300, 3_000))),
            dice.randbytes(dice.choice((2, 1_000, 3_000))) * 4 if dice.random() < 0.2 else None,
        )
        for _ in range(dice.choice((1, 1, 2, 4)))
    ]


async def live(path: Path, dice: Random, jobs: int, model: Model, *, synchronous="full") -> Life:
    """Live on the folder of `path`, whose ledger holds what `model` says, and close in the end."""
    disk = PowerDisk()
    life = Life(_before(path), [model], disk.log)
    try:
        ledger = Ledger.open(path, vfs=disk.vfs_name)
        ledger._con.pragma("synchronous", synchronous)
        ledger._checkpoints._pages_max = WAL_PAGES_MAX
        queue = ledger._jobs = Together()
        _note_acknowledgements(ledger, disk.log)
        while jobs > 0:
            waiting = []
            for _ in range(min(dice.choice((1, 1, 2, 5)), jobs)):
                job = draw(dice)
                life.models.append(life.models[-1].after(job))
                waiting.append(asyncio.ensure_future(_ask(ledger, job)))
                await asyncio.sleep(0)
            jobs -= len(waiting)
            queue.let_go()
            await asyncio.gather(*waiting)
        await ledger.close(60)
    finally:
        disk.unregister()
    return life


def _before(path: Path) -> Disk:
    if not path.exists():
        opening._make_private(path)  # not through SQLite: an empty file, durable with its name
    return Disk.of(path.parent)


async def _ask(ledger: Ledger, job: Job) -> None:
    match job:
        case list() as entries:
            await ledger.append(entries)[1]
        case (goal, state):
            await ledger.snapshot(goal, ledger._tips.seq, 1, state)
        case str() as goal:
            await ledger.purge(goal)


def _note_acknowledgements(ledger: Ledger, log: list[Op]) -> None:
    """Note in the log each point at which the writing thread has reported a number of jobs as durable."""
    call, done = ledger._tell, 0

    def told(function, *args) -> None:
        nonlocal done
        if function == ledger._deliver:
            done += len(args[0])
            log.append(Op("word", word=done))
        call(function, *args)

    ledger._tell = told


def held(path: Path) -> str:
    """Start on an image as the daemon does, and give the digest of what is there."""
    con = opening.open_writing(path)
    try:
        events, outputs, snapshots = (con.execute(sql) for sql in DUMP)
        seqs = [seq for _, seq, *_ in con.execute(schema.TIPS)]
        last = max(seqs, default=0)  # also of what was purged: the next life counts on from there
        whole_outputs = ((seq, whole(*kept)) for seq, *kept in outputs)
        return digest_of(events, whole_outputs, snapshots, [(last,)])
    finally:
        con.close()
