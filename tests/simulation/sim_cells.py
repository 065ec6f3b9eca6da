"""Simulated processes: an agent, an executor, the line between them and the daemon, and the files they act on.

The daemon's `Cell`, `Session` and `Channel` keep their shapes; only what is below them is played.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sim_snapshots

from clew_daemon.processes.executor import ExecutorDied
from clew_daemon.processes.nursery import Cell, SpawnError
from clew_shared.judge.reading import hashed
from clew_shared.proof.label import Seen
from clew_shared.record.snapshot_events import SnapshotTaken
from clew_shared.record.touched import Touched
from clew_shared.wire import protocol
from clew_shared.wire.executor import (
    ActionDone,
    CheckRequest,
    DigestDone,
    DigestRequest,
    LookDone,
    LookRequest,
    RestoreDone,
    RestoreRequest,
    RunRequest,
    SnapshotDone,
    SnapshotRequest,
    ViewRequest,
    WorldDigest,
)

if TYPE_CHECKING:
    from sim_world import World

KILLED = 137


@dataclass
class Files:
    """A folder, known by its number whatever its path: names and contents."""

    number: int = 0
    contents: dict[str, str] = field(default_factory=dict)
    polls: int = 0
    by: dict[str, str] = field(default_factory=dict)
    """Which goal, or "" for someone else, has changed a file last."""
    made: dict[str, str] = field(default_factory=dict)
    """What a goal has last written to a file."""
    is_cut: bool = False  # the last look was cut short: it is not known what is there

    def digest(self) -> str:
        return hashlib.sha256(repr(sorted(self.contents.items())).encode()).hexdigest()[:32]

    def credit(self, goal: str, own: dict[str, str]) -> None:
        """Take what a goal is credited with for its own: before a `record`, someone else may have changed it."""
        self.by |= dict.fromkeys(own, goal)
        self.made |= own

    def perform(
        self, tool: str, args: dict[str, Any], luck: float, goal: str
    ) -> tuple[str, str, int | None]:
        """Carry out an action; gives result, output and exit code. The same in the same world, but for luck."""
        before = dict(self.contents)
        done = self._perform(tool, args, luck)
        changed = {n for n in self.contents if self.contents[n] != before.get(n)}
        self.by |= dict.fromkeys(changed, goal)
        self.made |= {name: self.contents[name] for name in changed}
        return done

    def _perform(self, tool: str, args: dict[str, Any], luck: float) -> tuple[str, str, int | None]:
        match tool:
            case "write_file":
                known = args["path"] in self.contents
                self.contents[args["path"]] = args["content"]
                return "success", "changed" if known else "created", None
            case "read_file" if args["path"] in self.contents:
                return "success", self.contents[args["path"]], None
            case "read_file":
                return "error", f"no such file: {args['path']}", None
            case "wait":
                return "success", "", None
            case _:
                return self._command(str(args.get("cmd", "")), luck)

    def _command(self, cmd: str, luck: float) -> tuple[str, str, int | None]:
        word, _, name = cmd.partition(" ")
        if word in ("test", "./test"):
            good = self.contents.get(name) == "good"
            return ("success", "1 passed in 0.1s", 0) if good else ("failure", "1 failed", 1)
        if word == "toggle":
            self.contents[name] = "on" if self.contents.get(name) == "off" else "off"
            return "success", "", 0
        if word == "poll":
            self.polls += 1
            return "success", f"step {self.polls} of 100", 0
        if word == "flaky":
            return ("success", "ok", 0) if luck < 0.4 else ("failure", "HTTP 429", 1)
        return ("timeout", "", None) if luck < 0.05 else ("failure", f"{word}: not found", 127)


class Child:
    """A process that the daemon waits for; its end is noticed a while after it."""

    def __init__(self, world: World, pid: int) -> None:
        self.pid = pid
        self.alive = True
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._world = world
        self.ends: list[Any] = []
        """What else happens when it ends: its task is cancelled, its socket closed."""

    def kill(self, signum: int = 9) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self._world.rng.uniform(0.0, 0.2 if signum == 15 else 0.01), self.end)

    def end(self, code: int = KILLED) -> None:
        if not self.alive:
            return
        self.alive = False
        for end in self.ends:
            end()
        loop = asyncio.get_running_loop()
        loop.call_later(self._world.notice_s(), self._noticed, code)

    def _noticed(self, code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(code)


class Children:
    """Nobody is left over: what a cell leaves ends with it."""

    spawning = 0

    @contextlib.contextmanager
    def starting_own(self) -> Iterator[None]:
        yield

    def sweep(self) -> None:
        pass


def cell(world: World, goal: str, role: str) -> Cell:
    """Start a process in a cell."""
    child = Child(world, world.next_pid())
    world.watch.spawned(goal, role, child)
    return Cell(child, child.pid, "guard", (), Children())


def stood_on(world: World, goal: str, place: tuple[int, int]) -> Files:
    """Enter the folder of a cell, as `clew_worker.cell.guard` does: no other one that took its place."""
    folder = world.there(world.workspace(goal))
    if folder is None:
        raise SpawnError("spawn", "cannot enter the workspace")
    if folder.number != place[1]:
        raise SpawnError("workspace", "the workspace was replaced by another folder")
    return folder


class SimChannel:
    """The daemon's end of the line to an agent; what is sent arrives in order, later."""

    def __init__(self, world: World, goal: str, epoch: int) -> None:
        self._world, self._goal, self._epoch = world, goal, epoch
        self._loop = asyncio.get_running_loop()
        self._incoming: deque[bytes | None] = deque()
        self._wake = asyncio.Event()
        self._arrives = 0.0
        self._closed = False
        self.deaf = self.unread = False
        self.outgoing: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    # the daemon's side

    async def receive(self) -> bytes | None:
        while not self._incoming:
            self._wake.clear()
            await self._wake.wait()
        line = self._incoming[0]
        if line is None:
            return None
        self._incoming.popleft()
        self._world.watch.receives(self._goal, protocol.parse(line))
        return line

    async def send(self, line: bytes) -> bool:
        if self._closed:
            return False
        if self.deaf:
            await asyncio.sleep(30.0)
            self.unread = True
            return False
        message = json.loads(line)
        self._world.watch.heard(self._goal, self._epoch, message)
        self.outgoing.put_nowait(message)
        return True

    def close(self) -> None:
        self._closed = True

    # the agent's side

    def say(self, line: bytes | None) -> None:
        """Send a line to the daemon; None ends the connection."""
        self._arrives = max(self._arrives, self._loop.time() + self._world.wire_s())
        self._loop.call_at(self._arrives, self._arrive, line)

    def _arrive(self, line: bytes | None) -> None:
        if not self._closed:
            self._incoming.append(line)
            self._wake.set()


class SimExecutor:
    """The hands of a worker: does what the daemon allowed, in the simulated workspace."""

    def __init__(self, world: World, goal: str, epoch: int, folder: Files) -> None:
        self._world, self._goal, self._epoch, self._folder = world, goal, epoch, folder
        self.cell = cell(world, goal, "executor")
        self._changes = sim_snapshots.SimWatch(folder, world.notes.setdefault(goal, {}))

    @property
    def alive(self) -> bool:
        return not self.cell.guard.ended.done()

    async def run(self, request: RunRequest, said: Callable[[str], None]) -> ActionDone:
        del said
        seq, tool, args = request.seq, request.tool, request.args
        world, rng = self._world, self._world.rng
        self._living()
        world.watch.acts(self._goal, self._epoch, seq, self._folder)
        self._changes.look_before(seq)
        began = asyncio.get_running_loop().time()
        took = min(rng.expovariate(2.0), request.timeout_s)
        await asyncio.sleep(took * rng.random())
        self._living()
        fate = rng.random()
        if args.get("cmd") == "boom" and fate < 0.7:
            self.cell.guard.end()
        self._living()
        files = self._folder
        result, output, code = files.perform(tool, args, rng.random(), self._goal)
        if fate < world.chaos.executor_dies:
            self.cell.guard.end()
        await asyncio.sleep(took * rng.random())
        self._living()
        took = asyncio.get_running_loop().time() - began
        digest = self._seen()
        self._changes.look(own=True)
        return ActionDone(
            id=0,
            seq=seq,
            result=result,
            output=output,
            exit_code=code,
            duration_s=took,
            world=digest if rng.random() > world.chaos.digest_fails else None,
            touched=self._changes.report(),
        )

    def digest(self, request: DigestRequest) -> asyncio.Future[DigestDone]:
        """Look from now on, whenever that is awaited."""
        looking = asyncio.ensure_future(self._looked(request))
        looking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return looking

    async def _looked(self, request: DigestRequest) -> DigestDone:
        self._living()
        await asyncio.sleep(self._world.rng.uniform(0.0, 0.02))
        self._living()
        self._changes.look(own=request.own)
        self._folder.credit(self._goal, self._changes.own)  # also where it is reported later
        touched = self._changes.report() if request.report else Touched()
        return DigestDone(id=0, world=self._seen(), touched=touched)

    async def snapshot(self, request: SnapshotRequest) -> SnapshotDone:
        self._living()
        await asyncio.sleep(self._world.rng.expovariate(5.0))
        self._living()
        if self._world.rng.random() < self._world.chaos.digest_fails:
            return SnapshotDone(id=0, fault="the disk is full")
        self._changes.look(own=request.own)
        tree = self._folder.digest()
        self._world.trees[tree] = dict(self._folder.contents)
        self._changes.anchored = True
        touched, noted = self._changes.report(), self._changes.noted
        taken = SnapshotTaken(tree=tree, files=1, bytes=100, touched=touched)
        return SnapshotDone(taken=taken, noted=noted)

    async def restore(self, request: RestoreRequest) -> RestoreDone:
        self._living()
        await asyncio.sleep(self._world.rng.expovariate(5.0))
        self._living()
        self._changes.look(own=False)
        done = sim_snapshots.restore(self._world, self._goal, self._folder, request.entries)
        self._changes.pass_over()
        await asyncio.sleep(self._world.rng.expovariate(5.0))
        self._living()
        return done

    async def check(self, request: CheckRequest) -> ActionDone:
        self._living()
        await asyncio.sleep(self._world.rng.expovariate(2.0))
        self._living()
        luck = self._world.rng.random()
        self._world.watch.acts_in(self._goal, self._folder)
        result, output, code = self._folder.perform(
            "run_cmd", {"cmd": request.cmd}, luck, self._goal
        )
        return ActionDone(result=result, exit_code=code, output=output, duration_s=0.1)

    async def look(self, request: LookRequest) -> LookDone:
        """Find, in some folders, that a test was changed; it is found again in the same one."""
        self._living()
        await asyncio.sleep(self._world.rng.expovariate(5.0))
        self._living()
        if self._world.rng.random() < self._world.chaos.digest_fails:
            return LookDone(id=0, fault="the disk is full")
        changed = int(hashed(request.end), 16) % 2 == 0
        seen = Seen(altered=("tests/test_it.py",) if changed else (), had_tests=True)
        return LookDone(seen=seen)

    async def prepare(self, _: ViewRequest) -> LookDone:
        self._living()
        await asyncio.sleep(self._world.rng.expovariate(5.0))
        self._living()
        fails = self._world.rng.random() < self._world.chaos.digest_fails
        return LookDone(id=0, fault="the disk is full" if fails else "")

    async def end(self) -> None:
        await self.cell.kill()

    def _seen(self) -> WorldDigest:
        """Look at the folder; sometimes the look is cut short, and what it has seen is the same whatever is there."""
        partial = self._world.rng.random() < self._world.chaos.partial
        digest = "cut" if partial else self._folder.digest()
        self._folder.is_cut = partial
        return WorldDigest(digest=digest, entries=len(self._folder.contents), partial=partial)

    def _living(self) -> None:
        if not self.cell.guard.alive:
            raise ExecutorDied("ended with code 137")


class SimView(SimExecutor):
    """The hands in a view of the workspace: what its checks do there is seen by nobody."""

    async def check(self, request: CheckRequest) -> ActionDone:
        self._living()
        await asyncio.sleep(self._world.rng.expovariate(2.0))
        self._living()
        passes = self._world.rng.random() < 0.3
        return ActionDone(
            result="success" if passes else "failure",
            exit_code=0 if passes else 1,
            output=request.cmd,
            duration_s=0.1,
        )
