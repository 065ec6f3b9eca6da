"""What a goal is asked to be, as its file and plans say, and what is on record of a prompt in its place."""

from typing import Any, Literal

from pydantic import BaseModel, Field

SUGGESTED_MAX = 5  # checks that an agent can suggest for a goal
CHECK_NAME_CHARS, CHECK_CMD_CHARS = 60, 500  # of each
COUNT_MAX = 1 << 53  # the largest count that is accepted: sums of such still fit integers
SERVED_CHARS_MAX = 200
RUNGS_MAX = 16


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


class Prompt(BaseModel, frozen=True, extra="ignore"):
    """The prompt of a turn: sizes in characters, and the hash of what only a cut may change."""

    # of tools, system, goal, finished work, folded lines
    sha: str = Field(default="", max_length=64)
    cuts: int = Field(default=0, ge=0, le=COUNT_MAX)  # deliberate changes to these in this subtask
    chars: int = Field(default=0, ge=0, le=COUNT_MAX)
    kept: int = Field(default=0, ge=0, le=COUNT_MAX)  # as much as the previous call began with
    ending: int = Field(default=0, ge=0, le=COUNT_MAX)  # the state block
    folded: int = Field(default=0, ge=0, le=COUNT_MAX)  # entries of the transcript that were lines
    window: str = Field(default="full", max_length=20)
    mode: Literal["tools", "json"] = "tools"
    tightness: int = Field(default=0, ge=0, le=16)
    chars_per_token: float = Field(default=4.0, gt=0, le=64)
    model: str = Field(default="", max_length=600)  # and its endpoint
    # what its server says that it runs
    served: str = Field(default="", max_length=SERVED_CHARS_MAX)
    # the richest `response_format` that the server accepts in JSON mode, counted from 0
    rung: int = Field(default=0, ge=0, le=RUNGS_MAX)
