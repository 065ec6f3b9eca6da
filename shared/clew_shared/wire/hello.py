"""The answer to `hello`: a goal's state and all that an agent needs to continue (docs/protocol.md).

The daemon builds it, agents validate it once. An agent ignores fields that it does not know, and fills in those
that are missing; `[context]` must be as the config's own table allows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator

from clew_shared.config.tables import ContextSettings
from clew_shared.core.journal import TurnsLeft
from clew_shared.record.model import Goal, Level, StepStatus, Subtask, Task
from clew_shared.record.spec import Prompt
from clew_shared.tools import Tool
from clew_shared.wire.answers import AnswerModel

Mode = Literal["tools", "json"]
"""How a model makes calls: as native tool calls, or as JSON in its text."""


# ---- the transcript of the current subtask; foreign agents write entries too, so that any JSON can be read


@dataclass(frozen=True, slots=True)
class Call:
    """An action in the transcript."""

    seq: int = 0  # its number in the ledger, below 0 where the agent answered it itself
    name: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    result: str = ""
    output: str = ""
    message: str = ""  # the text of a refusal
    changed: bool | None = None
    exit_code: int | None = None
    insight: str = ""  # what the model found in the result one turn later
    relevance: str = ""
    signature: str = ""
    at: float | None = None  # when its outcome was recorded, in seconds since 1970

    @property
    def recorded(self) -> bool:
        """Whether the call is in the ledger."""
        return self.seq > 0


@dataclass(frozen=True, slots=True)
class Said:
    """Text between the calls, the model's own or a note to it; one that `warns` stays visible when folded."""

    role: Literal["assistant", "user"] = "user"
    text: str = ""
    warns: bool = False
    recorded: ClassVar = False


Entry = Call | Said

_TEXTS = ("name", "result", "output", "message", "insight", "relevance", "signature")
_KINDS = {"seq": int, "args": Mapping, "changed": bool, "exit_code": int, "at": int | float}


def entry_json(entry: Entry) -> dict[str, Any]:
    """Return an entry as it is sent: without its empty fields."""
    values = {one.name: getattr(entry, one.name) for one in fields(entry)}
    return {key: value for key, value in values.items() if value not in ("", None)}


def entry_from(raw: Any) -> Entry:
    """Return an entry of any JSON object: text if it has a `role`, else a call."""
    if isinstance(raw, Call | Said):
        return raw
    given = raw if isinstance(raw, Mapping) else {}
    if "role" in given:
        text, warns = str(given.get("text") or ""), bool(given.get("warns"))
        return Said("assistant" if given["role"] == "assistant" else "user", text, warns)
    found: dict[str, Any] = {key: str(given.get(key) or "") for key in _TEXTS}
    found |= {key: given[key] for key, kind in _KINDS.items() if isinstance(given.get(key), kind)}
    return Call(**found)


SentEntry = Annotated[
    Entry, PlainValidator(entry_from), PlainSerializer(entry_json, return_type=dict[str, Any])
]


_SENT = {
    "description", "status", "tasks", "subtasks", "attempts", "last_failure", "actions_total", "actions", "steps",
    "seq", "timestamp", "name", "args", "result", "duration_s", "changed", "paths", "judges", "task_idx", "subtask_idx",
    "epoch", "attempt",
}  # fmt: skip
"""The fields of the tree's parts that are sent."""


def _tree_from(part: Any) -> Any:
    """Return a part of a tree as JSON without its nulls, and with the names that it may lack."""
    if isinstance(part, Mapping):
        found = {key: value for key, value in part.items() if value is not None}
        inner = {k: v if k in ("args", "steps") else _tree_from(v) for k, v in found.items()}
        return {"description": "", "name": "", **inner}
    return [*map(_tree_from, part)] if isinstance(part, list | tuple) else part


def _tree_json(part: Any) -> Any:
    if isinstance(part, list):
        return [*map(_tree_json, part)]
    if not is_dataclass(part):
        return part
    names = [name for name in part.__dataclass_fields__ if name in _SENT]
    sent = {name: _tree_json(getattr(part, name)) for name in names}
    return sent | ({"last_failure": part.last_failure or None} if isinstance(part, Subtask) else {})


Tree = Annotated[Goal, BeforeValidator(_tree_from), PlainSerializer(_tree_json)]


class SentProbe(AnswerModel):
    """What a probe or a check has found after which action; `current`: nothing has changed since."""

    passed: bool = False
    after: int = 0
    current: bool = False


class FinishedSubtask(AnswerModel):
    """A subtask that is over, with what came of it."""

    description: str
    summary: str = ""
    status: str = StepStatus.COMPLETED
    insights: tuple[str, ...] = ()


class HelloState(AnswerModel):
    """A goal's state, as in state.json, with what only an agent needs."""

    version: int = 1
    goal_id: str = ""
    goal: Tree = Field(default_factory=lambda: Goal(""))
    current_task_idx: int = 0
    current_subtask_idx: int = 0
    loop_counts: dict[str, int] = Field(default_factory=dict)
    blocked_actions: tuple[str, ...] = ()
    last_probe_state: dict[str, bool] = Field(default_factory=dict)
    iteration: int = 0
    epoch: int = 0
    restarts: int = 0
    seq: int = 0
    replan_required: Level | None = None
    finished: tuple[FinishedSubtask, ...] = ()
    given_up: tuple[str, ...] = ()  # subtasks that a replan gave up
    actions_total: int = 0  # allowed actions, of all plans
    progress: float = 0.0  # the goal's, 0 to 1
    iterations_granted: int = 0  # the iterations before the last reopening
    turns_left: TurnsLeft | None = None
    probes: dict[str, SentProbe] = Field(default_factory=dict)
    prompt: Prompt | None = None
    transcript: tuple[SentEntry, ...] = ()
    folded: int = 0  # how many entries of the transcript are shown as one line each
    idea: str = ""  # what the agent wanted to do next
    there: tuple[str, ...] = ()  # some paths in the workspace when the conversation began

    @property
    def task(self) -> Task:
        """The current task; an empty one where there is none."""
        tasks, at = self.goal.tasks, self.current_task_idx
        return tasks[at] if 0 <= at < len(tasks) else Task("")

    @property
    def subtask(self) -> Subtask:
        """The current subtask; an empty one that is over where there is none."""
        subtasks, at = self.task.subtasks, self.current_subtask_idx
        return subtasks[at] if 0 <= at < len(subtasks) else Subtask("", status="")

    @property
    def open_subtasks(self) -> list[str]:
        """The descriptions of the subtasks that are not over, blocked ones included."""
        return [
            s.description for s in self.goal.subtasks if s.open or s.status == StepStatus.BLOCKED
        ]

    @property
    def planned(self) -> bool:
        """Whether the tree is more than the implicit subtask, which bears the goal's description."""
        return [s.description for s in self.goal.subtasks] != [self.goal.description]

    @property
    def acted(self) -> bool:
        """Whether any action was proposed."""
        return bool(self.actions_total) or any(s.actions_total for s in self.goal.subtasks)

    @property
    def replaceable(self) -> list[Subtask]:
        """The pending subtasks that the required replan may replace, in the order of their numbers from 1."""
        subtasks = self.task.subtasks if self.replan_required == "task" else self.goal.subtasks
        return [s for s in subtasks if s.status == StepStatus.PENDING]


class ContextOptions(ContextSettings, strict=False, extra="allow"):
    """`[context]`; keys that are not known here are passed on as they are."""


class AgentOptions(AnswerModel, extra="allow"):
    """The agent's own table, as far as the llm agent reads it."""

    base_url: Annotated[str, BeforeValidator(lambda url: url or "")] = ""
    model: str = ""
    mode: Literal["auto", "tools", "json"] = "auto"
    temperature: float | None = None
    timeout_s: float = 300.0
    reflection: Literal["inline", "separate", "off"] = "off"


class HelloOptions(AnswerModel):
    """What an agent is configured with."""

    agent: AgentOptions = AgentOptions()
    context: ContextOptions = ContextOptions()
    playbook: dict[str, object] = Field(default_factory=dict)


class GoalTerms(AnswerModel):
    """What the goal file asks for besides its tree; `max_iterations` is None where the configuration decides."""

    workspace: str = ""
    done_when: str = ""
    max_iterations: int | None = None
    budget_tokens: int | None = None
    on_interrupt: Literal["retry", "ask"] = "retry"


class AttemptTerms(AnswerModel):
    """The present attempt: its number of `limit`, why the one before it ended, and what was tried."""

    n: int = 1
    limit: int = 1
    reason: str = ""
    tried: tuple[str, ...] = ()
    rung: dict[str, Any] = Field(default_factory=dict)  # what differs from the agent's settings
    iterations: int | None = None  # None where the subtask has one attempt
    from_iteration: int = 0  # the goal's iteration at its start
    from_actions: int = 0  # the subtask's actions before it
    restored: int = 0
    kept: str = ""  # why the workspace was not restored to where the subtask began
    left: tuple[str, ...] = ()  # some files that were not restored


class HelloAnswer(AnswerModel):
    """The answer to `hello`; `credential` is the LLM's key, `logins` are login files by places in the private HOME."""

    protocol: int = 1
    goal_id: str = ""
    epoch: int = 0
    state: HelloState = HelloState()
    thresholds: dict[str, Any] = Field(default_factory=dict)
    playbook: tuple[dict[str, Any], ...] = ()
    heartbeat_s: float = 1.0
    tools: tuple[Tool, ...] = ()
    notes: str = ""
    feedback: tuple[str, ...] = ()
    checks: dict[str, str] = Field(default_factory=dict)
    spec: GoalTerms = GoalTerms()
    attempt: AttemptTerms = AttemptTerms()
    options: HelloOptions = HelloOptions()
    credential: str | None = None
    logins: dict[str, str] = Field(default_factory=dict)
