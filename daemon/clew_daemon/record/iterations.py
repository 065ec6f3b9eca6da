"""Iteration records as people and programs read them (docs/cli.md, clew history), assembled from events.

An agent reports what it found in a turn's results one turn later; here that hindsight is added to the turn and the
calls that it is about. Every field is present, empty if the agent reported nothing. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from clew_shared.prompt.reasoning import RELEVANCES, as_text
from clew_shared.record import events as ev
from clew_shared.record.fold import EventFold, takes
from clew_shared.record.moment import iso

RAW_OUTPUT_CHARS = 1_000
OUTCOMES = ("success", "failure", "timeout", "error")
_RESULTS = {"blocked": "error", "interrupted": "error"}  # such an action has not succeeded


class IterationCall(TypedDict):
    """A call of a turn, as the agent told it; `relevance` is one of RELEVANCES, `outcome` one of OUTCOMES."""

    tool: str
    params: Mapping[str, object]
    raw_output: str
    outcome: str
    execution_time: float
    cost: Mapping[str, float]  # tokens, and seconds as `time`
    tool_selection_rationale: str
    insights: str
    learning: str
    relevance: str
    next_suggested_actions: str


class IterationRecord(TypedDict):
    """The record of a turn."""

    iteration: int
    timestamp: str
    mode: Literal["deep", "fast"]
    tool_calls: list[IterationCall]
    synthesis: str
    progress_assessment: str
    user_feedback: str


class IterationFold(EventFold[IterationRecord]):
    """Finds the record of each turn; what the next turn found in the turn's calls is added to it then."""

    def __init__(self) -> None:
        super().__init__()
        self._iteration = 0
        self._calls: list[IterationCall] = []  # of the last turn that made any
        self._last: IterationRecord | None = None
        self._acted = self._lost = False

    @takes(ev.ActionAllowed, ev.ActionBlocked, ev.WorkerStarted)
    def _between(self, _seq: int, event: ev.Event) -> None:
        if isinstance(event, ev.WorkerStarted):
            self._lost = self._acted  # what comes next is about results that no record has
        else:
            self._acted = True

    @takes(ev.Reflected)
    def _reflected(self, _seq: int, event: ev.Reflected) -> IterationRecord:
        record = _record(event, after=self._iteration)
        if not self._lost:
            _add_hindsight(self._calls, event.hindsight)
        _move_hindsight(record, None if self._lost else self._last, event.hindsight)
        if not event.unfinished:
            self._iteration = record["iteration"]
        self._calls, self._last = record["tool_calls"] or self._calls, record
        self._acted = self._lost = False
        return record


def _record(event: ev.Reflected, after: int) -> IterationRecord:
    """Return the record of one turn; iterations that the agent does not count are counted as in the state."""
    given, told = event.record, event.record.get("tool_calls") or ()
    return {
        "iteration": max(after + 1, event.iteration),
        "timestamp": iso(event.at),
        "mode": "deep" if given.get("mode") == "deep" else "fast",
        "tool_calls": [_call(one) for one in told if isinstance(one, dict)],
        "synthesis": as_text(given.get("synthesis")),
        "progress_assessment": event.assessment,
        "user_feedback": as_text(given.get("user_feedback")),
    }


def _call(given: Mapping[str, object]) -> IterationCall:
    outcome, output = _outcome_and_output(given)
    time_s = _number(given.get("execution_time"))
    cost = _dict(given.get("cost"))
    tokens, spent_s = int(_number(cost.get("tokens"))), _number(cost.get("time", time_s))
    return {
        "tool": as_text(given.get("tool") or given.get("name")) or "?",
        "params": _dict(given.get("params", given.get("args"))),
        "raw_output": output[:RAW_OUTPUT_CHARS],
        "outcome": outcome,
        "execution_time": time_s,
        "cost": {"tokens": tokens, "time": spent_s},
        "tool_selection_rationale": as_text(given.get("tool_selection_rationale")),
        "insights": as_text(given.get("insights")),
        "learning": as_text(given.get("learning")),
        "relevance": _relevance(given.get("relevance")),
        "next_suggested_actions": as_text(given.get("next_suggested_actions")),
    }


def _outcome_and_output(given: Mapping[str, object]) -> tuple[str, str]:
    """Return outcome and output; `result` may be either, as in history.jsonl or as in a record."""
    result = given.get("result")
    named = _RESULTS.get(result, result) if isinstance(result, str) else None
    known = named in OUTCOMES
    outcome = given.get("outcome") or (named if known else "success")
    output = given.get("raw_output", given.get("output") if known else result)
    return next((one for one in OUTCOMES if one == outcome), "error"), as_text(output)


def _add_hindsight(calls: Sequence[IterationCall], hindsight: Sequence[dict[str, str]]) -> None:
    """Add hindsight to a turn's calls, in place: a single part to the last call, several in order.

    The first hindsight stays: the next turn may end a subtask, and the one after it be about that.
    """
    about = calls[-1:] if len(hindsight) == 1 else calls
    for call, part in zip(about, hindsight, strict=False):
        if call["insights"] or call["learning"]:
            continue
        call["insights"] = part.get("insights", "")
        call["learning"] = part.get("learning", "")
        call["next_suggested_actions"] = part.get("next") or call["next_suggested_actions"]
        call["relevance"] = _relevance(part.get("relevance") or call["relevance"])


def _move_hindsight(
    record: IterationRecord, last: IterationRecord | None, hindsight: Sequence[dict[str, str]]
) -> None:
    """Move what hindsight says of a turn from the record that it came with to that of the turn before, in place."""
    synthesis = " ".join(one["synthesis"] for one in hindsight if one.get("synthesis"))
    assessed = [one["assessment"] for one in hindsight if one.get("assessment")]
    if synthesis and record["synthesis"] == synthesis:
        record["synthesis"] = ""
    if assessed and record["progress_assessment"] == assessed[-1]:
        record["progress_assessment"] = ""
    if last:
        last["synthesis"] = last["synthesis"] or synthesis
        last["progress_assessment"] = last["progress_assessment"] or "".join(assessed[-1:])


def _relevance(value: object) -> str:
    return next((one for one in RELEVANCES if one == value), "medium")


def _dict(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float:
    """Return a count or seconds; 0 for anything else, also for a negative or infinite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return value if 0 <= value < float("inf") else 0.0
