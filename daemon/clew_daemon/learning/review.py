"""What a goal says about strategies: what it was shown, how it ended, and what its runs and its loops teach. Pure.

Only verified outcomes count: a completed goal whose checks passed speaks for the strategies it was shown, one with
checks that failed or was blocked by its own work against them. A lesson of a loop names the whole action that was
repeated. Agents are told of it when three goals whose checks passed have had it.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clew_daemon.learning.deltas import Lesson
from clew_shared.playbook.curator import without_evidence
from clew_shared.playbook.playbook import Tag
from clew_shared.playbook.reflector import ExecutionReflector, ToolCall
from clew_shared.record import events as ev
from clew_shared.record.daemon_events import ModelUsed
from clew_shared.record.fold import EventFold, takes
from clew_shared.record.spec import Spec
from clew_shared.text.redact import redact
from clew_shared.text.shorten import one_line

CALLS_MAX = 200  # How many of a subtask's last actions the reflector sees

PARAMETER_CHARS_MAX = 2_000
EVIDENCE_CHARS = 1_000
_FAILING = frozenset(("failure", "error", "timeout"))

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


Loop = tuple[str, str]
"""A kind of loop, and what was repeated: "" for thoughts and long actions."""


@dataclass(slots=True)
class GoalOutcome:
    """How a goal ended or was blocked at the event `seq`, and what was on the way.

    `shown` has the strategies, `runs` for each subtask how it ended and its actions with their numbers, `refused` and
    `warned` how often each loop was.
    """

    goal_words: str
    seq: int = 0
    tag: Tag = "neutral"
    reason: str = ""
    completed: bool = False
    shown: dict[str, None] = field(default_factory=dict)
    runs: list[tuple[str, list[tuple[int, ToolCall]]]] = field(default_factory=list)
    refused: Counter[Loop] = field(default_factory=Counter)
    warned: Counter[Loop] = field(default_factory=Counter)
    models: tuple[ModelUsed, ...] = ()


class ReviewFold(EventFold[GoalOutcome]):
    """Folds a goal's events into its outcomes."""

    def __init__(self, goal: str, spec: Spec, after: int = 0) -> None:
        super().__init__(after)
        self._goal = goal
        self._spec = spec
        self._tells_needs = bool(spec.checks) and not after
        self._open: dict[int, tuple[str, Mapping[str, Any]]] = {}
        self._taken: Counter[str] = Counter()
        self._kinds: dict[str, str] = {}
        self._call = ""
        self._run = deque[tuple[int, ToolCall]](maxlen=CALLS_MAX)
        self._begin()

    def _begin(self) -> None:
        self._now = GoalOutcome(self._spec.description)
        self._needed: dict[str, int] = {}
        self._escalated = False

    @takes(ev.StrategiesShown)
    def _strategies_shown(self, _seq: int, event: ev.StrategiesShown) -> None:
        self._now.shown |= dict.fromkeys(event.ids)

    @takes(ev.SubtaskStarted, ev.AttemptStarted)
    def _began(self, _seq: int, _event: ev.Event) -> None:
        self._taken.clear()

    @takes(ev.Reflected)
    def _turn(self, _seq: int, event: ev.Reflected) -> None:
        if event.prompt is not None and event.prompt.model:
            self._taken[event.prompt.model] += 1

    @takes(ev.ActionAllowed, ev.ActionBlocked)
    def _judged(self, seq: int, event: ev.ActionAllowed | ev.ActionBlocked) -> None:
        if isinstance(event, ev.ActionAllowed) or event.done:
            self._open[seq] = (event.tool, event.args)
        self._call = action_pattern(event.tool, event.args)
        if isinstance(event, ev.ActionBlocked) and (event.makes_block or event.counts):
            kind = event.makes_block or self._kinds.get(event.signature, "repetition")
            self._kinds[event.signature] = kind
            self._now.refused[kind, self._call] += 1

    @takes(ev.ActionFinished)
    def _finished(self, _seq: int, event: ev.ActionFinished) -> None:
        tool, args = self._open.pop(event.of, ("", {}))
        if tool:
            most = PARAMETER_CHARS_MAX
            short = {k: v for k, v in args.items() if not isinstance(v, str) or len(v) <= most}
            self._run.append((event.of, ToolCall(tool, short, event.result)))

    @takes(ev.Intervened)
    def _warned(self, _seq: int, event: ev.Intervened) -> None:
        if event.key != ev.POLL:  # to look again was no fault
            is_nudge = event.intervention == "repetition"  # of the action that was just allowed
            self._now.warned[event.intervention, self._call if is_nudge else ""] += 1

    @takes(ev.SubtaskEnded)
    def _subtask_ended(self, _seq: int, event: ev.SubtaskEnded) -> None:
        if event.status == "completed":
            self._keep_needs()
        self._close("success" if event.status == "completed" else event.status)

    @takes(ev.Escalated, ev.Planned, ev.TreeEdited)
    def _blocked_or_replanned(self, _seq: int, event: ev.Event) -> None:
        self._escalated = isinstance(event, ev.Escalated)
        if self._escalated:
            self._close("failure")

    @takes(ev.GoalEnded)
    def _ended(self, seq: int, event: ev.GoalEnded) -> GoalOutcome:
        if event.status == "cancelled":
            return self._outcome(seq, "neutral", "cancelled", "")
        if event.status == "failed":
            return self._outcome(seq, "harmful", "failed", "failure")
        self._keep_needs()
        told = self._needed if self._tells_needs else {}
        self._now.models = tuple(
            ModelUsed(at=event.at, model=model, goal=self._goal, completed=True, needed=turns)
            for model, turns in told.items()
        )
        reason = "completed, checks passed" if self._spec.checks else "completed, without checks"
        return self._outcome(seq, "helpful", reason, "success")

    @takes(ev.GoalBlocked)
    def _blocked(self, seq: int, event: ev.GoalBlocked) -> GoalOutcome:
        """Return harm for a goal blocked by its own work; one blocked by its surroundings is neutral."""
        by_work = self._escalated or event.reason.startswith("budget")
        tag: Tag = "harmful" if by_work else "neutral"
        return self._outcome(seq, tag, f"blocked: {event.reason}"[:200], "")

    def _outcome(self, seq: int, tag: Tag, reason: str, outcome: str) -> GoalOutcome:
        self._close(outcome)
        found = self._now
        found.seq, found.reason, found.completed = seq, reason, outcome == "success"
        found.tag = tag if self._spec.checks else "neutral"
        self._tells_needs = False
        self._begin()
        return found

    def _close(self, outcome: str) -> None:
        if self._run:
            self._now.runs.append((outcome, [*self._run]))
        self._run.clear()

    def _keep_needs(self) -> None:
        for model, turns in self._taken.items():  # the turn that says so is reported after it
            self._needed[model] = max(turns + 1, self._needed.get(model, 0))


def lessons(outcome: GoalOutcome, reflector: ExecutionReflector) -> list[Lesson]:
    """Return what a goal's runs teach, each lesson once; those of its loops come last, if its checks passed.

    Of its loops the costliest teach first; none does whose action is too long to be named whole.
    """
    found: dict[tuple[str, str], Lesson] = {}
    for ended, run in outcome.runs:
        calls = [call for _, call in run]
        failed = any(call.result in _FAILING for call in calls)
        teaches = outcome.completed if ended == "success" else failed
        if teaches and (seen := reflector.reflect(outcome.goal_words, calls, ended)):
            content, evidence = without_evidence(seen.content), redact(seen.reasoning)
            seqs = tuple(run[call - 1][0] for call in seen.calls)
            lesson = Lesson(seen.category, content, evidence[:EVIDENCE_CHARS], seqs)
            found.setdefault((lesson.section, content), lesson)
    taught = list(found.values())
    loops = outcome.refused + outcome.warned if outcome.tag == "helpful" else Counter[Loop]()
    told = [(loop, text) for loop, _ in loops.most_common() if (text := advice(*loop))]
    for loop, text in told[:LESSONS_MAX]:
        facts = f"{loop[0]}: {outcome.refused[loop]} refused, {outcome.warned[loop]} warned"
        taught.append(Lesson("loops", text, facts, seen=True))
    return taught


def advice(kind: str, what: str) -> str:
    """Return the sentence of a loop's lesson, "" where it teaches nothing."""
    text = ADVICE.get(kind, "")
    return text.format(what) if what or "{}" not in text else ""


def action_pattern(tool: str, args: Mapping[str, Any]) -> str:
    """Return an action in one line, `run_cmd make test`, without keys; "" where it is too long or has odd arguments."""
    given = list(args.values())
    if not all(isinstance(value, str | int | float) for value in given):
        return ""
    what = one_line(redact(" ".join([tool, *map(str, given)]))).replace("`", "'")
    return what if len(what) <= PATTERN_CHARS else ""
