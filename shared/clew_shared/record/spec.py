"""What a goal is asked to be: its goal file's settings and texts, and the tasks, subtasks and steps of a plan."""

from typing import Any, Literal

from pydantic import BaseModel, Field

SUGGESTED_MAX = 5  # checks that an agent can suggest for a goal
CHECK_NAME_CHARS, CHECK_CMD_CHARS = 60, 500  # of each


class PlannedStep(BaseModel, frozen=True):
    """An action of a runbook, as the goal file gives it."""

    tool: str
    args: dict[str, Any]
    timeout_s: float | None = None


class PlannedSubtask(BaseModel, frozen=True):
    """A subtask of a plan; `continues` is the number of the pending subtask that a replan keeps here, 0 for none."""

    description: str
    done: bool = False
    steps: tuple[PlannedStep, ...] = ()
    continues: int = 0


class PlannedTask(BaseModel, frozen=True):
    """A task of a plan."""

    description: str
    subtasks: tuple[PlannedSubtask, ...] = ()


class Spec(BaseModel, frozen=True, extra="ignore"):
    """What a goal file asks for besides its tree; durations in seconds, `not_before` in seconds since 1970."""

    description: str
    name: str = ""
    notes: str = ""
    done_when: str = ""
    workspace: str = ""
    agent: str = ""
    checks: dict[str, str] = Field(default_factory=dict)
    priority: int = 0
    max_iterations: int | None = None
    attempts: int | None = None
    budget_tokens: int | None = None
    budget_wall_s: float | None = None
    not_before: float | None = None
    depends_on: tuple[str, ...] = ()
    on_interrupt: Literal["retry", "ask"] = "retry"
    retries: int = 0
    timeout_s: float | None = None
    patience: float | None = None
    tests: tuple[str, ...] = ()  # patterns of files that judge and may change
    judges: tuple[str, ...] = ()  # patterns of further files that judge
    setup: str = ""  # makes a fresh copy of the workspace ready
    unknown_keys: tuple[str, ...] = ()
    file_name: str = ""
