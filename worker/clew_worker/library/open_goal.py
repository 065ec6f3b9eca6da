"""What `ContextManager` needs of the goal that it has open: `LocalGoal` without a daemon, `RemoteGoal` with one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from clew_shared.core.answers import ActionReport, Advice, Verdict
from clew_shared.prompt.compact import RECENT_ACTIONS
from clew_shared.record.model import Goal, StepStatus
from clew_shared.record.state import State
from clew_shared.wire.answers import Intervention, Judged, Recorded
from clew_worker.library.work_state import Answer, WorkState, subtasks_of


class OpenGoal(ABC):
    """One goal, its record and its judge; each call that changes anything is durable when it returns."""

    failing: Mapping[str, str] = MappingProxyType({})
    """The checks that the last `finish` failed by, with their outputs; without a daemon none are run."""

    recent_actions = RECENT_ACTIONS
    """The last actions that the compact context shows."""

    loops_found: Sequence[dict[str, Any]] = ()
    """The entries of loops.json; the protocol does not send them."""

    @property
    @abstractmethod
    def work(self) -> WorkState: ...

    @property
    @abstractmethod
    def state(self) -> State:
        """The goal's state as it is recorded, or as the daemon sends it."""

    @abstractmethod
    def record(self, tool: str, args: dict[str, Any], report: ActionReport) -> Answer: ...

    @abstractmethod
    def propose(self, tool: str, args: dict[str, Any]) -> Answer: ...

    @abstractmethod
    def outcome(self, seq: int, report: ActionReport) -> Answer:
        """Store the outcome of an allowed action; a second one has no effect."""

    @abstractmethod
    def see_probes(self, probes: dict[str, bool]) -> None: ...

    @abstractmethod
    def complete(self, reason: str, *, success: bool) -> str | None:
        """End the current subtask, or count a failed attempt; returns the level that must find another way."""

    def advance(self) -> bool:
        """Advance to the next pending subtask, past a blocked one; False if none is left.

        An agent that continues gives up the blocked subtask, since no one else replans. The goal is finished when all
        is done.
        """
        if self._advance():
            return True
        if all_done(self.state.goal):
            self.finish("", success=True)
        return False

    @abstractmethod
    def _advance(self) -> bool: ...

    @abstractmethod
    def finish(self, summary: str, *, success: bool) -> bool: ...

    @abstractmethod
    def settle(self) -> None: ...

    def save(self) -> None:
        """Record manual changes, and publish."""
        self.settle()

    @abstractmethod
    def close(self) -> None: ...


def all_done(goal: Goal) -> bool:
    """Return whether there are subtasks, and all of them are done."""
    subtasks = subtasks_of(goal)
    return bool(subtasks) and all(StepStatus(one.status).done for one in subtasks)


def answer_of(judged: Verdict | Judged | Recorded, *, allowed: bool, message: str = "") -> Answer:
    """Return a verdict as the agent gets it; `message` takes the place of its own."""
    said, told = message or judged.message, intervention_of(judged.intervention)
    return Answer(allowed, judged.seq, judged.reason, said, told, judged.escalated_to)


def intervention_of(found: Advice | Intervention | None) -> dict[str, str] | None:
    """Return an intervention as the agent gets it."""
    return {"kind": str(found.kind), "message": found.message} if found else None
