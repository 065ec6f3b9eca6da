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
from clew_shared.text.words import action_text, why_refused

LANES_SHOWN, TURNS_KEPT, REFUSALS_KEPT = 12, 100, 50
MARKS_MAX = 160  # of one lane, its last ones
LABEL_CHARS = 160
RUNNING = "running"


class Turn(NamedTuple):
    """A moment that concerns the whole goal: what a person said, that it was blocked, that it ended."""

    at: float
    kind: str
    text: str


class RefusedAction(NamedTuple):
    """A refusal of the gate: `label` is the action as people read it, `why` a line on the reason."""

    seq: int
    signature: str
    label: str
    why: str


@dataclass(slots=True)
class Mark:
    """An action by its times (a fold) or places (a timeline)."""

    seq: int
    start: float
    label: str
    end: float | None = None
    result: str = RUNNING

    @property
    def width(self) -> float:
        return (self.end or self.start) - self.start


@dataclass(slots=True)
class Lane:
    """One worker from its start to its end, as a Mark, with its last actions and the number of all.

    `ending` is why it ended, "" while it runs.
    """

    epoch: int
    start: float
    attempt: int = 1
    end: float | None = None
    ending: str = ""
    crashed: bool = False
    marks: list[Mark] = field(default_factory=list)
    actions: int = 0

    @property
    def width(self) -> float:
        return (self.end or self.start) - self.start


_Span = TypeVar("_Span", Mark, Lane)


class Timeline(NamedTuple):
    """A whole timeline; `earlier` lanes are left out."""

    lanes: tuple[Lane, ...]
    turns: tuple[Turn, ...]
    earlier: int


class TimelineFold(EventFold[None]):
    """Remembers a goal's last workers, actions and refusals."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes: deque[Lane] = deque(maxlen=LANES_SHOWN)
        self.turns: deque[Turn] = deque(maxlen=TURNS_KEPT)
        self.refusals: deque[RefusedAction] = deque(maxlen=REFUSALS_KEPT)
        self.workers, self._attempt = 0, 1
        self._flying: dict[int, Mark] = {}

    @takes(ev.WorkerStarted)
    def _started(self, _seq: int, event: ev.WorkerStarted) -> None:
        self._add(Lane(event.epoch, event.at, self._attempt))

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
        lane.marks = [*lane.marks, mark][-MARKS_MAX:]
        lane.actions += 1
        if isinstance(event, ev.ActionAllowed) or event.done:
            self._flying[seq] = mark
        else:
            mark.end, mark.result = event.at, "blocked"
            why = why_refused(event.reason)
            self.refusals.append(RefusedAction(seq, event.signature, mark.label, why))

    @takes(ev.ActionFinished, ev.ActionInterrupted)
    def _ended(self, _seq: int, event: ev.ActionFinished | ev.ActionInterrupted) -> None:
        if mark := self._flying.pop(event.of, None):
            mark.end = event.at
            mark.result = event.result if isinstance(event, ev.ActionFinished) else "interrupted"

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
        return next(known, None) or self._add(Lane(epoch, at, self._attempt))

    def _add(self, lane: Lane) -> Lane:
        self.lanes.append(lane)
        self.workers += 1
        return lane


def timeline(known: TimelineFold, now: float) -> Timeline:
    """Return the timeline of what a fold has taken in, as of `now` (seconds since 1970)."""
    spans: list[Lane | Mark] = [
        *known.lanes,
        *(mark for lane in known.lanes for mark in lane.marks),
    ]
    began = known.lanes[0].start if known.lanes else now
    turns = [one for one in known.turns if one.at >= began]
    moments = [began, *(one.at for one in turns), *(one.start for one in spans)]
    moments = sorted([*moments, *(one.end or now for one in spans)])

    def place(at: float | None) -> float:
        return min(1.0, bisect_left(moments, at or now) / max(1, len(moments) - 1))

    def placed(one: _Span) -> _Span:
        return replace(one, start=place(one.start), end=place(one.end))

    return Timeline(
        tuple(replace(placed(one), marks=[*map(placed, one.marks)]) for one in known.lanes),
        tuple(one._replace(at=place(one.at)) for one in turns),
        known.workers - len(known.lanes),
    )
