"""What is learned from loops: which ones a goal ran into, the lessons of them, and how these are credited. Pure.

A lesson names the whole action that was repeated, so that only the same loop in another goal is the same lesson again.
Agents are told of it when three goals whose checks passed have had it; it is credited by whether such a goal, shown it,
ran into that loop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew_daemon.learning.deltas import Lesson
from clew_shared.playbook.bullet import SEEN_MIN, Bullet, Tag
from clew_shared.playbook.curator import without_evidence
from clew_shared.text.redact import redact
from clew_shared.text.shorten import one_line

SECTION = "loops"
LESSONS_MAX = 10  # how many loops of one goal become lessons: those that cost most
# A longer action is no pattern: another goal would not repeat it, and half of it says something else.
PATTERN_CHARS = 160
# The sentence of each kind of loop; without figures, so that the same loop gives the same sentence.
ADVICE = {
    "theme": "When several thoughts in a row are about the same thing, act instead of thinking on",
    "repeated_planning": "When there is a plan, call a tool instead of planning once more",
    "stuck": "When work is stuck, do one thing that was not tried yet",
    "repetition": "Do not call `{}` again while nothing has changed: it ends as it did before",
    "alternation": "Do not go back and forth with `{}` without progress: change something else first",
    "cycle": "Do not go round with `{}` without progress: change something else first",
}


@dataclass(slots=True)
class LoopPattern:
    """A kind of loop and what was repeated, whole ("" for thoughts and long actions), with what it cost.

    `last` is the number of the event at which it was last refused or warned of.
    """

    kind: str
    what: str
    refused: int = 0
    warned: int = 0
    last: int = 0

    @property
    def advice(self) -> str:
        """The sentence of its lesson, "" where it teaches nothing."""
        advice = ADVICE.get(self.kind, "")
        return advice.format(self.what) if self.what or "{}" not in advice else ""


@dataclass(frozen=True, slots=True)
class GoalLoops:
    """The loops of a goal up to a rest, the tools that were called, and when each strategy was shown first."""

    patterns: tuple[LoopPattern, ...] = ()
    tools: frozenset[str] = frozenset()
    shown: Mapping[str, int] = field(default_factory=dict)


def action_pattern(tool: str, args: Mapping[str, Any]) -> str:
    """Return an action in one line, `run_cmd make test`, without keys; "" where it is too long or has odd arguments."""
    given = list(args.values())
    if not all(isinstance(value, str | int | float) for value in given):
        return ""
    what = one_line(redact(" ".join([tool, *map(str, given)]))).replace("`", "'")
    return what if len(what) <= PATTERN_CHARS else ""


def loop_lessons(patterns: Sequence[LoopPattern]) -> list[Lesson]:
    """Return a lesson for each loop of a goal whose checks passed, the costliest first.

    None for what a killed worker had begun, nor for an action that is too long to be named whole.
    """
    told = [one for one in patterns if one.advice]
    worst = sorted(told, key=lambda one: one.refused + one.warned, reverse=True)[:LESSONS_MAX]
    return [
        Lesson(SECTION, one.advice, facts, again=f"learned again: {facts}", seen=True)
        for one in worst
        for facts in [f"{one.kind}: {one.refused} refused, {one.warned} warned"]
    ]


def loop_tag(bullet: Bullet, loops: GoalLoops, *, verified: bool) -> Tag | None:
    """Return what a goal that was shown a lesson says of it; None for a strategy that is no lesson of a loop.

    Only a goal whose checks passed says anything. Harmful: it ran into that loop nevertheless. Helpful: it did not, and
    called that tool.
    """
    if not bullet.seen_in:
        return None
    if not verified:
        return "neutral"
    advice, since = without_evidence(bullet.content), loops.shown.get(bullet.id, 0)
    if any(one.advice == advice and one.last > since for one in loops.patterns):
        return "harmful"
    named = re.search(r"`([^`]+)`", advice)
    had_occasion = named[1].partition(" ")[0] in loops.tools if named else bool(loops.tools)
    return "helpful" if had_occasion else "neutral"


def is_shown(bullet: Bullet) -> bool:
    """Return whether agents may be shown a strategy: a lesson of a loop only when enough goals have had it."""
    return not bullet.seen_in or len(bullet.seen_in) >= SEEN_MIN
