"""One epoch of a goal, as the parts of its session share it: core, record, workspace, and the agent's kind."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from clew_daemon.config.profiles import settings_for
from clew_daemon.host.keys import login_copies
from clew_daemon.parts import DaemonParts
from clew_daemon.processes.nursery import Cell
from clew_daemon.processes.workspace_guard import Missing, WorkspaceGuard
from clew_daemon.record.doing import Work
from clew_daemon.record.goal_limits import ActionLimit, action_limit, present_agent
from clew_daemon.record.goals import GoalStore
from clew_daemon.session.snapshots import WorkspaceSnapshots
from clew_daemon.session.worker import AgentProcess, ExecutorPool
from clew_shared.config.agent_tables import CommandAgentSettings
from clew_shared.config.tables import Settings
from clew_shared.core.answers import WrongState
from clew_shared.core.core import Core
from clew_shared.core.questions import Question, stuck
from clew_shared.record import events as ev
from clew_shared.record.model import Result

T = TypeVar("T")


async def block_goal(goals: GoalStore, core: Core, asked: Question) -> None:
    """Block a goal with this question, and wait until that is durable."""
    await goals.decide(core, lambda core: core.ask(asked, time.time()))


async def block_missing(goals: GoalStore, core: Core, missing: Missing) -> None:
    """Block a goal whose workspace is missing; a runbook's step that found none runs again with the same word."""
    asked, subtask = missing.question(core.state), core.state.subtask
    last = subtask.actions[-1] if subtask and subtask.actions else None
    step = last.seq if last and last.result == Result.ERROR else 0
    with goals.entering(core):
        core.block(ev.GoalBlocked(
            at=time.time(), reason=asked.reason, question=asked.text, step=step,
            stranger=missing.stranger, gone=missing.gone,
        ))  # fmt: skip
    await goals.commit(core)


class Epoch:
    """The present epoch of a goal; raises KeyFileError where the agent's key cannot be read.

    An agent with `own_tools` may change the workspace without a report. Nothing that depends on the workspace is
    answered before that was `looked` at. While no action is carried out, as far as is known, it is `idle`.
    """

    def __init__(self, parts: DaemonParts, core: Core, guard: WorkspaceGuard) -> None:
        self.parts = parts
        self.core = core
        self.goal_id = core.state.goal_id
        self.number = core.state.epoch + 1
        self.agent_name, self.agent = present_agent(core.state, parts.settings_of(self.goal_id))
        self.kind = self.agent.kind
        self.own_tools = isinstance(self.agent, CommandAgentSettings) and self.agent.own_tools
        self._attempt_seq = core.state.attempt.seq
        self.credential = parts.keys.of(self.agent)
        self.logins = login_copies(parts.keys.login_files(self.agent), parts.keys.env)
        self.executors = ExecutorPool(parts, core.state, self.number, guard)
        self.snapshots = WorkspaceSnapshots(
            parts, core, self.executors, acting=lambda: self.agent_acts
        )
        self._guard = guard
        self.work = Work()
        self.looked, self.idle = asyncio.Event(), asyncio.Event()
        self.idle.set()
        self.stopping = False
        self.process: AgentProcess | None = None
        self.notify: Callable[[str, dict[str, Any]], None] = lambda _method, _params: None
        """Sends the agent a notification."""

    @property
    def settings(self) -> Settings:
        """The config as it is now for the agent's model, with the `[agents]` and `[limits]` of the goal's start."""
        needed = self.core.state.attempts.turns_needed
        return settings_for(self.parts.settings_of(self.goal_id), self.agent, needed)

    @property
    def wants_another_agent(self) -> bool:
        """Whether an attempt has begun for which the agent is set up differently than for the worker's start."""
        state = self.core.state
        if state.attempt.seq != self._attempt_seq:
            if present_agent(state, self.settings) != (self.agent_name, self.agent):
                return True
            self._attempt_seq = state.attempt.seq  # kept: this is asked after every message
        return False

    @property
    def cells(self) -> list[Cell]:
        """The cells of the agent that runs."""
        return self.process.cells if self.process else []

    def action_limit(self, tool: str = "", args: Mapping[str, Any] | None = None) -> ActionLimit:
        """Return how long this action may take, or any that is no step with a time of its own."""
        limits, runs_steps = self.settings.limits, self.kind == "runbook"
        return action_limit(self.core.state, limits, tool, args or {}, is_runbook=runs_steps)

    def refuse_while_stopping(self) -> None:
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

    def entering(self) -> AbstractContextManager[Core]:
        """Bracket commands to the core; raises WrongState while the worker stops."""
        self.refuse_while_stopping()
        return self.recording()

    async def record(self, command: Callable[[Core], T]) -> T:
        """Pass the core a command whether or not the worker is being stopped; wait until its events are durable."""
        with self.recording() as core:
            result = command(core)
        await self.commit()
        return result

    async def decide(self, command: Callable[[Core], T]) -> T:
        """Pass the core a command and wait until its events are durable; raises WrongState while the worker stops."""
        self.refuse_while_stopping()
        return await self.record(command)

    async def commit(self) -> None:
        await self.parts.goals.commit(self.core)

    def hand_over(self, left: str = "") -> None:
        """Hand the goal, which was not planned again, to a person; `left` says what the agent did instead."""
        with self.recording() as core:
            core.ask(stuck(core.state, left), time.time())

    async def hold_to_limits(self) -> str:
        """Hand the goal to a person where a limit is reached; returns which, "" for none."""
        core = self.core
        if not (core.state.workable and core.budget_spent(time.time())):
            return ""
        return await self.record(lambda core: core.hold_to_limits(time.time()))

    @property
    def agent_acts(self) -> bool:
        """Whether the agent carries out an action itself now, as far as it has reported."""
        return self.own_tools and bool(self.core.state.in_flight)

    async def see_world(self) -> None:
        """Record the world as it is now: others may have changed it."""
        world = await self.executors.digest(here=True, own=self.agent_acts)
        with self.entering() as core:
            core.see_world(world, time.time(), unseen_work=self.own_tools)

    async def see_past_claims(self) -> None:
        """Go by the disk where an agent that cannot write has claimed a change: a lie would lead out of every block."""
        if self.own_tools or not self.core.goes_by_a_claim:
            return
        world = await self.executors.digest(here=True)
        with self.entering() as core:
            core.drop_claim(world, time.time())

    async def missing(self) -> Missing | None:
        return await asyncio.to_thread(self._guard.missing)

    async def hand_over_if_missing(self) -> Missing | None:
        """Block the goal for a person where its workspace is missing; return what is wrong with it."""
        if missing := await self.missing():
            await block_missing(self.parts.goals, self.core, missing)
        return missing

    async def require_workspace(self) -> None:
        """Hand the goal to a person and raise WrongState where its workspace is not what it was."""
        if missing := await self.hand_over_if_missing():
            raise WrongState(f"{missing.reason}; the goal waits for a person")
