"""The record of one turn of an agent: its tool calls, their results, and the agent's own assessment.

What the agent did not say is empty: nothing is assumed of its progress.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    ValidationError,
    model_validator,
)

from clew_shared.prompt import reasoning
from clew_shared.prompt.reasoning import as_text

MAX_RAW_OUTPUT_CHARS = 1000
_OTHER_NAMES = {"name": "tool", "args": "params", "result": "raw_output"}
# The results of history.jsonl; a refused or interrupted action has not succeeded.
_RESULTS = {
    **{outcome: outcome for outcome in ("success", "failure", "timeout", "error")},
    **dict.fromkeys(("blocked", "interrupted"), "error"),
}

Outcome = Literal["success", "failure", "timeout", "error"]
Relevance = Literal["high", "medium", "low"]
Assessment = Literal["advancing", "stuck", "regressing", ""]


def _as_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def _unsaid(value: Any) -> Any:
    return "" if value is None else value


def _cut_output(value: str) -> str:
    return value[:MAX_RAW_OUTPUT_CHARS]


Text = Annotated[str, BeforeValidator(as_text)]
"""Free text; missing is "", a list of sentences is joined."""


class _RecordPart(BaseModel):
    """A part of a record, readable by attribute or, like the JSON it came from, by key."""

    model_config = ConfigDict(extra="allow")

    def __getitem__(self, key: str) -> Any:
        try:
            return getattr(self, key)
        except AttributeError:
            raise KeyError(key) from None


class Cost(_RecordPart):
    """The cost of one tool call in tokens and seconds."""

    tokens: NonNegativeInt = 0
    time: NonNegativeFloat = 0.0


class ToolCallRecord(_RecordPart):
    """One tool call of an iteration; `raw_output` keeps the first 1,000 characters.

    `name`, `args` and `result` are read as `tool`, `params` and `raw_output`. A cost without a time
    gets the `execution_time` (seconds).
    """

    tool: Annotated[str, Field(min_length=1)]
    params: dict[str, Any] = Field(default_factory=dict)
    raw_output: Annotated[Text, AfterValidator(_cut_output)] = ""
    outcome: Outcome = "success"
    execution_time: NonNegativeFloat = 0.0
    cost: Cost = Field(default_factory=Cost)
    tool_selection_rationale: Text = ""
    insights: Text = ""
    learning: Text = ""
    relevance: Relevance = "medium"
    next_suggested_actions: Text = ""

    @model_validator(mode="before")
    @classmethod
    def _take_other_names(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        given = dict(data)
        if isinstance(given.get("result"), str) and given["result"] in _RESULTS:
            given.setdefault("outcome", _RESULTS[given["result"]])
            if "output" in given:
                given["result"] = given.pop("output")
        for other, own in _OTHER_NAMES.items():
            if other in given:
                given.setdefault(own, given.pop(other))
        if given.get("params") is None:
            given.pop("params", None)
        return given

    @model_validator(mode="after")
    def _time_the_cost(self) -> Self:
        if "time" not in self.cost.model_fields_set:
            self.cost = self.cost.model_copy(update={"time": self.execution_time})
        return self

    def line(self) -> str:
        """Return the call and its result in one line."""
        found = reasoning.found(self.insights, self.learning, self.outcome, self.raw_output)
        return reasoning.reasoning_line(reasoning.did(self.tool, self.params), found)


class IterationRecord(_RecordPart):
    """One turn of an agent: its tool calls, their synthesis and the agent's own assessment."""

    iteration: NonNegativeInt
    timestamp: Annotated[datetime, AfterValidator(_as_utc)] = Field(
        default_factory=lambda: datetime.now(UTC)
    )
    mode: Literal["fast", "deep"] = "fast"
    tool_calls: list[ToolCallRecord] = Field(default_factory=list)
    synthesis: Text = ""
    progress_assessment: Annotated[Assessment, BeforeValidator(_unsaid)] = ""
    user_feedback: Text = ""


def parsed(record: IterationRecord | Mapping[str, Any]) -> IterationRecord:
    """Return a record of any form; ValueError that names every invalid field."""
    if isinstance(record, IterationRecord):
        return record
    try:
        return IterationRecord.model_validate(record)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'record'}: {fault['msg']}"
            for fault in error.errors()
        ]
        raise ValueError("invalid iteration record: " + "; ".join(faults)) from error
