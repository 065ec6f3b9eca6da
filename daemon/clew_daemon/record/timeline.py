"""A goal's timeline: a lane for each worker (epoch, attempt) with its actions, refusals, and how it ended.

Pure: `TimelineFold` takes in the events, and `timeline` places them between 0 (left) and 1 (right). What happened has
the same room whenever it did, so that neither a night of waiting nor one long command flattens an hour of work.
"""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from clew_shared.record import events as ev
from clew_shared.record.fold import EventFold, takes
from clew_shared.text.words import action_text, key_line, why_refused

SPANS_MAX = 20_000  # actions that are remembered, the last ones
LANES_SHOWN = 12
MARKS_MAX = 160  # of one lane; where there are more actions, neighbours share a mark
REFUSALS_KEPT = 50
SAID_KEPT = 200  # actions of which it is remembered what they printed last, for their refusal
LABEL_CHARS = 160
RUNNING = "running"
_WORST_LAST = ("success", RUNNING, "failure", "timeout", "error", "interrupted", "blocked")


class Turn(NamedTuple):
    """A moment that concerns the whole goal: what a person said, that it was blocked, that it ended."""

    at: float
    kind: str
    text: str


class RefusedAction(NamedTuple):
    """A refusal of the gate: `label` is the action as people read it, `why` a line on the reason."""

    seq: int
    at: float
    signature: str
    label: str
    why: str


@dataclass(slots=True)
class Mark:
    """An action by its times (a fold) or places (a timeline); of `count` side by side, the worst and its number."""

    seq: int
    start: float
    label: str
    end: float | None = None
    result: str = RUNNING
    count: int = 1

    @property
    def width(self) -> float:
        return (self.end or self.start) - self.start


@dataclass(slots=True)
class Lane:
    """One worker from its start to its end, as a Mark; `ending` is why it ended, "" while it runs."""

    epoch: int
    start: float
    agent: str
    attempt: int = 1
    end: float | None = None
    ending: str = ""
    crashed: bool = False
    marks: list[Mark] = field(default_factory=list)

    @property
    def width(self) -> float:
        return (self.end or self.start) - self.start


_Span = TypeVar("_Span", Mark, Lane)


class Timeline(NamedTuple):
    """A whole timeline; `earlier` lanes are left out, `began` and `seconds` are of the wall clock."""

    lanes: tuple[Lane, ...]
    turns: tuple[Turn, ...]
    earlier: int
    began: float
    seconds: float


class TimelineFold(EventFold[None]):
    """Remembers a goal's workers, actions and refusals, in bounded memory."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes: list[Lane] = []
        self.turns: deque[Turn] = deque(maxlen=100)
        self.refusals: deque[RefusedAction] = deque(maxlen=REFUSALS_KEPT)
        self.began, self._marks, self._attempt = 0.0, 0, 1
        self._flying: dict[int, tuple[Mark, str]] = {}
        self._said: dict[str, str] = {}

    @takes(ev.GoalAccepted)
    def _accepted(self, _seq: int, event: ev.GoalAccepted) -> None:
        self.began = event.at

    @takes(ev.WorkerStarted)
    def _started(self, _seq: int, event: ev.WorkerStarted) -> None:
        self.lanes.append(Lane(event.epoch, event.at, event.agent, self._attempt))

    @takes(ev.WorkerExited)
    def _exited(self, _seq: int, event: ev.WorkerExited) -> None:
        lane = self._lane(event.epoch, event.at)
        lane.end, lane.ending, lane.crashed = event.at, event.reason, event.crash

    @takes(ev.AttemptStarted, ev.SubtaskStarted)
    def _attempts(self, _seq: int, event: ev.AttemptStarted | ev.SubtaskStarted) -> None:
        self._attempt = event.attempt if isinstance(event, ev.AttemptStarted) else 1

    @takes(ev.ActionAllowed, ev.ActionBlocked)
    def _judged(self, seq: int, event: ev.ActionAllowed | ev.ActionBlocked) -> None:
        mark = Mark(seq, event.at, action_text(event.tool, event.args, LABEL_CHARS))
        lane = self._lane(event.epoch, event.at)
        lane.attempt = event.attempt
        lane.marks.append(mark)
        if isinstance(event, ev.ActionAllowed) or event.done:
            self._flying[seq] = mark, event.signature
        else:
            mark.end, mark.result = event.at, "blocked"
            why = why_refused(event.reason, said=self._said.get(event.signature, ""))
            self.refusals.append(RefusedAction(seq, event.at, event.signature, mark.label, why))
        self._marks += 1
        if self._marks > SPANS_MAX:
            oldest = next(one for one in self.lanes if one.marks)
            drop = max(1, len(oldest.marks) // 2)
            del oldest.marks[:drop]
            self._marks -= drop

    @takes(ev.ActionFinished, ev.ActionInterrupted)
    def _ended(self, _seq: int, event: ev.ActionFinished | ev.ActionInterrupted) -> None:
        mark, signature = self._flying.pop(event.of, (None, ""))
        if mark is None:
            return
        mark.end, mark.result = event.at, "interrupted"
        if isinstance(event, ev.ActionFinished):
            mark.result = event.result
            self._said.pop(signature, None)
            self._said[signature] = key_line(event.head)
            while len(self._said) > SAID_KEPT:
                del self._said[next(iter(self._said))]

    @takes(ev.GoalBlocked, ev.FeedbackGiven, ev.GoalWaiting, ev.GoalEnded)
    def _turned(
        self, _seq: int, event: ev.GoalBlocked | ev.FeedbackGiven | ev.GoalWaiting | ev.GoalEnded
    ) -> None:
        text = event.text if isinstance(event, ev.FeedbackGiven) else event.reason
        kind = event.status if isinstance(event, ev.GoalEnded) else event.kind.split("_")[-1]
        kind = "feedback" if kind == "given" else kind
        self.turns.append(Turn(event.at, kind, text[:LABEL_CHARS]))

    def _lane(self, epoch: int, at: float) -> Lane:
        known = (lane for lane in reversed(self.lanes) if lane.epoch == epoch)
        if lane := next(known, None):
            return lane
        self.lanes.append(Lane(epoch, at, "", self._attempt))
        return self.lanes[-1]


def timeline(known: TimelineFold, now: float) -> Timeline:
    """Return the timeline of what a fold has taken in, as of `now` (seconds since 1970)."""
    lanes = known.lanes[-LANES_SHOWN:]
    marks = [mark for lane in lanes for mark in lane.marks]
    began = lanes[0].start if lanes else known.began
    turns = [one for one in known.turns if one.at >= began]
    moments = [began, *(one.at for one in turns), *(lane.end or now for lane in lanes)]
    moments += [lane.start for lane in lanes] + [mark.start for mark in marks]
    moments = sorted(moments + [mark.end for mark in marks if mark.end])

    def place(at: float | None) -> float:
        return min(1.0, bisect_left(moments, at or now) / max(1, len(moments) - 1))

    def placed(one: _Span) -> _Span:
        return replace(one, start=place(one.start), end=place(one.end))

    return Timeline(
        tuple(replace(placed(one), marks=_joined(list(map(placed, one.marks)))) for one in lanes),
        tuple(one._replace(at=place(one.at)) for one in turns),
        len(known.lanes) - len(lanes),
        began,
        max(0.0, moments[-1] - began),
    )


def _joined(marks: list[Mark]) -> list[Mark]:
    """Return marks of a timeline, where there are too many with neighbours as one."""
    if len(marks) <= MARKS_MAX:
        return marks
    bins: dict[int, list[Mark]] = {}
    for mark in marks:
        bins.setdefault(int(mark.start * MARKS_MAX), []).append(mark)
    return [
        replace(
            max(group, key=lambda mark: badness(mark.result)),
            start=group[0].start,
            end=max(mark.end or mark.start for mark in group),
            count=len(group),
        )
        for group in bins.values()
    ]


def badness(result: str) -> int:
    """Return the rank of a result among marks that share a place: the one with the highest is shown."""
    return _WORST_LAST.index(result) if result in _WORST_LAST else len(_WORST_LAST)
