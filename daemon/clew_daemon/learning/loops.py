"""The loops that cost a goal something: one of their actions was refused, or the agent was warned of them.

Pure: a fold over a goal's events. `loop_lessons` says what is learned from them.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clew_shared.record import events as ev
from clew_shared.record.visitor import EventFold, takes
from clew_shared.text.redact import redact
from clew_shared.text.shorten import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping


STALE_ACTIONS = 5
"""The actions without a change that a loop without an action of its own is about."""

PATTERN_CHARS = 160
"""A longer action is no pattern: another goal would not repeat it, and half of it says something else."""

OF_THOUGHTS = frozenset(("theme", "repeated_planning", "stuck"))
"""The kinds of loops that are about thoughts, not about an action."""


@dataclass(slots=True)
class LoopPattern:
    """A kind of loop and what was repeated, whole ("" for thoughts and long actions), with what it cost.

    `last` is the number of the event at which it was last refused or warned of. `ended` is what ended it, "" if
    nothing did. `blocked`: its subtask was blocked for it; `restarted`: it ended an attempt.
    """

    kind: str
    what: str
    signature: str = ""
    refused: int = 0
    warned: int = 0
    blocked: bool = False
    restarted: bool = False
    last: int = 0
    ended: str = ""
    actions: list[int] = field(default_factory=list)

    @property
    def cost(self) -> tuple[bool, int]:
        """What orders loops by how much they cost."""
        return self.blocked or self.restarted, self.refused + self.warned


@dataclass(frozen=True, slots=True)
class GoalLoops:
    """The loops of a goal up to a rest, the tools that were called, and when each strategy was shown first."""

    patterns: tuple[LoopPattern, ...] = ()
    tools: frozenset[str] = frozenset()
    shown: Mapping[str, int] = field(default_factory=dict)


class LoopFold(EventFold[GoalLoops]):
    """Folds a goal's events into the loops up to each of its rests."""

    def __init__(self, after: int = 0) -> None:
        super().__init__(after)
        self._patterns: dict[tuple[str, str], LoopPattern] = {}
        self._shown: dict[str, int] = {}
        self._tools: set[str] = set()
        self._open: dict[int, str] = {}
        self._called = ""
        self._kinds: dict[str, str] = {}
        self._stale: deque[str] = deque(maxlen=STALE_ACTIONS)
        self._warning = ""
        self._last: LoopPattern | None = None

    @takes(ev.StrategiesShown)
    def _strategies_shown(self, seq: int, event: ev.StrategiesShown) -> None:
        for bullet_id in event.ids:
            self._shown.setdefault(bullet_id, seq)

    @takes(ev.ActionAllowed)
    def _allowed(self, seq: int, event: ev.ActionAllowed) -> None:
        self._open[seq] = self._call(event)

    @takes(ev.ActionBlocked)
    def _refused(self, seq: int, event: ev.ActionBlocked) -> None:
        what = self._call(event)
        if event.done:
            self._open[seq] = what
        if not (event.makes_block or event.counts):
            return  # out of order, or a budget: no loop
        if event.makes_block:
            self._kinds[event.signature] = event.makes_block
        kind = self._kinds.get(event.signature, "repetition")
        pattern = self._pattern(seq, kind, what, event.signature)
        pattern.refused += 1
        pattern.actions.append(seq)

    @takes(ev.ActionFinished)
    def _finished(self, _seq: int, event: ev.ActionFinished) -> None:
        what = self._called = self._open.pop(event.of, "")
        self._last = None
        if event.changed:
            self._stale.clear()
            self._end(f"`{what}`" if what else "a change")
        elif what:
            self._stale.append(what)

    @takes(ev.Intervened)
    def _warned(self, _seq: int, event: ev.Intervened) -> None:
        self._warning = event.intervention

    @takes(ev.LoopDetected)
    def _loop(self, seq: int, event: ev.LoopDetected) -> None:
        """Count a warning; a refusal was counted with its action, and an escalation is none of its own."""
        warned, self._warning = self._warning == event.loop, ""
        if not warned:
            return
        what = self._called if event.signature else self._stale_action()
        what = "" if event.loop in OF_THOUGHTS else what
        self._pattern(seq, event.loop, what, event.signature).warned += 1

    @takes(ev.Reflected, ev.FinishRefused)
    def _went_on(self, _seq: int, _event: ev.Event) -> None:
        self._last = None  # what ends the attempt now is another reason

    @takes(ev.AttemptEnded)
    def _attempt_ended(self, _seq: int, _event: ev.AttemptEnded) -> None:
        if self._last:
            self._last.restarted = True
        self._end("a new attempt")

    @takes(ev.Escalated)
    def _subtask_blocked(self, _seq: int, _event: ev.Escalated) -> None:
        if self._last:
            self._last.blocked = True
        self._end("a new plan")

    @takes(ev.SubtaskEnded, ev.FeedbackGiven)
    def _moved_on(self, _seq: int, event: ev.SubtaskEnded | ev.FeedbackGiven) -> None:
        is_end = isinstance(event, ev.SubtaskEnded)
        self._end("the end of the subtask" if is_end else "feedback from a person")
        self._stale.clear()

    @takes(*ev.RESTS)
    def _rested(self, _seq: int, _event: ev.Event) -> GoalLoops:
        found = GoalLoops(tuple(self._patterns.values()), frozenset(self._tools), self._shown)
        self._patterns, self._shown, self._tools, self._last = {}, {}, set(), None
        return found

    def _call(self, event: ev.ActionAllowed | ev.ActionBlocked) -> str:
        self._called = what = action_pattern(event.tool, event.args)
        self._tools.add(event.tool)
        self._warning, self._last = "", None
        return what

    def _pattern(self, seq: int, kind: str, what: str, signature: str) -> LoopPattern:
        pattern = self._patterns.setdefault((kind, what), LoopPattern(kind, what, signature))
        pattern.last, pattern.ended, self._last = seq, "", pattern
        return pattern

    def _stale_action(self) -> str:
        """Return what most of the last actions were, "" where no one was."""
        what, count = next(iter(Counter(self._stale).most_common(1)), ("", 0))
        return what if 2 * count > len(self._stale) else ""

    def _end(self, by: str) -> None:
        for pattern in self._patterns.values():
            pattern.ended = pattern.ended or by


def action_pattern(tool: str, args: Mapping[str, Any]) -> str:
    """Return an action in one line, `run_cmd make test`, without keys; "" where it is too long or has odd arguments."""
    given = list(args.values())
    if not all(isinstance(value, str | int | float) for value in given):
        return ""
    what = one_line(redact(" ".join([tool, *map(str, given)]))).replace("`", "'")
    return what if len(what) <= PATTERN_CHARS else ""


def tool_of(what: str) -> str:
    """Return the tool of an action in one line."""
    return what.partition(" ")[0]
