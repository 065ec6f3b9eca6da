"""Cells started by the doctor as a goal would get them: in the real sandbox, with a folder as workspace."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import structlog

from clew_daemon.bootstrap import NURSERY_ENV
from clew_daemon.host import git
from clew_daemon.host.keys import scrubbed
from clew_daemon.processes import cells
from clew_daemon.processes.children import Children, become_subreaper
from clew_daemon.processes.executor import ExecutorDied, ExecutorProcess
from clew_daemon.processes.nursery import Nursery, SpawnError
from clew_shared.record.spec import Spec
from clew_shared.record.state import State
from clew_shared.text.redact import redact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_daemon.host.keys import Keys
    from clew_daemon.processes.nursery import Cell
    from clew_shared.config.agent_tables import Agent
    from clew_shared.config.places import Places
    from clew_shared.config.settings import Settings
    from clew_shared.wire.nursery import CellSpec

GOAL = "clew-doctor"
OUTPUT_BYTES = 8_192
HELLO_S = 15.0
QUIET = {"PYTHONDONTWRITEBYTECODE": "1", "GIT_OPTIONAL_LOCKS": "0"}
"""Keeps programs from writing caches and locks into the workspace."""


class TrialError(Exception):
    """No cell could be started; the message says why."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The end of a trial, with the redacted output."""

    ok: bool
    output: str


@dataclass(frozen=True, slots=True)
class SandboxVariant:
    """A change of the sandbox for one trial: more folders to read, variables to set."""

    read: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


AS_IT_IS: Final = SandboxVariant()


class SandboxTrial:
    """Starts executors and agents in `workspace`; an async context manager for the main thread."""

    def __init__(
        self, places: Places, settings: Settings, keys: Keys, env: Mapping[str, str], workspace: str
    ) -> None:
        self._places = places
        self._settings = settings
        self._keys = keys
        self._env = env
        self._state = State(goal_id=GOAL, spec=Spec(description=GOAL, workspace=workspace))
        self._executors: dict[SandboxVariant, ExecutorProcess] = {}

    async def __aenter__(self) -> Self:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
        self._private = Path(tempfile.mkdtemp(prefix="clew-doctor-"))
        become_subreaper()
        self._children = Children()
        env = scrubbed(self._keys.env, self._settings)
        nursery_env = {name: env[name] for name in NURSERY_ENV if name in env}
        self._nursery = Nursery(self._children, nursery_env, ())
        try:
            await self._nursery.start()
        except SpawnError as error:
            await self.__aexit__()
            raise TrialError(str(error)) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        for executor in self._executors.values():
            await executor.end()
        await self._nursery.stop()
        self._children.sweep()
        shutil.rmtree(self._private, ignore_errors=True)

    async def command(
        self, cmd: str, timeout_s: float, variant: SandboxVariant = AS_IT_IS
    ) -> TrialResult:
        """Run a shell command as an action of a goal; raises TrialError where there is no executor."""
        try:
            executor = await self._executor(variant)
            done = await executor.check(GOAL, cmd, timeout_s=timeout_s, output_bytes=OUTPUT_BYTES)
        except (SpawnError, ExecutorDied, OSError) as error:
            raise TrialError(f"no executor: {error}") from None
        is_late = done.result == "timeout"
        output = f"no answer within {timeout_s:g} s" if is_late else done.output
        return TrialResult(done.result == "success", redact(output).strip())

    async def hello(self, agent: Agent, variant: SandboxVariant = AS_IT_IS) -> TrialResult:
        """Start an agent and wait for its first message; it is killed before it gets an answer."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        output, output_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(output_w, True)
        printed = bytearray()
        cell: Cell | None = None
        loop = asyncio.get_running_loop()
        loop.add_reader(output, _read_tail, output, printed)
        try:
            try:
                with theirs:
                    spec = _with(self._rules(variant).agent(agent, 1), variant)
                    cell = await self._nursery.spawn(spec, theirs.fileno(), output_w)
            except (SpawnError, OSError) as error:
                return TrialResult(ok=False, output=str(error))
            finally:
                os.close(output_w)
            first = b""
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(HELLO_S):
                    first = await loop.sock_recv(ours, 1)
            if first:
                return TrialResult(ok=True, output="")
            code = cell.guard.ended.result() if cell.guard.ended.done() else None
            _read_tail(output, printed)
            text = redact(printed.decode("utf-8", "replace")).strip()
            silent = f"it said nothing within {HELLO_S:g} s"
            return TrialResult(
                ok=False, output=text or (f"exit code {code}" if code is not None else silent)
            )
        finally:
            loop.remove_reader(output)
            ours.close()
            os.close(output)
            if cell:
                await cell.kill()

    async def _executor(self, variant: SandboxVariant) -> ExecutorProcess:
        known = self._executors.get(variant)
        if known is None or not known.alive:
            spec = _with(self._rules(variant).executor(), variant)
            known = self._executors[variant] = await ExecutorProcess.start(
                self._nursery, spec, None
            )
        return known

    def _rules(self, variant: SandboxVariant) -> cells.CellRules:
        """Return the rules of the daemon's cells, with temporary private folders."""
        sandbox = self._settings.sandbox
        read = (*sandbox.read, *variant.read)
        settings = self._settings.model_copy(
            update={"sandbox": sandbox.model_copy(update={"read": read})}
        )
        keys = self._keys.paths(self._settings)
        hide = cells.hidden(self._places, keys, self._state, ())
        places = replace(self._places, state=self._private)
        cells.make_private(places, GOAL)
        identity = {name: self._env[name] for name in git.NAMES if name in self._env}
        return cells.CellRules(places, settings, self._state, hide, self._env, identity)


def _with(spec: CellSpec, variant: SandboxVariant) -> CellSpec:
    return spec.model_copy(update={"env": {**spec.env, **QUIET, **dict(variant.env)}})


def _read_tail(pipe: int, printed: bytearray) -> None:
    """Read the output and keep its last `OUTPUT_BYTES`."""
    with contextlib.suppress(BlockingIOError):
        while data := os.read(pipe, 1 << 16):
            printed += data
            del printed[:-OUTPUT_BYTES]
        asyncio.get_running_loop().remove_reader(pipe)
