"""Draws a lesson from a run of tool calls, with the calls that show it as evidence.

Order counts, and a run that ended in an error teaches only how to meet that error. It calls no model and stores
nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from clew_shared.playbook.rules import ERROR_RULES, SUCCESS_RULES, Category, Rule
from clew_shared.playbook.steps import ToolCall, ToolStep, steps

_SUCCESSES = frozenset(("success", "completed", "ok"))
_ERRORS = frozenset(("error", "failure", "failed", "timeout"))
_SHOWN_STEPS = 4


@dataclass(frozen=True, slots=True)
class Reflection:
    """A lesson: its category, one sentence with its evidence, and its confidence (0 to 1).

    `calls` are the numbers of the calls that show it, counted from 1.
    """

    category: Category
    content: str
    confidence: float
    reasoning: str
    calls: tuple[int, ...] = ()


class ExecutionReflector:
    """Finds the surest lesson in a run; nothing below its minimum of calls and of confidence."""

    def __init__(self, min_tool_calls: int = 2, min_confidence: float = 0.6) -> None:
        self.min_tool_calls = min_tool_calls
        self.min_confidence = min_confidence

    def reflect(
        self, query: str, tool_calls: Iterable[ToolCall | Any], outcome: str
    ) -> Reflection | None:
        """Return the lesson of a run, or None if it teaches none.

        `outcome` is "success" or a kind of error; any other outcome teaches nothing.
        """
        calls = list(tool_calls)
        if len(calls) < self.min_tool_calls:
            return None
        done = steps(calls)
        for rule in _surest_first(str(outcome).casefold()):
            if rule.confidence >= self.min_confidence and (seen := rule.trigger(done)):
                return _reflection(rule, seen, query, len(calls), outcome)
        return None


def _surest_first(outcome: str) -> Sequence[Rule]:
    rules = ERROR_RULES if outcome in _ERRORS else SUCCESS_RULES if outcome in _SUCCESSES else ()
    return sorted(rules, key=lambda rule: -rule.confidence)


def _reflection(
    rule: Rule, seen: Sequence[ToolStep], query: str, calls: int, outcome: str
) -> Reflection:
    shown = " → ".join(step.shown for step in seen[:_SHOWN_STEPS])
    numbers = ", ".join(f"call {step.call} {step.shown!r}" for step in seen)
    asked = " ".join(str(query or "").split())[:80]
    return Reflection(
        rule.category,
        f"{rule.tip} (seen: {shown})",
        rule.confidence,
        f"{numbers}, of {calls} calls; outcome {outcome}; asked: {asked!r}",
        tuple(dict.fromkeys(step.call for step in seen)),
    )
