"""The lessons of loops, and how they are credited. Pure.

A lesson names the whole action that was repeated, so that only the same loop in another goal is the same lesson again.
Agents are told of it when three goals whose checks passed have had it; it is credited by whether such a goal, shown it,
ran into that loop.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clew_daemon.learning.deltas import Lesson
from clew_daemon.learning.loops import tool_of
from clew_shared.playbook.bullet import SEEN_MIN, section_key
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
    "same_error": "When {} fails again with the same error, find its cause instead of varying the call",
    "no_progress": "When calls of {} bring nothing new, stop and do something different",
}
_OLD_CRASH = "Do not call `{}` again after the worker died of it: look for another way"
"""Learned by version 0.1.0; shown to nobody."""

_QUOTED = re.compile(r"`([^`]+)`")


def loop_lessons(patterns: Sequence[LoopPattern]) -> list[Lesson]:
    """Return a lesson for each loop of a goal whose checks passed, the costliest first.

    None for what a killed worker had begun, nor for an action that is too long to be named whole.
    """
    told = [one for one in patterns if one.kind in _THOUGHTS or (one.what and one.kind in _ACTIONS)]
    worst = sorted(told, key=lambda one: one.cost, reverse=True)
    return [_lesson(one) for one in worst[:LESSONS_MAX]]


def loop_tag(bullet: Bullet, loops: GoalLoops, *, verified: bool) -> Tag | None:
    """Return what a goal that was shown a lesson says of it; None for a strategy that is no lesson of a loop.

    Only a goal whose checks passed says anything. Harmful: it ran into that loop nevertheless. Helpful: it did not, and
    called that tool.
    """
    found = _advice_of(bullet)
    if found is None:
        return None
    if not verified:
        return "neutral"
    advice, what = found
    since = loops.shown.get(bullet.id, 0)
    if any(_advice(one.kind, one.what) == advice and one.last > since for one in loops.patterns):
        return "harmful"
    had_occasion = tool_of(what) in loops.tools if what else bool(loops.tools)
    return "helpful" if had_occasion else "neutral"


def is_shown(bullet: Bullet) -> bool:
    """Return whether agents may be shown a strategy: a lesson of a loop only when enough goals have had it."""
    return len(bullet.seen_in) >= SEEN_MIN or _advice_of(bullet) is None


def _advice_of(bullet: Bullet) -> tuple[str, str] | None:
    """Return a lesson's sentence and the action that it names, "" for none; None if it is no lesson of a loop."""
    if section_key(bullet.section) != SECTION:
        return None
    advice = without_evidence(bullet.content)
    named = _QUOTED.search(advice)
    what = named[1] if named else ""
    known = {_advice(kind, what) for kind in (*_THOUGHTS, *_ACTIONS)} | {_OLD_CRASH.format(what)}
    return (advice, what) if advice in known else None


def _lesson(pattern: LoopPattern) -> Lesson:
    ended = f" (seen: ended by {pattern.ended})" if pattern.ended else ""
    cost = [f"{pattern.refused} refused", f"{pattern.warned} warned"]
    cost += ["its subtask was blocked"] if pattern.blocked else []
    cost += ["it ended an attempt"] if pattern.restarted else []
    facts = f"{pattern.kind}: {', '.join(cost)}"
    signature = in_one_line(redact(pattern.signature), SIGNATURE_CHARS)
    return Lesson(
        section=SECTION,
        content=_advice(pattern.kind, pattern.what) + ended,
        evidence=f"{facts}\n{signature}" if signature else facts,
        actions=tuple(pattern.actions[:ACTIONS_MAX]),
        again=f"learned again: {facts}",
        seen=True,
    )


def _advice(kind: str, what: str) -> str:
    """Return the sentence of a lesson; it has no figures, so that the same loop gives the same sentence."""
    if kind in _THOUGHTS:
        return _THOUGHTS[kind]
    named = f"`{what}`" if what else "the same tools"
    return _ACTIONS[kind].format(named) if kind in _ACTIONS else ""
