"""Iteration records as people and programs read them (contract, section 9), put together from events.

What an agent found in a turn's results it says one turn later; here that hindsight is put to the calls that it is
about. Every field is there, empty if the agent said nothing. Pure: events go in, records come out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_shared.prompt.reasoning import RELEVANCES, as_text
from clew_shared.record import events as ev
from clew_shared.record.moment import iso

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KINDS = frozenset({"reflected", "action_allowed", "action_blocked", "worker_started"})
"""The events that records are made of."""

RAW_OUTPUT_CHARS = 1_000
OUTCOMES = ("success", "failure", "timeout", "error")
_RESULTS = {"blocked": "error", "interrupted": "error"}
"""What a result is called as an outcome: a refused or cut off action has not succeeded."""


def records_of(events: Iterable[ev.Event]) -> list[dict[str, Any]]:
    """Return the records of a goal, oldest first; each turn's calls with what the next turn found in them.

    Where a worker died amid a turn, the next one speaks of results that no record has: that is put to none.
    """
    records: list[dict[str, Any]] = []
    acted = lost = False
    for event in events:
        match event:
            case ev.ActionAllowed() | ev.ActionBlocked():
                acted = True
            case ev.WorkerStarted():
                lost = acted
            case ev.Reflected():
                if not lost:
                    _look_back(_last_calls(records), event.hindsight)
                records.append(_record(event, after=records[-1]["iteration"] if records else 0))
                acted = lost = False
            case _:
                pass
    return records


def _last_calls(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the calls of the last turn that made any: their results are what the model had seen last."""
    made = (record["tool_calls"] for record in reversed(records))
    return next((calls for calls in made if calls), [])


def _record(event: ev.Reflected, after: int) -> dict[str, Any]:
    """Read one turn; an agent that counts no iterations has them counted as the state does."""
    told = event.record
    return {
        "iteration": max(after + 1, event.iteration),
        "timestamp": iso(event.at),
        "mode": "deep" if told.get("mode") == "deep" else "fast",
        "tool_calls": [_call(one) for one in told.get("tool_calls") or () if isinstance(one, dict)],
        "synthesis": as_text(told.get("synthesis")),
        "progress_assessment": event.assessment or "advancing",
        "user_feedback": as_text(told.get("user_feedback")),
    }


def _call(told: dict[str, Any]) -> dict[str, Any]:
    outcome, output = _came(told)
    time_s = _number(told.get("execution_time"))
    cost = told.get("cost")
    cost = cost if isinstance(cost, dict) else {}
    params = told.get("params", told.get("args"))
    return {
        "tool": as_text(told.get("tool") or told.get("name")) or "?",
        "params": params if isinstance(params, dict) else {},
        "raw_output": output[:RAW_OUTPUT_CHARS],
        "outcome": outcome,
        "execution_time": time_s,
        "cost": {
            "tokens": int(_number(cost.get("tokens"))),
            "time": _number(cost.get("time", time_s)),
        },
        "tool_selection_rationale": as_text(told.get("tool_selection_rationale")),
        "insights": as_text(told.get("insights")),
        "learning": as_text(told.get("learning")),
        "relevance": _relevance(told.get("relevance")),
        "next_suggested_actions": as_text(told.get("next_suggested_actions")),
    }


def _came(told: dict[str, Any]) -> tuple[str, str]:
    """Tell outcome and output apart; `result` may be either, as in history.jsonl or as in a record."""
    result = told.get("result")
    named = _RESULTS.get(result, result) if isinstance(result, str) else None
    known = named in OUTCOMES
    outcome = told.get("outcome") or (named if known else "success")
    output = told.get("raw_output", told.get("output") if known else result)
    return outcome if outcome in OUTCOMES else "error", as_text(output)


def _look_back(calls: Sequence[dict[str, Any]], hindsight: Sequence[dict[str, str]]) -> None:
    """Put what was found to a turn's calls, in place: one part to the last call, several in order.

    What was found first stays: the next turn may end a subtask, and the one after it speak of that.
    """
    about = calls[-1:] if len(hindsight) == 1 else calls
    for call, part in zip(about, hindsight, strict=False):
        if call["insights"] or call["learning"]:
            continue
        call["insights"] = part.get("insights", "")
        call["learning"] = part.get("learning", "")
        call["next_suggested_actions"] = part.get("next") or call["next_suggested_actions"]
        call["relevance"] = _relevance(part.get("relevance") or call["relevance"])


def _relevance(value: Any) -> str:
    return value if value in RELEVANCES else "medium"


def _number(value: Any) -> float:
    """Read a count or seconds; anything else, and what is negative or no finite number, is 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return value if 0 <= value < float("inf") else 0.0
