"""Starts the processes of workers, each in a cell of the nursery, and measures them.

`CellSpecs` says what each of one worker's cells may do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew_daemon.parts import DaemonParts
from clew_daemon.processes import cells, children
from clew_daemon.processes.cgroups import CellGroup
from clew_daemon.processes.executor import ExecutorProcess
from clew_daemon.processes.lines import LineChannel
from clew_daemon.processes.nursery import Cell, Nursery
from clew_daemon.processes.workspace_guard import WorkspaceGuard
from clew_shared.config.agent_tables import Agent, CliAgentSettings
from clew_shared.config.tables import Settings
from clew_shared.files.pipes import PipeReader
from clew_shared.record.state import State
from clew_shared.text.redact import redact
from clew_shared.wire import protocol
from clew_shared.wire.nursery import CellSpec

Group = Callable[[CellSpec], CellGroup | None]

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
    """An agent at the other end of a channel; `output` is the read end of the pipe of what it prints.

    A coding agent has a second cell, that of its CLI, whose bridge is the agent.
    """

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


class CellSpecs:
    """The specs of one worker's agent and of its executors, by the settings as they are now."""

    def __init__(self, parts: DaemonParts, state: State, epoch: int, guard: WorkspaceGuard) -> None:
        self._parts = parts
        self._state = state
        self.goal_id = state.goal_id
        self.epoch = epoch
        self.guard = guard

    @property
    def settings(self) -> Settings:
        return self._parts.settings_of(self.goal_id)

    @property
    def workspace(self) -> str:
        return self._state.spec.workspace

    def make_view(self) -> Path:
        """Make the folders of a view; raises OSError."""
        return cells.make_view(self._parts.places, self.goal_id)

    def remove_view(self) -> None:
        cells.remove_view(self._parts.places, self.goal_id)

    def make_private(self, *, cli: bool = False) -> None:
        """Make the TMPDIR and the HOME of the goal's cells, or of its CLI, and a store of snapshots; raises OSError."""
        stores = self._parts.space if self.settings.snapshots.enabled else None
        cells.make_private(self._parts.places, self.goal_id, cli=cli, stores=stores)

    def now(self) -> cells.CellRules:
        """Return the rules of the cells, which see no key of another running goal either."""
        parts, settings = self._parts, self.settings
        used = (settings, parts.settings, *parts.started.values())
        keys = {path: None for one in used for path in parts.keys.paths(one)}
        hidden = cells.hidden(parts.places, keys, self._state, parts.goals.states().values())
        place, env = self.guard.place, parts.keys.env
        return cells.CellRules(
            parts.places, settings, self._state, self.epoch, place, hidden, env, parts.git
        )


class Launcher:
    """Starts what a session asks for; a simulation plays it."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery

    async def agent(self, specs: CellSpecs, agent: Agent, group: Group) -> AgentProcess:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        output, output_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(output_w, True)
        started: list[Cell] = []
        try:
            with theirs:
                started = await self._cells(specs, agent, group, (theirs.fileno(), output_w))
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

    async def _cells(
        self, specs: CellSpecs, agent: Agent, group: Group, fds: tuple[int, int]
    ) -> list[Cell]:
        """Start the agent's cell with its channel and output; for a coding agent also that of its CLI, beside it."""
        spec = specs.now().agent(agent)
        if not isinstance(agent, CliAgentSettings):
            return [await self._nursery.spawn(spec, *fds, group(spec))]
        with contextlib.ExitStack() as opened:
            pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            bridge_end, cli_end = (opened.enter_context(one).fileno() for one in pair)
            cli_spec = specs.now().cli(agent)
            specs.make_private(cli=True)
            groups = group(spec), group(cli_spec)
            return await _all_or_none(
                self._nursery.spawn(spec, *fds, groups[0], peer=bridge_end),
                self._nursery.spawn(cli_spec, cli_end, fds[1], groups[1]),
            )

    async def executor(self, specs: CellSpecs, group: Group) -> ExecutorProcess:
        spec = specs.now().executor()
        return await ExecutorProcess.start(self._nursery, spec, group(spec))

    async def view(
        self, specs: CellSpecs, place: Path, group: Group, *, overlay: bool
    ) -> ExecutorProcess:
        """Start an executor in a view, whose folders are at `place`."""
        spec = specs.now().view(place, overlay=overlay)
        return await ExecutorProcess.start(self._nursery, spec, group(spec))

    def memory_mb(self, cells: list[Cell]) -> float:
        """Measure what these cells use; it blocks."""
        return children.memory_mb([cell.guard.pid for cell in cells])


async def _all_or_none(*spawns: Coroutine[Any, Any, Cell]) -> list[Cell]:
    """Start cells at the same time; where one cannot start, end the others. Raises what the first of them raises."""
    starting = [asyncio.ensure_future(one) for one in spawns]
    try:
        return await asyncio.gather(*starting)
    except BaseException:
        await asyncio.wait(starting)
        for one in starting:
            if not one.cancelled() and one.exception() is None:
                await one.result().kill()
        raise
