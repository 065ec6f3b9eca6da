"""A goal's timeline: a lane for each worker (epoch, attempt) with its actions, refusals, and how it ended.

Pure: `TimelineFold` takes in the events, and `timeline` places them between 0 (left) and 1 (right). What happened has
the same room whenever it did, so that neither a night of waiting nor one long command flattens an hour of work.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from clew_shared.record import events as ev
from clew_shared.record.visitor import EventFold, takes
from clew_shared.text.words import action_text, key_line, why_refused

SPANS_MAX = 20_000  # actions that are remembered, the last ones
LANES_SHOWN = 12
MARKS_MAX = 160  # of one lane; where there are more actions, neighbours share a mark
REFUSALS_KEPT = 50
SAID_KEPT = 200  # actions of which it is remembered what they printed last, for their refusal
LABEL_CHARS = 160
RUNNING = "running"
_WORST_LAST = ("success", RUNNING, "failure", "timeout", "error", "interrupted", "blocked")


@dataclass(frozen=True, slots=True)
class Mark:
    """An action, or `count` of them side by side; `result` is the worst of them, `seq` the number of that one."""

    seq: int
    start: float
    width: float
    result: str
    label: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Lane:
    """One worker from its start to its end; `ending` is why it ended, "" while it runs."""

    epoch: int
    attempt: int
    agent: str
    start: float
    width: float
    marks: tuple[Mark, ...]
    ending: str
    crashed: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """A moment that concerns the whole goal: what a person said, that it was blocked, that it ended."""

    at: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """A whole timeline; `earlier` lanes are left out, `began` and `seconds` are of the wall clock."""

    lanes: tuple[Lane, ...]
    turns: tuple[Turn, ...]
    earlier: int
    began: float
    seconds: float


@dataclass(frozen=True, slots=True)
class RefusedAction:
    """A refusal of the gate: `label` is the action as people read it, `why` a line on the reason."""

    seq: int
    at: float
    signature: str
    label: str
    why: str


@dataclass(slots=True)
class _Span:
    seq: int
    began: float
    label: str
    ended: float | None = None
    result: str = RUNNING


@dataclass(slots=True)
class _Worker:
    epoch: int
    began: float
    agent: str
    attempt: int = 1
    ended: float | None = None
    ending: str = ""
    crashed: bool = False
    spans: list[_Span] = field(default_factory=list)


class TimelineFold(EventFold[None]):
    """Remembers a goal's workers, actions and refusals, in bounded memory."""

    def __init__(self) -> None:
        super().__init__()
        self.workers: list[_Worker] = []
        self.turns: deque[tuple[float, str, str]] = deque(maxlen=100)
        self.refusals: deque[RefusedAction] = deque(maxlen=REFUSALS_KEPT)
        self.began = 0.0
        self.spans = 0
        self._attempt = 1
        self._flying: dict[int, tuple[_Span, str]] = {}
        self._said: dict[str, str] = {}

    @takes(ev.GoalAccepted)
    def _accepted(self, _seq: int, event: ev.GoalAccepted) -> None:
        self.began = event.at

    @takes(ev.WorkerStarted)
    def _started(self, _seq: int, event: ev.WorkerStarted) -> None:
        self.workers.append(_Worker(event.epoch, event.at, event.agent, self._attempt))

    @takes(ev.WorkerExited)
    def _exited(self, _seq: int, event: ev.WorkerExited) -> None:
        worker = self._worker(event.epoch, event.at)
        worker.ended, worker.ending, worker.crashed = event.at, event.reason, event.crash

    @takes(ev.AttemptStarted)
    def _fresh_start(self, _seq: int, event: ev.AttemptStarted) -> None:
        self._attempt = event.attempt

    @takes(ev.SubtaskStarted)
    def _moved(self, _seq: int, _event: ev.SubtaskStarted) -> None:
        self._attempt = 1

    @takes(ev.ActionAllowed, ev.ActionBlocked)
    def _judged(self, seq: int, event: ev.ActionAllowed | ev.ActionBlocked) -> None:
        span = _Span(seq, event.at, action_text(event.tool, event.args, LABEL_CHARS))
        worker = self._worker(event.epoch, event.at)
        worker.attempt = event.attempt
        worker.spans.append(span)
        if isinstance(event, ev.ActionAllowed) or event.done:
            self._flying[seq] = span, event.signature
        else:
            span.ended, span.result = event.at, "blocked"
            why = why_refused(event.reason, said=self._said.get(event.signature, ""))
            refused = RefusedAction(seq, event.at, event.signature, span.label, why)
            self.refusals.append(refused)
        self._forget()

    @takes(ev.ActionFinished, ev.ActionInterrupted)
    def _ended(self, _seq: int, event: ev.ActionFinished | ev.ActionInterrupted) -> None:
        span, signature = self._flying.pop(event.of, (None, ""))
        if span is None:
            return
        span.ended, span.result = event.at, "interrupted"
        if isinstance(event, ev.ActionFinished):
            span.result = event.result
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
        self.turns.append((event.at, "feedback" if kind == "given" else kind, text[:LABEL_CHARS]))

    def _worker(self, epoch: int, at: float) -> _Worker:
        for worker in reversed(self.workers):
            if worker.epoch == epoch:
                return worker
        self.workers.append(_Worker(epoch, at, "", self._attempt))
        return self.workers[-1]

    def _forget(self) -> None:
        """Drop the oldest worker's actions where there are too many."""
        self.spans += 1
        if self.spans <= SPANS_MAX:
            return
        oldest = next(worker for worker in self.workers if worker.spans)
        drop = max(1, len(oldest.spans) // 2)
        del oldest.spans[:drop]
        self.spans -= drop


def timeline(known: TimelineFold, now: float) -> Timeline:
    """Return the timeline of what a fold has taken in, as of `now` (seconds since 1970)."""
    workers = known.workers[-LANES_SHOWN:]
    began = workers[0].began if workers else known.began
    turns = [one for one in known.turns if one[0] >= began]
    moments = [began, *(at for at, _, _ in turns)]
    for worker in workers:
        moments += [worker.began, *(span.began for span in worker.spans), worker.ended or now]
        moments += [span.ended for span in worker.spans if span.ended]
    moments.sort()
    place = partial(_place, moments)
    return Timeline(
        tuple(_lane(worker, place, now) for worker in workers),
        tuple(Turn(place(at), kind, text) for at, kind, text in turns),
        len(known.workers) - len(workers),
        began,
        max(0.0, moments[-1] - began),
    )


def _place(moments: list[float], at: float) -> float:
    return min(1.0, bisect_left(moments, at) / max(1, len(moments) - 1))


def _lane(worker: _Worker, place: Callable[[float], float], now: float) -> Lane:
    start = place(worker.began)
    marks = [_mark(span, place, now) for span in worker.spans]
    if len(marks) > MARKS_MAX:
        bins: dict[int, list[Mark]] = {}
        for mark in marks:
            bins.setdefault(int(mark.start * MARKS_MAX), []).append(mark)
        marks = [_joined(group) for group in bins.values()]
    width = place(worker.ended or now) - start
    about = worker.epoch, worker.attempt, worker.agent, start, width
    return Lane(*about, tuple(marks), worker.ending, worker.crashed)


def _mark(span: _Span, place: Callable[[float], float], now: float) -> Mark:
    start = place(span.began)
    return Mark(span.seq, start, place(span.ended or now) - start, span.result, span.label)


def _joined(group: list[Mark]) -> Mark:
    worst = max(group, key=lambda mark: badness(mark.result))
    end = max(mark.start + mark.width for mark in group)
    start = group[0].start
    return Mark(worst.seq, start, end - start, worst.result, worst.label, len(group))


def badness(result: str) -> int:
    """Return the rank of a result among marks that share a place: the one with the highest is shown."""
    return _WORST_LAST.index(result) if result in _WORST_LAST else len(_WORST_LAST)
