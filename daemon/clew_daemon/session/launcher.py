"""Starts the processes of workers, each in a cell of the nursery, and measures them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from clew_daemon.processes import vitals
from clew_daemon.processes.cgroups import CellGroup
from clew_daemon.processes.executor import ExecutorProcess
from clew_daemon.processes.lines import LineChannel
from clew_daemon.processes.nursery import Cell, Nursery
from clew_daemon.session.cell_specs import CellSpecs
from clew_shared.config.agent_tables import Agent, CliAgentSettings
from clew_shared.files.pipes import PipeReader
from clew_shared.text.redact import redact
from clew_shared.wire import protocol
from clew_shared.wire.nursery import CellSpec

Group = Callable[[CellSpec], CellGroup | None]

LINES_MAX = 200
LINE_CHARS = 500
LINE_BYTES_MAX = 1 << 16
TAIL_CHARS = 2_000


class WorkerOutput:
    """Takes bytes as they arrive; passes the first LINES_MAX lines to `log`, and drops the rest."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._passed = 0
        self._rest = b""
        self._tail = ""

    def take(self, data: bytes) -> None:
        """Take the next piece; a line is passed on when it is whole, or longer than a line should be."""
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            whole, newline, self._rest = whole + newline + self._rest, b"\n", b""
        self._take_lines(whole + newline)

    def end(self) -> None:
        """Pass on the last line, which had no line end."""
        rest, self._rest = self._rest, b""
        self._take_lines(rest)

    @property
    def tail(self) -> str:
        """The end of everything that was printed."""
        return (self._tail + _text(self._rest))[-TAIL_CHARS:].strip()

    def _take_lines(self, data: bytes) -> None:
        text = _text(data)
        self._tail = (self._tail + text)[-TAIL_CHARS:]
        for line in text.splitlines():
            if self._passed >= LINES_MAX:
                return
            if line.strip():
                self._passed += 1
                self._log(line[:LINE_CHARS])


async def drain(fd: int, into: WorkerOutput) -> None:
    """Read a pipe to its end, pass on what it has, and close it."""
    async with PipeReader(fd) as pipe:
        try:
            while data := await pipe.read(1 << 14):
                into.take(data)
        finally:
            into.end()


def _text(data: bytes) -> str:
    return redact(data.decode("utf-8", "replace"))


@dataclass(slots=True)
class AgentProcess:
    """An agent at the other end of a channel; `output` is the read end of the pipe of what it prints.

    `cli` is the cell of the CLI of a coding agent, whose bridge is the agent.
    """

    cell: Cell
    channel: LineChannel
    output: int
    cli: Cell | None = None

    @property
    def cells(self) -> list[Cell]:
        """The cells of the agent."""
        return [self.cell, self.cli] if self.cli else [self.cell]

    @property
    def created(self) -> float:
        """When its process began, in seconds since 1970: with the pid it names the process."""
        return vitals.created(self.cell.pid)

    async def drain(self, into: WorkerOutput) -> None:
        """Read what it prints, to the end."""
        await drain(self.output, into)

    async def kill(self) -> None:
        """End every process of the agent, and wait for that."""
        for cell in self.cells:
            cell.kill_nowait()
        for cell in self.cells:
            await cell.kill()


class Launcher:
    """Starts what a session asks for; a simulation plays it."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery

    async def agent(self, specs: CellSpecs, agent: Agent, group: Group) -> AgentProcess:
        """Start an agent; raises SpawnError, OSError. `group` makes the control group of its cell."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        output, output_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(output_w, True)
        try:
            with theirs:
                cell, cli = await self._cells(specs, agent, group, (theirs.fileno(), output_w))
            try:
                return AgentProcess(cell, await _connected(ours), output, cli)
            except BaseException:
                await cell.kill()
                if cli:
                    await cli.kill()
                raise
        except BaseException:
            ours.close()
            os.close(output)
            raise
        finally:
            os.close(output_w)

    async def _cells(
        self, specs: CellSpecs, agent: Agent, group: Group, fds: tuple[int, int]
    ) -> tuple[Cell, Cell | None]:
        """Start the agent's cell with its channel and output; for a coding agent also that of its CLI, beside it."""
        spec = specs.agent(agent)
        if not isinstance(agent, CliAgentSettings):
            return await self._nursery.spawn(spec, *fds, group(spec)), None
        with contextlib.ExitStack() as opened:
            pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            bridge_end, cli_end = (opened.enter_context(one).fileno() for one in pair)
            cli_spec = specs.cli(agent)
            groups = group(spec), group(cli_spec)
            bridge, cli = await _all_or_none(
                self._nursery.spawn(spec, *fds, groups[0], peer=bridge_end),
                self._nursery.spawn(cli_spec, cli_end, fds[1], groups[1]),
            )
            return bridge, cli

    async def executor(self, specs: CellSpecs, group: Group) -> ExecutorProcess:
        """Start an executor; raises SpawnError, ExecutorDied, OSError."""
        spec = specs.executor()
        return await ExecutorProcess.start(self._nursery, spec, group(spec))

    def memory_mb(self, cells: list[Cell]) -> float:
        """Measure what these cells use; it blocks."""
        return vitals.memory_mb([cell.guard.pid for cell in cells])


async def _connected(sock: socket.socket) -> LineChannel:
    return await LineChannel.over(sock, protocol.LINE_BYTES_MAX)


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
