"""The processes of one worker, each in a cell of the nursery: the agent, and the executors one after the other."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import structlog

from clew_daemon.host.folders import overlap
from clew_daemon.parts import DaemonParts
from clew_daemon.processes import cell_rules, children
from clew_daemon.processes.cell_rules import CellRules
from clew_daemon.processes.cgroups import CellGroup
from clew_daemon.processes.endings import is_short
from clew_daemon.processes.executor import (
    ExecutorDied,
    ExecutorProcess,
    NoView,
    OutOfResources,
    WorkspaceMissingError,
)
from clew_daemon.processes.lines import LineChannel
from clew_daemon.processes.nursery import Cell, Nursery, SpawnError
from clew_daemon.processes.workspace_guard import WorkspaceGuard
from clew_shared.config.agent_tables import Agent, CliAgentSettings
from clew_shared.files.pipes import PipeReader
from clew_shared.record.state import State
from clew_shared.record.touched import UNMEASURED
from clew_shared.text.plain import plain
from clew_shared.text.redact import redact
from clew_shared.wire import protocol
from clew_shared.wire.executor import DigestDone, DigestRequest
from clew_shared.wire.nursery import CellSpec

Group = Callable[[CellSpec], CellGroup | None]
Fds = tuple[int, int]  # an agent's channel, and where it prints

log = structlog.get_logger()

LINES_MAX = 200
LINE_CHARS = 500
LINE_BYTES_MAX = 1 << 16
TAIL_CHARS = 2_000


class WorkerOutput:
    """Takes bytes as they arrive; passes the first LINES_MAX lines to `log`, and drops the rest.

    A line is passed on when it is whole, or longer than a line should be: half a key would not be recognised.
    """

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._passed = 0
        self._rest = b""
        self._tail = ""

    def take(self, data: bytes, *, last: bool = False) -> None:
        """Take the next piece, or the `last` one, whose last line may have no line end."""
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        whole += newline
        if last or len(self._rest) > LINE_BYTES_MAX:
            whole, self._rest = whole + self._rest, b""
        text = _text(whole)
        self._tail = (self._tail + text)[-TAIL_CHARS:]
        for line in filter(str.strip, text.splitlines()):
            if self._passed < LINES_MAX:
                self._passed += 1
                self._log(line[:LINE_CHARS])

    @property
    def tail(self) -> str:
        return (self._tail + _text(self._rest))[-TAIL_CHARS:].strip()


def _text(data: bytes) -> str:
    return redact(data.decode("utf-8", "replace"))


@dataclass(slots=True)
class AgentProcess:
    """An agent at the other end of a channel, the pipe of what it prints, and its cells: the second is a CLI's."""

    cells: list[Cell]
    channel: LineChannel
    output: int

    @property
    def cell(self) -> Cell:
        return self.cells[0]

    @property
    def created(self) -> float:
        """When its process began, in seconds since 1970: with the pid it names the process."""
        return children.created(self.cell.pid)

    async def drain(self, into: WorkerOutput) -> None:
        async with PipeReader(self.output) as pipe:
            try:
                while data := await pipe.read(1 << 14):
                    into.take(data)
            finally:
                into.take(b"", last=True)

    async def kill(self) -> None:
        for cell in self.cells:
            cell.kill_nowait()
        for cell in self.cells:
            await cell.kill()


class Launcher:
    """Starts what a session asks for; a simulation plays it."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery

    async def agent(self, rules: CellRules, agent: Agent, group: Group) -> AgentProcess:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        output, output_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(output_w, True)
        started: list[Cell] = []
        try:
            with theirs:
                fds = theirs.fileno(), output_w
                await self._start(started, rules, agent, group, fds)
            channel = await LineChannel.over(ours, protocol.LINE_BYTES_MAX)
            return AgentProcess(started, channel, output)
        except BaseException:
            for cell in started:
                await cell.kill()
            ours.close()
            os.close(output)
            raise
        finally:
            os.close(output_w)

    async def _start(
        self, started: list[Cell], rules: CellRules, agent: Agent, group: Group, fds: Fds
    ) -> None:
        """Start the agent's cell with its channel and output; for a coding agent also that of its CLI, beside it."""
        spec = rules.agent(agent)
        if not isinstance(agent, CliAgentSettings):
            started.append(await self._nursery.spawn(spec, *fds, group(spec)))
            return
        bridge_end, cli_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with bridge_end, cli_end:
            cli = rules.cli(agent)
            cell_rules.make_private(rules.places, rules.state.goal_id, cli=True)
            peer = bridge_end.fileno()
            started.append(await self._nursery.spawn(spec, *fds, group(spec), peer=peer))
            started.append(await self._nursery.spawn(cli, cli_end.fileno(), fds[1], group(cli)))

    async def executor(
        self, rules: CellRules, group: Group, *, view: Path | None = None, overlay: bool = False
    ) -> ExecutorProcess:
        """Start an executor in the workspace, or in a `view` of it, whose folders are at that place."""
        spec = rules.view(view, overlay=overlay) if view else rules.executor()
        return await ExecutorProcess.start(self._nursery, spec, group(spec))

    def memory_mb(self, cells: list[Cell]) -> float:
        """Measure what these cells use; it blocks."""
        return children.memory_mb([cell.guard.pid for cell in cells])


STARTING_WAIT_S = 5.0
digest_request = cache(DigestRequest)  # there are few different ones: each is made once


class ExecutorPool:
    """At most one executor at a time, in the worker's control group."""

    def __init__(self, parts: DaemonParts, state: State, epoch: int, guard: WorkspaceGuard) -> None:
        self._parts = parts
        self._state = state
        self._goal = state.goal_id
        self._epoch = epoch
        self._guard = guard
        self.launcher = Launcher(parts.nursery)
        self._about = {"goal": self._goal, "epoch": epoch}
        self._group = parts.cgroups.worker(self._goal, epoch)
        self._executor: ExecutorProcess | None = None
        self._looking: asyncio.Future[DigestDone] | None = None
        self._lock = asyncio.Lock()
        self._ended = False

    @property
    def cell(self) -> Cell | None:
        return self._executor.cell if self._executor else None

    @property
    def alive(self) -> bool:
        return not self._ended and self._executor is not None and self._executor.alive

    async def prepare(self) -> None:
        """Make ready for a new cell: the goal's very folder, a TMPDIR and a HOME.

        Raises WorkspaceMissingError, OSError, and LedgerFailed where the ledger is gone, and these folders with it.
        """
        self._parts.goals.ledger.look()
        await self._look()
        if self._parts.settings_of(self._goal).snapshots.enabled:
            await asyncio.to_thread(self._parts.space.make, self._goal)
        await asyncio.to_thread(cell_rules.make_private, self._parts.places, self._goal)

    @property
    def rules(self) -> cell_rules.CellRules:
        """The rules of the worker's cells by the settings as they are now; none sees a key of another running goal."""
        parts, settings = self._parts, self._parts.settings_of(self._goal)
        used = (settings, parts.settings, *parts.started.values())
        keys = {path: None for one in used for path in parts.keys.paths(one)}
        own, states = self._state.spec.workspace, parts.goals.states().values()
        spaces = [s.spec.workspace for s in states if not s.ended]
        others = [space for space in spaces if not overlap(space, own)]
        folders = [parts.places.config, *parts.places.folders.values(), *keys]
        hidden = tuple(dict.fromkeys([*map(str, folders), *others]))
        place, env = self._guard.place, parts.keys.env
        return cell_rules.CellRules(
            parts.places, settings, self._state, self._epoch, place, hidden, env, parts.git
        )

    async def _look(self) -> None:
        """Raise WorkspaceMissingError where the goal's folder is not in its place."""
        guard = self._guard
        missing = await asyncio.to_thread(lambda: None if guard.stands() else guard.missing())
        if missing:
            raise WorkspaceMissingError(missing.detail)

    async def executor(self) -> ExecutorProcess:
        """Return the executor, a new one where the last has ended; raises WorkspaceMissingError and ExecutorDied."""
        async with self._lock:
            await self._look()
            if self._ended:
                raise ExecutorDied("the worker is ending")
            if self._executor is None or not self._executor.alive:
                self._executor = await self._started()
            return self._executor

    async def _started(self) -> ExecutorProcess:
        try:
            await self.prepare()
            return await self.launcher.executor(self.rules, self.leaf)
        except (SpawnError, OSError) as error:
            if is_short(error):
                raise OutOfResources(plain(error)) from error
            if isinstance(error, SpawnError) and error.reason == "workspace":
                raise WorkspaceMissingError(plain(error)) from error
            raise ExecutorDied(plain(error)) from error

    async def died(self, why: str, *, expected: bool = False) -> None:
        """End the executor that has failed; one that was started in its place since goes on."""
        if self.alive:
            return
        if not (self._ended or expected):
            log.warning("executor.died", **self._about, reason=why)
        await self._end_it()

    async def _end_it(self) -> None:
        if executor := self._executor:
            await executor.end()
            if self._executor is executor:  # not one that was started meanwhile
                self._executor = None

    async def cut_off(self) -> None:
        """End the executor with what it carries out; the next one is started when it is needed."""
        async with self._lock:
            await self._end_it()

    @contextlib.asynccontextmanager
    async def view(self, kind: str) -> AsyncIterator[tuple[ExecutorProcess, str, str]]:
        """Enter a view of the workspace, with what is to be copied and to where; what was left running ends first."""
        await self.cut_off()
        async with self._lock:
            try:
                place = await asyncio.to_thread(
                    cell_rules.make_view, self._parts.places, self._goal
                )
                executor, source = await self._in_view(place, kind)
                try:
                    yield executor, source, f"{place}/copy"
                finally:
                    await executor.end()
            except (SpawnError, OSError) as error:
                raise NoView(plain(error)) from error
            finally:
                await asyncio.to_thread(cell_rules.remove_view, self._parts.places, self._goal)

    async def _in_view(self, place: Path, kind: str) -> tuple[ExecutorProcess, str]:
        start = partial(self.launcher.executor, self.rules, self.leaf, view=place)
        if kind != "copy":
            try:
                return await start(overlay=True), ""
            except SpawnError:
                if kind == "overlay":
                    raise
        return await start(), self._state.spec.workspace

    async def digest(self, *, here: bool = False, own: bool = False) -> str:
        """Measure the world: UNKNOWN if it is too large, "" if that failed; `own`: what has changed is the goal's."""
        request = digest_request(own=own)
        return (await self.measured(request, None if here else self.asked(request))).name

    def asked(self, request: DigestRequest) -> asyncio.Future[DigestDone] | None:
        """Ask the executor, where one runs, to look while something else is done; `measured` waits for it.

        It stands in the goal's own folder, whatever is in its place by now.
        """
        return self._executor.digest(request) if self._executor and self.alive else None

    def look_aside(self) -> None:
        """Look in the background: what has changed until now is the goal's."""
        request = digest_request(own=True, names_only=True)
        self._looking = asyncio.ensure_future(self.measured(request, self.asked(request)))
        self._looking.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def measured(
        self, request: DigestRequest, asked: asyncio.Future[DigestDone] | None
    ) -> DigestDone:
        """Return what was measured, by one in the goal's place where none was `asked`; nothing if that failed."""
        try:
            return await (asked or (await self.executor()).digest(request))
        except WorkspaceMissingError:
            pass  # the next action there reports why
        except ExecutorDied as error:
            await self.died(str(error))
        return DigestDone(touched=UNMEASURED)

    async def end(self) -> None:
        """End the executor, also one that is just being started, and all that is in the worker's control group."""
        self._ended = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STARTING_WAIT_S), self._lock:
                pass
        if self._executor is not None:
            await self._executor.end()
        if self._group:  # a cell of which no answer came is in it, too
            await self._group.end()

    def leaf(self, spec: CellSpec) -> CellGroup | None:
        if self._group is None:
            return None
        self.limited()
        return self._group.cell(spec.kind, spec.limits)

    def limited(self) -> bool:
        """Return whether the kernel holds the worker to its memory, to what is allowed now."""
        most_mb = self._parts.settings_of(self._goal).limits.memory_mb
        try:
            return bool(self._group and self._group.limit(most_mb))
        except OSError as error:
            log.warning("cgroup.failed", **self._about, reason=plain(error))
            return False

    def out_of_memory(self) -> bool:
        """Return whether the kernel has killed a part of the worker because its memory ran out."""
        return bool(self._group and self._group.out_of_memory())
