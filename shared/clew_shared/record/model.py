"""The tree of work, Goal → Task → Subtask → Action, with its statuses; the rules are in `gate` and `core`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from clew_shared.record.signature import signature

if TYPE_CHECKING:
    from clew_shared.record.spec import PlannedSubtask, PlannedTask

ACTIONS_KEPT = 20  # of a subtask, in its state: the last ones; all of them are in the ledger
Level = Literal["task", "goal", "person"]  # who has to find another way after an escalation


class GoalStatus(StrEnum):
    """The status of a goal (docs/architecture.md, States of a goal)."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    WAITING = "waiting"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class StepStatus(StrEnum):
    """The status of a task or a subtask."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    SKIPPED = "skipped"

    @property
    def done(self) -> bool:
        return self in (StepStatus.COMPLETED, StepStatus.SKIPPED)


class Result(StrEnum):
    """The result of an action."""

    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"
    TIMEOUT = "timeout"
    BLOCKED = "blocked"
    INTERRUPTED = "interrupted"


@dataclass(slots=True)
class Action:
    """One tool call; `result` is empty while it is in flight, `exit_code` None where it ran no command.

    `paths` are the first names that it changed, quoted, `judges` those that judge, `run` counts the same step's.
    """

    name: str
    args: dict[str, Any] = field(default_factory=dict)
    result: str = ""
    seq: int = 0
    timestamp: str = ""
    duration_s: float = 0.0
    changed: bool | None = None
    paths: tuple[str, ...] = ()
    task_idx: int = 0
    subtask_idx: int = 0
    epoch: int = 0
    attempt: int = 1
    exit_code: int | None = None
    run: int = 1
    judges: tuple[str, ...] = ()

    def signature(self) -> str:
        return signature(self.name, self.args)


@dataclass(slots=True)
class LlmCost:
    """The cost of LLM calls: tokens as the server counted them, seconds of wall-clock time."""

    tokens: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    llm_s: float = 0.0
    calls: int = 0
    active_s: float = 0.0


@dataclass(slots=True)
class Subtask:
    """One concrete step of a task; `steps` are a runbook's actions, `insights` what the agent found most relevant."""

    description: str
    status: str = StepStatus.PENDING
    attempts: int = 0
    last_failure: str = ""
    actions_total: int = 0
    actions: list[Action] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    summary: str = ""
    inherits: bool = False
    insights: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, planned: PlannedSubtask) -> Subtask:
        steps = [
            {"tool": s.tool, "args": s.args} | ({"timeout_s": s.timeout_s} if s.timeout_s else {})
            for s in planned.steps
        ]
        status = StepStatus.COMPLETED if planned.done else StepStatus.PENDING
        return cls(planned.description, status, steps=steps)

    @property
    def open(self) -> bool:
        return self.status in (StepStatus.PENDING, StepStatus.IN_PROGRESS)

    @property
    def done(self) -> bool:
        return StepStatus(self.status).done


@dataclass(slots=True)
class Task:
    """A part of the goal, made of subtasks."""

    description: str
    subtasks: list[Subtask] = field(default_factory=list)
    status: str = StepStatus.PENDING
    failed_replans: int = 0
    replanned: bool = False

    @classmethod
    def of(cls, planned: PlannedTask) -> Task:
        return cls(planned.description, list(map(Subtask.of, planned.subtasks)))

    def settle(self) -> None:
        statuses = {StepStatus(s.status) for s in self.subtasks}
        done = {s for s in statuses if s.done}
        telling = (StepStatus.BLOCKED, StepStatus.IN_PROGRESS, StepStatus.FAILED)
        if statuses:
            other = StepStatus.IN_PROGRESS if done else StepStatus.PENDING
            found = next((status for status in telling if status in statuses), other)
            self.status = StepStatus.COMPLETED if done == statuses else found


@dataclass(slots=True)
class Goal:
    """What a person wants done."""

    description: str
    tasks: list[Task] = field(default_factory=list)
    status: str = GoalStatus.QUEUED
    failed_replans: int = 0
    replanned: bool = False

    @property
    def subtasks(self) -> list[Subtask]:
        return [subtask for task in self.tasks for subtask in task.subtasks]

    def progress(self) -> float:
        """Return the share of the subtasks that are done, 0 to 1; 1 only for a completed goal."""
        if self.status == GoalStatus.COMPLETED:
            return 1.0
        done = [subtask.done for subtask in self.subtasks]
        return min(round(sum(done) / len(done), 4), 0.9999) if done else 0.0

    def settle(self) -> None:
        for task in self.tasks:
            task.settle()
