"""What a goal file says once it is read: plain frozen values. Pure data."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from clew_daemon.inbox.goalfile.keys import FrontMatter


class _FrozenPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RunbookStep(_FrozenPart):
    """One fenced block of an item: an action of the runbook agent; `line` is where it begins."""

    tool: Literal["write_file", "run_cmd"]
    args: dict[str, Any]
    line: int
    timeout_s: float | None = None


class GoalFileSubtask(_FrozenPart):
    """One list item; `notes` is what it holds beyond its first paragraph and its steps."""

    description: str
    done: bool = False
    notes: str = ""
    steps: tuple[RunbookStep, ...] = ()


class GoalFileTask(_FrozenPart):
    """One `##` section with its items; `notes` is its prose."""

    description: str
    notes: str = ""
    subtasks: tuple[GoalFileSubtask, ...]


class GoalFile(FrontMatter):
    """A goal as its file gives it; `text` is the file as it came, without a byte order mark.

    `checks` has the commands by name, those of `## Done when` as `done_1`, `done_2`, … `folder` is the one that
    `workspace` means on this machine, where the caller asked for it. `lines` has the line of each key of the front
    matter. `unknown_keys` are ignored; `suggestions` has the keys that some of them may mean.
    """

    description: str
    text: str
    notes: str = ""
    folder: Path | None = None
    agent: str | None = None
    checks: dict[str, str] = Field(default_factory=dict)
    done_when: str = ""
    tasks: tuple[GoalFileTask, ...] = ()
    lines: dict[str, int] = Field(default_factory=dict)
    unknown_keys: tuple[str, ...] = ()
    suggestions: dict[str, str] = Field(default_factory=dict)

    @property
    def runnable_without_llm(self) -> bool:
        """Whether every open subtask has steps, and there is at least one subtask."""
        subtasks = [subtask for task in self.tasks for subtask in task.subtasks]
        return bool(subtasks) and all(subtask.done or subtask.steps for subtask in subtasks)
