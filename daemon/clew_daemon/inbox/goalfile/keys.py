"""What a goal file says once it is read, and what each key of its front matter may be. Pure. See docs/goal-files.md."""

import re
from collections.abc import Collection
from datetime import UTC, date, datetime, time
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from clew_daemon.record.dependencies import name_fault
from clew_shared.config.tables import patterns
from clew_shared.record.spec import PlannedTask
from clew_shared.text.shorten import in_one_line
from clew_shared.text.spelling import closest
from clew_shared.text.validation import Expected

CHECKS_MAX = 100
NUMBER_MAX = 10**12
DURATION_MAX_S = 7 * 86_400
RETRIES_MAX = 10

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)", re.ASCII)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


class GoalFileFault(ValueError):
    """One thing that is wrong in a goal file; `line` counts from 1, None is the whole file."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line, self.message = line, message


class GoalFileError(ValueError):
    """The goal file cannot be used; its text, all errors one a line, is that of NAME.error.txt."""

    def __init__(self, name: str, faults: list[GoalFileFault]) -> None:
        self.name = name
        self.faults = sorted(faults, key=lambda fault: fault.line or 0)
        super().__init__("\n".join([f"{name} cannot be used:", *map(str, self.faults)]))


def cut(text: str) -> str:
    return in_one_line(text, 60)


def duration(value: Any) -> float:
    """Return the seconds of a duration: a number, or one with a unit such as `20m`."""
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    number: Any = float(found[1]) * _UNITS[found[2]] if found else value
    if type(number) not in {int, float}:
        raise Expected("a time like 90s, 20m or 2h, or a number of seconds")
    if not 0 < number <= DURATION_MAX_S:
        raise Expected("a time above 0, and at most 7 days")
    return float(number)


def _stripped(text: str) -> str:
    if not text.strip():
        raise Expected("text")
    return text.strip()


def _goal_name(name: str) -> str:
    if fault := name_fault(name):
        raise ValueError(f"{fault}: `{cut(name)}`")
    return name


def _workspace(path: str) -> str:
    if path != "~" and not path.startswith("~/") and not PurePosixPath(path).is_absolute():
        raise Expected("an absolute path or begin with ~/")
    return path


def _known_agent(name: str, info: ValidationInfo) -> str:
    """Refuse a name that is not among the `agents` of the validation's context."""
    agents: Collection[str] = (info.context or {})["agents"]
    if name in agents:
        return name
    question = f" (did you mean {meant}?)" if (meant := closest(name, agents)) else ""
    available = ", ".join(sorted(agents)) or "none"
    unknown, hint = f"names an unknown agent `{cut(name)}`{question}", "if you have just added it"
    raise ValueError(f"{unknown}; available: {available}; {hint}: clew reload")


def _moment(value: Any) -> datetime:
    """Return the moment in UTC; one without a zone is taken as UTC, a date as its first moment."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(moment, date) and not isinstance(moment, datetime):
            moment = datetime.combine(moment, time())
        if isinstance(moment, datetime):
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        pass
    raise Expected("a time like 2026-12-01T06:00:00Z")


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _by_name(value: Any) -> Any:
    is_named = isinstance(value, dict)
    return value if is_named else dict(enumerate(value if isinstance(value, list) else [value]))


def _named(checks: dict[Any, str]) -> dict[str, str]:
    if not checks:
        how = "write lines of `name: command`, or delete the line for a goal without checks"
        raise ValueError(f"is empty: {how}")
    if len(checks) > CHECKS_MAX:
        raise ValueError(f"must be at most {CHECKS_MAX}, not {len(checks)}")
    return {name if isinstance(name, str) else f"check_{name + 1}": c for name, c in checks.items()}


def _patience(value: Any) -> Any:
    """Return the number of steps; YAML reads a bare `off` as false."""
    return 0.0 if value is False or value == "off" else value


def _may_change(value: Any) -> Any:
    """Return the patterns of tests that may change: none where they are guarded, all files where they `may change`."""
    if isinstance(value, str) and value in (words := {"guarded": (), "may change": ("**",)}):
        return words[value]
    if not isinstance(value, list | tuple):
        raise Expected("`guarded`, `may change` or a list of patterns, like [tests/api/**]")
    return value


Text = Annotated[str, AfterValidator(_stripped)]
Patterns = Annotated[tuple[Text, ...], Field(strict=False), AfterValidator(patterns)]
Positive = Annotated[int, Field(ge=1, le=NUMBER_MAX)]
Commands = Annotated[dict[Any, Text], BeforeValidator(_by_name), AfterValidator(_named)]


class Budget(BaseModel):
    """What the goal may use at most; None is no limit."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)

    tokens: Positive | None = None
    wall_s: Annotated[float, Field(gt=0, le=NUMBER_MAX)] | None = None


class FrontMatter(BaseModel):
    """The values of the keys; the validation's context has the names of the `agents`. `not_before` is in UTC."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    name: Annotated[Text, AfterValidator(_goal_name)] = ""
    workspace: Annotated[Text, AfterValidator(_workspace)] | None = None
    agent: Annotated[Text, AfterValidator(_known_agent)] | None = None
    checks: Commands = Field(default_factory=dict)
    priority: Annotated[int, Field(ge=-NUMBER_MAX, le=NUMBER_MAX)] = 0
    max_iterations: Positive | None = None
    attempts: Positive | None = None
    budget: Budget = Budget()
    not_before: Annotated[datetime, BeforeValidator(_moment)] | None = None
    depends_on: Annotated[
        tuple[Text, ...],
        BeforeValidator(_listed),
        AfterValidator(lambda names: tuple(dict.fromkeys(names))),
    ] = ()
    on_interrupt: Literal["ask", "retry"] = "ask"
    retries: Annotated[int, Field(ge=0, le=RETRIES_MAX)] = 0
    timeout: Annotated[float, BeforeValidator(duration)] | None = None
    patience: Annotated[float, BeforeValidator(_patience), Field(ge=0, le=NUMBER_MAX)] | None = None
    tests: Annotated[Patterns, BeforeValidator(_may_change)] = ()
    judges: Annotated[Patterns, BeforeValidator(_listed)] = ()
    setup: Text = ""


class GoalFile(FrontMatter):
    """A goal as its file gives it; `notes` are all its prose, for the agent.

    `checks` has the commands by name, those of `## Done when` as `done_1`, `done_2`, … `folder` is the one that
    `workspace` means on this machine, where the caller asked for it. `lines` has the line of each key of the front
    matter. `unknown_keys` are ignored; they stand with the keys that they may mean, "" for none.
    """

    description: str
    notes: str = ""
    folder: Path | None = None
    agent: str | None = None
    checks: dict[str, str] = Field(default_factory=dict)
    done_when: str = ""
    tasks: tuple[PlannedTask, ...] = ()
    lines: dict[str, int] = Field(default_factory=dict)
    unknown_keys: dict[str, str] = Field(default_factory=dict)

    @property
    def runnable_without_llm(self) -> bool:
        """Whether every open subtask has steps, and there is at least one subtask."""
        subtasks = [subtask for task in self.tasks for subtask in task.subtasks]
        return bool(subtasks) and all(subtask.done or subtask.steps for subtask in subtasks)
