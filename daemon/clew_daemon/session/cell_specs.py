"""What the cells of one epoch may do, and on which folder: the specs that the nursery starts them by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clew_daemon.parts import DaemonParts
from clew_daemon.processes import cells
from clew_daemon.processes.cli_programs import CliProgramError, cli_program
from clew_daemon.processes.nursery import SpawnError
from clew_daemon.processes.trace_ids import TRACEPARENT, span_id, traceparent, worker_span_id
from clew_daemon.processes.workspace_guard import WorkspaceGuard
from clew_shared.config.agent_tables import Agent, CliAgentSettings
from clew_shared.config.tables import Settings
from clew_shared.record.state import State
from clew_shared.wire.nursery import CellSpec


@dataclass(frozen=True, slots=True)
class WorkerTrace:
    """The place of one worker in its goal's trace: `span` is its span's id, "" where its programs learn nothing."""

    goal: str = ""
    span: str = ""

    @classmethod
    def begun(cls, goal: str, epoch: int, at: float) -> WorkerTrace:
        """Return the place of a worker that is about to start, at `at` seconds since 1970."""
        return cls(goal, worker_span_id(goal, epoch, at))

    def of_worker(self) -> dict[str, str]:
        """Return what is added to the environment of the worker's processes."""
        return {TRACEPARENT: traceparent(self.goal, self.span)} if self.span else {}

    def of_action(self, seq: int, at: float) -> dict[str, str]:
        """Return what is added to the environment of the action that was allowed with event `seq`, at `at`."""
        if not self.span:
            return {}
        return {TRACEPARENT: traceparent(self.goal, span_id(self.goal, seq, at))}


class CellSpecs:
    """The specs of one worker's agent and of its executors, by the settings as they are now."""

    def __init__(
        self,
        parts: DaemonParts,
        state: State,
        epoch: int,
        guard: WorkspaceGuard,
        trace: WorkerTrace | None = None,
    ) -> None:
        self._parts = parts
        self._state = state
        self.goal_id = state.goal_id
        self.epoch = epoch
        self.guard = guard
        self.trace = trace or WorkerTrace()

    @property
    def settings(self) -> Settings:
        """The settings of the goal."""
        return self._parts.settings_of(self.goal_id)

    def executor(self) -> CellSpec:
        """Return the spec of an executor."""
        return self._placed(self._rules().executor(), "executor")

    def agent(self, agent: Agent) -> CellSpec:
        """Return the spec of an agent."""
        return self._placed(self._rules().agent(agent, self.epoch), "agent")

    def cli(self, agent: CliAgentSettings) -> CellSpec:
        """Return the spec of the cell of a coding agent's CLI, whose folders are made; raises SpawnError, OSError."""
        try:
            program = cli_program(agent, self._parts.keys.env)
        except CliProgramError as error:
            raise SpawnError("exec", str(error)) from None
        cells.make_private_of_cli(self._parts.places, self.goal_id)
        return self._placed(self._rules().cli(agent, str(program)), "cli")

    def _rules(self) -> cells.CellRules:
        parts = self._parts
        settings, env = self.settings, parts.keys.env
        hidden, trace = self._hidden(), self.trace.of_worker()
        return cells.CellRules(parts.places, settings, self._state, hidden, env, parts.git, trace)

    def private(self) -> dict[str, tuple[int, int]]:
        """Make the TMPDIR and the HOME of the goal's cells; returns device and inode by path. Raises OSError.

        The store of its snapshots is made too, where they are enabled.
        """
        stores = self._parts.space if self.settings.snapshots.enabled else None
        return cells.make_private(self._parts.places, self.goal_id, stores=stores)

    def _hidden(self) -> tuple[str, ...]:
        """List what no cell of this worker may see, also the keys that other running goals use."""
        parts = self._parts
        used = (self.settings, parts.settings, *parts.started.values())
        keys = {path: None for one in used for path in parts.keys.paths(one)}
        return cells.hidden(parts.places, keys, self._state, parts.goals.states().values())

    def _placed(self, spec: CellSpec, role: str) -> CellSpec:
        title = f"clew: {role} {self.goal_id} epoch {self.epoch}"
        placed: dict[str, Any] = {"stands_on": self.guard.place, "title": title}
        return spec.model_copy(update=placed)
