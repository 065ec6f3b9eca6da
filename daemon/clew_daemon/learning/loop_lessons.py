"""The lessons of loops, and how they are credited. Pure.

A lesson says in general what was repeated (`playbook/shapes.py`), so that a loop in another goal is the same lesson
again. It is credited by whether a goal that was shown it ran into that loop.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clew_daemon.learning.deltas import Lesson
from clew_daemon.learning.loops import tool_of
from clew_shared.playbook.bullet import section_key
from clew_shared.playbook.curator import without_evidence
from clew_shared.text.redact import redact
from clew_shared.text.shorten import in_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew_daemon.learning.loops import GoalLoops, LoopPattern
    from clew_shared.playbook.bullet import Bullet, Tag

SECTION = "loops"
LESSONS_MAX = 10
"""How many loops of one goal become lessons: those that cost most."""

ACTIONS_MAX = 20
SIGNATURE_CHARS = 200
_THOUGHTS = {
    "theme": "When several thoughts in a row are about the same thing, act instead of thinking on",
    "repeated_planning": "When there is a plan, call a tool instead of planning once more",
    "stuck": "When work is stuck, do one thing that was not tried yet",
}
_ACTIONS = {
    "repetition": "Do not call {} again while nothing has changed: it ends as it did before",
    "alternation": "Do not go back and forth with {} without progress: change something else first",
    "cycle": "Do not go round with {} without progress: change something else first",
    "crash": "Do not call {} again after the worker died of it: look for another way",
    "same_error": "When {} fails again with the same error, find its cause instead of varying the call",
    "no_progress": "When calls of {} bring nothing new, stop and do something different",
}
_ANY_KIND = "Do not go in circles with {}: change something else first"
_ANY_ACTION = "the same tools"
_QUOTED = re.compile(r"`([^`]+)`")


def loop_lessons(patterns: Sequence[LoopPattern]) -> list[Lesson]:
    """Return a lesson for each loop, the costliest first."""
    worst = sorted(patterns, key=lambda one: one.cost, reverse=True)
    return [_lesson(one) for one in worst[:LESSONS_MAX]]


def loop_tag(bullet: Bullet, loops: GoalLoops, *, completed: bool) -> Tag | None:
    """Return what a goal that was shown a lesson says of it; None for a strategy that is no lesson of a loop.

    Harmful: the goal ran into that loop nevertheless. Helpful: it was completed without, and called that tool.
    """
    if section_key(bullet.section) != SECTION:
        return None
    advice = without_evidence(bullet.content)
    named = _QUOTED.search(advice)
    what = named[1] if named else ""
    if advice not in _all_advice(what):
        return None
    since = loops.shown.get(bullet.id, 0)
    if any(_advice(one.kind, one.shape) == advice and one.last > since for one in loops.patterns):
        return "harmful"
    had_occasion = tool_of(what) in loops.tools if what else bool(loops.tools)
    return "helpful" if completed and had_occasion else "neutral"


def _lesson(pattern: LoopPattern) -> Lesson:
    ended = f" (seen: ended by {pattern.ended})" if pattern.ended else ""
    cost = [f"{pattern.refused} refused", f"{pattern.warned} warned"]
    cost += ["its subtask was blocked"] if pattern.blocked else []
    cost += ["it ended an attempt"] if pattern.restarted else []
    facts = f"{pattern.kind}: {', '.join(cost)}"
    signature = in_one_line(redact(pattern.signature), SIGNATURE_CHARS)
    return Lesson(
        section=SECTION,
        content=_advice(pattern.kind, pattern.shape) + ended,
        evidence=f"{facts}\n{signature}" if signature else facts,
        actions=tuple(pattern.actions[:ACTIONS_MAX]),
        again=f"learned again: {facts}",
    )


def _advice(kind: str, what: str) -> str:
    """Return the sentence of a lesson; it has no figures, so that the same loop gives the same sentence."""
    if kind in _THOUGHTS:
        return _THOUGHTS[kind]
    named = f"`{what}`" if what else _ANY_ACTION
    return _ACTIONS.get(kind, _ANY_KIND).format(named)


def _all_advice(what: str) -> set[str]:
    return {_advice(kind, what) for kind in (*_THOUGHTS, *_ACTIONS, "")}
