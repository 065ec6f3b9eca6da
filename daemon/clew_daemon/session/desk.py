"""One goal at work, as the methods of its agent see it: its core, its record, its workspace, its agent's kind.

It starts and ends no process of the agent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from clew_daemon.config.need import settings_for
from clew_daemon.host.logins import login_copies, place_of, secrets_of, write_back
from clew_daemon.parts import DaemonParts
from clew_daemon.processes.trace_ids import TRACEPARENT
from clew_daemon.processes.workspace_guard import Missing, WorkspaceGuard
from clew_daemon.record.doing import Work
from clew_daemon.record.goal_limits import ActionLimit, action_limit, present_agent
from clew_daemon.record.goals import GoalStore
from clew_daemon.session.cell_specs import CellSpecs, WorkerTrace
from clew_daemon.session.executors import ExecutorPool
from clew_daemon.session.launcher import Launcher
from clew_daemon.session.snapshots import WorkspaceSnapshots
from clew_shared.config.agent_tables import (
    Agent,
    CliAgentSettings,
    CommandAgentSettings,
    LlmAgentSettings,
    RunbookAgentSettings,
)
from clew_shared.config.tables import Settings
from clew_shared.core.answers import WrongState
from clew_shared.core.core import Core
from clew_shared.core.questions import Question, stuck
from clew_shared.record.model import Result
from clew_shared.text.redact import hide


async def block_goal(goals: GoalStore, core: Core, asked: Question) -> None:
    """Block a goal with this question, and wait until that is durable."""
    with goals.entering(core):
        core.ask(asked, time.time())
    await goals.commit(core)


async def block_missing(goals: GoalStore, core: Core, missing: Missing) -> None:
    """Block a goal whose workspace is missing, and wait until that is durable.

    A runbook's step that has found nothing to act in runs again with the same word.
    """
    asked, at = missing.question(core.state), time.time()
    subtask = core.state.subtask
    last = subtask.actions[-1] if subtask and subtask.actions else None
    step = last.seq if last and last.result == Result.ERROR else 0
    with goals.entering(core):
        core.block_goal(
            asked.reason,
            at,
            question=asked.text,
            stranger=missing.stranger,
            gone=missing.gone,
            step=step,
        )
    await goals.commit(core)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AgentTraits:
    """What follows from an agent's kind (docs/agents.md)."""

    agent: Agent

    @property
    def is_runbook(self) -> bool:
        """It reads no feedback and no strategies, and cannot replan."""
        return isinstance(self.agent, RunbookAgentSettings)

    @property
    def own_prompt(self) -> bool:
        """Clew builds its prompts from the answer to `hello`; its `finish` is questioned after a failed action."""
        return isinstance(self.agent, LlmAgentSettings)

    @property
    def is_cli(self) -> bool:
        """It is a bridge, for a coding agent that has a cell of its own."""
        return isinstance(self.agent, CliAgentSettings)

    @property
    def is_command(self) -> bool:
        """It is a program that clew does not know."""
        return isinstance(self.agent, CommandAgentSettings)

    @property
    def own_tools(self) -> bool:
        """It may change the workspace without reporting it."""
        return isinstance(self.agent, CommandAgentSettings) and self.agent.own_tools


class GoalDesk:
    """What the parts of one session share about its goal; raises KeyFileError where the agent's key cannot be read."""

    def __init__(
        self, parts: DaemonParts, core: Core, guard: WorkspaceGuard, launcher: Launcher
    ) -> None:
        self.parts = parts
        self.core = core
        self.goal_id = core.state.goal_id
        self.epoch = core.state.epoch + 1
        settings = parts.settings_of(self.goal_id)
        self.agent_name, agent = present_agent(core.state, settings)
        self.traits = AgentTraits(agent)
        self._attempt_seq = core.state.attempt.seq
        self.credential = parts.keys.of(self.traits.agent)
        self.logins = login_copies(parts.keys.login_files(self.traits.agent), parts.keys.env)
        trace = None
        if TRACEPARENT in settings.sandbox.env:
            trace = WorkerTrace.begun(self.goal_id, self.epoch, time.time())
        self.specs = CellSpecs(parts, core.state, self.epoch, guard, trace)
        self.executors = ExecutorPool(parts, self.specs, launcher)
        self.snapshots = WorkspaceSnapshots(
            parts, core, self.executors, acting=lambda: self.agent_acts
        )
        self._guard = guard
        self.work = Work()
        self.ready = asyncio.Event()
        """The start of the worker is on record; nothing is decided before."""
        self.looked = asyncio.Event()
        """The workspace was looked at; nothing that depends on it is answered before."""
        self.stopping = False
        self.idle = asyncio.Event()
        """No action of the agent is being carried out, as far as is known."""
        self.idle.set()
        self.notify: Callable[[str, dict[str, Any]], None] = lambda _method, _params: None
        """Sends the agent a notification."""

    @property
    def settings(self) -> Settings:
        """The config as it is now for the agent's model, with the `[agents]` and `[limits]` of the goal's start."""
        settings, needed = self.parts.settings_of(self.goal_id), self.core.state.turns_needed
        return settings_for(settings, self.traits.agent, needed)

    @property
    def wants_another_agent(self) -> bool:
        """Whether an attempt has begun for which the agent is set up differently than for that of the worker's start.

        So it is where a subtask follows on one that was completed in a later attempt.
        """
        state = self.core.state
        if state.attempt.seq == self._attempt_seq:
            return False
        wants = present_agent(state, self.settings) != (self.agent_name, self.traits.agent)
        if not wants:
            self._attempt_seq = state.attempt.seq  # kept: this is asked after every message
        return wants

    def action_limit(self, tool: str = "", args: Mapping[str, Any] | None = None) -> ActionLimit:
        """Return how long this action may take, or any that is no step with a time of its own."""
        is_runbook = self.traits.is_runbook
        return action_limit(
            self.core.state, self.settings.limits, tool, args or {}, is_runbook=is_runbook
        )

    # -- the record --------------------------------------------------------------------------------

    @contextmanager
    def entering(self) -> Iterator[Core]:
        """Bracket commands to the core; see `entering` of the goals. Raises WrongState while the worker stops."""
        self.refuse_while_stopping()
        with self.recording():
            yield self.core

    def refuse_while_stopping(self) -> None:
        """Raise WrongState if the worker is being stopped."""
        if self.stopping:
            raise WrongState("the worker is being stopped")

    @contextmanager
    def recording(self) -> Iterator[Core]:
        """Bracket commands that are recorded whether or not the worker is being stopped."""
        try:
            with self.parts.goals.entering(self.core):
                yield self.core
        finally:
            (self.idle.clear if self.core.state.in_flight else self.idle.set)()

    async def decide(self, command: Callable[[Core], T]) -> T:
        """Pass the core a command and wait until its events are durable; raises WrongState while the worker stops."""
        self.refuse_while_stopping()
        return await self.record(command)

    async def record(self, command: Callable[[Core], T]) -> T:
        """Pass the core a command whether or not the worker is being stopped; wait until its events are durable."""
        with self.recording() as core:
            result = command(core)
        await self.commit()
        return result

    async def commit(self) -> None:
        """Wait until all that was emitted so far is durable."""
        await self.parts.goals.commit(self.core)

    def knows_action(self, seq: int) -> bool:
        """Return whether an action of that number was ever allowed; for outcomes that are reported twice."""
        row = next(iter(self.parts.goals.ledger.read(self.goal_id, seq - 1, 1)), None)
        return row is not None and row.seq == seq and row.kind == "action_allowed"

    def hand_over(self, left: str = "") -> None:
        """Hand the goal, which was not planned again, to a person; `left` says what the agent did instead."""
        with self.recording() as core:
            core.ask(stuck(core.state, left), time.time())

    async def refresh_login(self, place: str, text: str) -> str:
        """Write refreshed tokens of a coding agent back to the user's file; return why not, "" if it was done."""
        agent, keys = self.traits.agent, self.parts.keys
        if not (isinstance(agent, CliAgentSettings) and agent.refresh_credentials):
            return "`refresh_credentials` is not set"
        paths = {place_of(path, keys.env): path for path in keys.login_files(agent)}
        old = self.logins.get(place)
        if old is None or place not in paths:
            return "no login file has this place"
        hide(list(secrets_of(text)))
        reason = await asyncio.to_thread(write_back, paths[place], old, text)
        if not reason:
            self.logins = {**self.logins, place: text}
        return reason

    async def hold_to_limits(self) -> str:
        """Hand the goal to a person where a limit is reached; returns which, "" for none."""
        with self.recording() as core:
            spent = core.hold_to_limits(time.time())
        if spent:
            await self.commit()
        return spent

    # -- the workspace -----------------------------------------------------------------------------

    @property
    def agent_acts(self) -> bool:
        """Whether the agent carries out an action itself now, as far as it has reported."""
        return self.traits.own_tools and bool(self.core.state.in_flight)

    async def look(self) -> None:
        """Record the world as it is now: others may have changed it."""
        world = await self.executors.digest(full=True, own=self.agent_acts)
        with self.entering() as core:
            core.see_world(world, time.time(), unseen_work=self.traits.own_tools)

    async def look_past_claims(self) -> None:
        """Go by the disk where an agent that cannot write has claimed a change.

        What its executor may do must not depend on its claims: a lie would lead out of every block.
        """
        if self.traits.own_tools or not self.core.goes_by_a_claim:
            return
        world = await self.executors.digest(full=True)
        with self.entering() as core:
            core.drop_claim(world, time.time())

    async def missing(self) -> Missing | None:
        """Return what is wrong with the workspace, None where it is as it should be."""
        return await asyncio.to_thread(self._guard.missing)

    async def hand_over_if_missing(self) -> Missing | None:
        """Block the goal for a person where its workspace is missing; return what is wrong with it."""
        if missing := await self.missing():
            await self.hand_over_missing(missing)
        return missing

    async def hand_over_missing(self, missing: Missing) -> None:
        """Hand the goal, whose workspace is missing, to a person."""
        await block_missing(self.parts.goals, self.core, missing)

    async def require_workspace(self) -> None:
        """Hand the goal to a person and raise WrongState where its workspace is not what it was."""
        if missing := await self.hand_over_if_missing():
            raise WrongState(f"{missing.reason}; the goal waits for a person")
