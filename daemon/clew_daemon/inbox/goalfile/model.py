"""What a goal file says once it is read: plain frozen values, and the errors of one that cannot be used.

Pure data; Markdown is read in `goalfile_body.py`, front matter in `goalfile_front.py`.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    """What all parts of a goal file have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RunbookStep(Frozen):
    """One fenced block of an item: an action of the runbook agent; `line` is where it begins."""

    tool: Literal["write_file", "run_cmd"]
    args: dict[str, Any]
    line: int


class GoalFileSubtask(Frozen):
    """One list item; `notes` is what it says beyond its first paragraph and its steps."""

    description: str
    done: bool = False
    notes: str = ""
    steps: tuple[RunbookStep, ...] = ()


class GoalFileTask(Frozen):
    """One `##` section with its items; `notes` is its prose."""

    description: str
    notes: str = ""
    subtasks: tuple[GoalFileSubtask, ...]


class Budget(Frozen):
    """What the goal may use at most; None is no limit."""

    tokens: int | None = None
    wall_s: float | None = None


class GoalFile(Frozen):
    """A goal as its file gives it; `text` is the file as it came, without a byte order mark.

    `not_before` is aware and in UTC. `checks` has the commands by name, those of `## Done when`
    as `done_1`, `done_2`, … `folder` is the one that `workspace` means here, where that was asked for. `lines` has
    the line of each key of the front matter. `unknown_keys` are ignored; `suggestions` says what some may mean.
    """

    description: str
    text: str
    name: str = ""
    notes: str = ""
    workspace: str | None = None
    folder: Path | None = None
    agent: str | None = None
    checks: dict[str, str] = Field(default_factory=dict)
    priority: int = 0
    max_iterations: int | None = None
    budget: Budget = Budget()
    not_before: datetime | None = None
    depends_on: tuple[str, ...] = ()
    on_interrupt: Literal["retry", "ask"] = "retry"
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


@dataclass(frozen=True)
class GoalFileFault:
    """One thing that is wrong in a goal file; `line` counts from 1, None is the whole file."""

    line: int | None
    message: str

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


class GoalFileError(ValueError):
    """The goal file cannot be used; its text, all errors one a line, is that of NAME.error.txt."""

    def __init__(self, name: str, faults: list[GoalFileFault]) -> None:
        self.name = name
        self.faults = sorted(faults, key=lambda fault: fault.line or 0)
        super().__init__("\n".join([f"{name} cannot be used:", *map(str, self.faults)]))


def shortened(text: str, chars_max: int) -> str:
    """Return the text on one line, cut at a word with an ellipsis where it is too long."""
    line = " ".join(text[: chars_max * 4].split())
    if len(line) <= chars_max:
        return line
    cut = line[: chars_max - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut[chars_max // 2 :] else cut) + "…"
