"""Starts the processes of workers, each in a cell of the nursery, and measures them."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_daemon.processes import vitals
from clew_daemon.processes.executor import ExecutorProcess
from clew_daemon.session.channel import Channel
from clew_daemon.session.worker_output import drain

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew_daemon.processes.cgroups import CellGroup
    from clew_daemon.processes.nursery import Cell, Nursery
    from clew_daemon.session.cell_specs import CellSpecs
    from clew_daemon.session.worker_output import WorkerOutput
    from clew_shared.config.agent_tables import Agent
    from clew_shared.wire.nursery import CellSpec

    Group = Callable[[CellSpec], CellGroup | None]


@dataclass(slots=True)
class AgentProcess:
    """An agent at the other end of a channel; `output` is the read end of the pipe of what it prints."""

    cell: Cell
    channel: Channel
    output: int

    @property
    def created(self) -> float:
        """When its process began, in seconds since 1970: with the pid it names the process."""
        return vitals.created(self.cell.pid)

    async def drain(self, into: WorkerOutput) -> None:
        """Read what it prints, to the end."""
        await drain(self.output, into)


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
                spec = specs.agent(agent)
                cell = await self._nursery.spawn(spec, theirs.fileno(), output_w, group(spec))
            try:
                return AgentProcess(cell, await Channel.over(ours), output)
            except BaseException:
                await cell.kill()
                raise
        except BaseException:
            ours.close()
            os.close(output)
            raise
        finally:
            os.close(output_w)

    async def executor(self, specs: CellSpecs, group: Group) -> ExecutorProcess:
        """Start an executor; raises SpawnError, ExecutorDied, OSError."""
        spec = specs.executor()
        return await ExecutorProcess.start(self._nursery, spec, group(spec))

    def memory_mb(self, cells: list[Cell]) -> float:
        """Measure what these cells use; it blocks."""
        return vitals.memory_mb([cell.guard.pid for cell in cells])
