"""What a run of tool calls teaches: patterns that were really seen, each with its evidence.

Every lesson names the calls that it was drawn from, order counts, and a run that ended in an error
teaches only how to meet that error. It calls no model and keeps nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from clew_shared.playbook.faults import FAULTS
from clew_shared.playbook.patterns import PATTERNS, Category, Pattern
from clew_shared.playbook.recoveries import RECOVERIES
from clew_shared.playbook.steps import Step, ToolCall, steps

_SUCCESSES = frozenset(("success", "completed", "ok"))
_ERRORS = frozenset(("error", "failure", "failed", "timeout"))
_SHOWN_STEPS = 4


@dataclass(frozen=True, slots=True)
class Reflection:
    """A lesson: its category, one sentence with its evidence, and how sure it is (0 to 1).

    `calls` are the numbers of the calls that it was drawn from, counted from 1; `passing` says that the fault
    may be gone tomorrow, so that the lesson should expire.
    """

    category: Category
    content: str
    confidence: float
    reasoning: str
    calls: tuple[int, ...] = ()
    passing: bool = False


class ExecutionReflector:
    """Finds the surest lesson in a run; nothing below its minimum of calls and of confidence."""

    def __init__(self, min_tool_calls: int = 2, min_confidence: float = 0.6) -> None:
        self.min_tool_calls = min_tool_calls
        self.min_confidence = min_confidence

    def reflect(
        self, query: str, tool_calls: Iterable[ToolCall | Any], outcome: str
    ) -> Reflection | None:
        """Return the lesson of a run, or None if it teaches none.

        `outcome` is "success" or a kind of error; of any other outcome nothing is concluded.
        """
        calls = list(tool_calls)
        if len(calls) < self.min_tool_calls:
            return None
        done = steps(calls)
        lessons = _lessons_for(str(outcome).casefold())
        found = [(lesson, seen) for lesson in lessons if (seen := lesson.find(done))]
        sure = [(one, seen) for one, seen in found if one.confidence >= self.min_confidence]
        if not sure:
            return None
        lesson, seen = max(sure, key=lambda pair: pair[0].confidence)
        return _reflection(lesson, seen, query, len(calls), outcome)


def _lessons_for(outcome: str) -> Sequence[Pattern]:
    if outcome in _ERRORS:
        return FAULTS
    return (*RECOVERIES, *PATTERNS) if outcome in _SUCCESSES else ()


def _reflection(
    lesson: Pattern, seen: Sequence[Step], query: str, calls: int, outcome: str
) -> Reflection:
    overcome = len(seen) > 1  # where a failure is the whole lesson, it says so itself
    shown = " → ".join(
        f"{step.shown} (failed)" if step.failed and overcome else step.shown
        for step in seen[:_SHOWN_STEPS]
    )
    numbers = ", ".join(f"call {step.call} {step.shown!r}" for step in seen)
    asked = " ".join(str(query or "").split())[:80]
    return Reflection(
        lesson.category,
        f"{lesson.sentence} (seen: {shown})",
        lesson.confidence,
        f"{numbers}, of {calls} calls; outcome {outcome}; asked: {asked!r}",
        tuple(dict.fromkeys(step.call for step in seen)),
        lesson.passing,
    )
