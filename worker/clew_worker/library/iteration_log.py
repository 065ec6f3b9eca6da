"""The iteration log: the records of an agent's turns, and what they say of where it stands.

A record has its tool calls, their results, and the agent's own assessment; what the agent did not say is empty. This
log relies on that assessment, while the daemon judges progress by evidence.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    ValidationError,
)

from clew_shared.prompt import reasoning
from clew_shared.prompt.reasoning import FOUND_CHARS, as_text, relevant_lines
from clew_shared.prompt.windows import JSON_CHARS_PER_TOKEN
from clew_shared.text.shorten import in_one_line
from clew_shared.text.validation import faults_of

MAX_RAW_OUTPUT_CHARS = 1000
_LISTED_FAILURES = 5

Outcome = Literal["success", "failure", "timeout", "error"]
Assessment = Annotated[
    Literal["advancing", "stuck", "regressing", ""],
    BeforeValidator(lambda said: "" if said is None else said),
]


def _named(*names: str, default: Any = ...) -> Any:
    return Field(default, validation_alias=AliasChoices(*names))


Text = Annotated[str, BeforeValidator(as_text)]
"""Free text; missing is "", a list of sentences is joined."""
Output = Annotated[Text, AfterValidator(lambda text: text[:MAX_RAW_OUTPUT_CHARS])]
Params = Annotated[dict[str, object], BeforeValidator(lambda given: given or {})]
Moment = Annotated[datetime, AfterValidator(lambda at: at if at.tzinfo else at.replace(tzinfo=UTC))]


class Cost(BaseModel, extra="allow"):
    """The cost of one tool call in tokens and seconds."""

    tokens: NonNegativeInt = 0
    time: NonNegativeFloat = 0.0


class ToolCallRecord(BaseModel, extra="allow"):
    """One tool call, also by the names `name`, `args` and `result`; `execution_time` is in seconds."""

    tool: Annotated[str, Field(min_length=1)] = _named("tool", "name")
    params: Params = _named("params", "args", default={})
    raw_output: Output = _named("raw_output", "result", default="")
    outcome: Outcome = "success"
    execution_time: NonNegativeFloat = 0.0
    cost: Cost = Field(default_factory=Cost)
    tool_selection_rationale: Text = ""
    insights: Text = ""
    learning: Text = ""
    relevance: Literal["high", "medium", "low"] = "medium"
    next_suggested_actions: Text = ""

    def line(self) -> str:
        """Return the call and its result in one line."""
        found = reasoning.found(self.insights, self.learning, self.outcome, self.raw_output)
        return reasoning.reasoning_line(reasoning.did(self.tool, self.params), found)


class IterationRecord(BaseModel, extra="allow"):
    """One turn of an agent: its tool calls, their synthesis and the agent's own assessment."""

    iteration: NonNegativeInt
    timestamp: Moment = Field(default_factory=lambda: datetime.now(UTC))
    mode: Literal["fast", "deep"] = "fast"
    tool_calls: list[ToolCallRecord] = Field(default_factory=list)
    synthesis: Text = ""
    progress_assessment: Assessment = ""
    user_feedback: Text = ""


class Intervention(str):
    """A message for the agent: a string that also has a `kind`."""

    __slots__ = ()
    kind = "stuck"

    message = property(str)


class IterationLog:
    """The records of one goal, oldest first; `stuck_limit` turns in a row by their own word are too many."""

    def __init__(self, stuck_limit: int = 3) -> None:
        if stuck_limit < 1:
            raise ValueError(f"stuck_limit is {stuck_limit}; it must be at least 1")
        self.stuck_limit = stuck_limit
        self.records: list[IterationRecord] = []
        self._stuck: list[IterationRecord] = []

    def add(self, record: IterationRecord | Mapping[str, Any]) -> Intervention | None:
        """Add a record, and return a recovery prompt when the agent is stuck; ValueError names every invalid field."""
        try:
            entry = IterationRecord.model_validate(record)
        except ValidationError as error:
            raise ValueError(f"invalid iteration record: {faults_of(error, 'record')}") from error
        self.records.append(entry)
        if entry.progress_assessment not in {"stuck", "regressing"}:
            self._stuck.clear()
            return None
        self._stuck.append(entry)
        if len(self._stuck) < self.stuck_limit:
            return None
        intervention = Intervention(_recovery_prompt(self._stuck))
        self._stuck.clear()
        return intervention

    def reasoning_context(self, max_tokens: int | None = None) -> list[str]:
        """Return a line per call, "did X → found Y", by relevance, then time; `max_tokens` cuts the least relevant."""
        ordered = sorted(self.records, key=lambda record: record.timestamp)
        lines = [(c.relevance, c.line()) for record in ordered for c in record.tool_calls]
        room = None if max_tokens is None else int(max_tokens * JSON_CHARS_PER_TOKEN)
        return relevant_lines(lines, room)

    def cost(self) -> dict[str, float]:
        """Return the totals of all calls: `tokens`, `time` in seconds, and the number of `calls`."""
        calls = [call for record in self.records for call in record.tool_calls]
        tokens = sum(c.cost.tokens for c in calls)
        time = sum(c.cost.time or c.execution_time for c in calls)
        return {"tokens": tokens, "time": time, "calls": len(calls)}


def _recovery_prompt(stuck: list[IterationRecord]) -> str:
    calls = [call for record in stuck for call in record.tool_calls]
    tried = list(dict.fromkeys(call.line() for call in calls))[-_LISTED_FAILURES:]
    lines = [f"No progress for {len(stuck)} iterations; it is time to recover."]
    if tried:
        lines += ["Tried without success:", *(f"- {line}" for line in tried)]
    lines.append("Do none of these again. Name one different, concrete action, and take it now.")
    suggested = [call.next_suggested_actions for call in calls if call.next_suggested_actions]
    if suggested:
        lines.append(f"Your latest idea: {in_one_line(suggested[-1], FOUND_CHARS)}")
    return "\n".join(lines)
