"""A goal's timeline: a lane for each worker (epoch, attempt) with its actions, refusals, and how it ended.

Pure: `TimelineFold` takes in the events, and `timeline` places them between 0 (left) and 1 (right). Stretches in
which nothing happens are squeezed, so that a night of waiting does not flatten an hour of work.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from clew_shared.record import events as ev
from clew_shared.record.visitor import EventFold, takes
from clew_shared.text.words import action_text, key_line, why_refused

SPANS_MAX = 20_000
"""Actions that are remembered, the last ones."""
LANES_SHOWN = 12
MARKS_MAX = 160
"""Marks of one lane; where there are more actions, neighbours share a mark."""
REFUSALS_KEPT = 50
SAID_KEPT = 200
"""Actions of which it is remembered what they printed last, for their refusal."""

LABEL_CHARS = 160
IDLE_MIN_S = 10.0
IDLE_SHARE = 0.08
"""A gap longer than this share of the time at work, and than `IDLE_MIN_S`, is squeezed to that length."""

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
class Gap:
    """A squeezed stretch of `seconds` in which nothing happened."""

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """A whole timeline; `earlier` lanes are left out, `began` and `seconds` are of the wall clock."""

    lanes: tuple[Lane, ...]
    turns: tuple[Turn, ...]
    gaps: tuple[Gap, ...]
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
        self,
        _seq: int,
        event: ev.GoalBlocked | ev.FeedbackGiven | ev.GoalWaiting | ev.GoalEnded,
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
    turns = [one for one in known.turns if not workers or one[0] >= workers[0].began]
    began = workers[0].began if workers else known.began
    scale = _Scale(_busy(workers, [at for at, _, _ in turns], began, now))
    return Timeline(
        tuple(_lane(worker, scale, now) for worker in workers),
        tuple(Turn(scale.place(at), kind, text) for at, kind, text in turns),
        scale.gaps,
        len(known.workers) - len(workers),
        began,
        max(0.0, scale.end - began),
    )


def _busy(
    workers: list[_Worker], moments: list[float], began: float, now: float
) -> list[tuple[float, float]]:
    """Return the stretches in which something happened, oldest first and apart from each other."""
    found = [(began, began), *((at, at) for at in moments)]
    for worker in workers:
        ended = now if worker.ended is None else worker.ended
        found += [(worker.began, worker.began), (ended, ended)]
        found += [(s.began, now if s.ended is None else s.ended) for s in worker.spans]
    merged: list[tuple[float, float]] = []
    for start, end in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


class _Scale:
    """Maps the wall clock to fractions, with idle stretches squeezed."""

    def __init__(self, busy: list[tuple[float, float]]) -> None:
        limit = max(IDLE_MIN_S, IDLE_SHARE * sum(end - start for start, end in busy))
        gaps: list[tuple[float, float]] = []
        self.end = busy[-1][1]
        self._times, places = [busy[0][0]], [0.0]
        for start, end in busy:
            idle = start - self._times[-1]
            if idle > limit:
                gaps.append((places[-1] + limit / 2, idle))
            for at, width in ((start, min(idle, limit)), (end, end - start)):
                self._times.append(at)
                places.append(places[-1] + width)
        whole = places[-1] or 1.0
        self._places = [place / whole for place in places]
        self.gaps = tuple(Gap(at / whole, seconds) for at, seconds in gaps)

    def place(self, at: float) -> float:
        """Return where a moment is, between 0 and 1."""
        right = min(max(bisect_right(self._times, at), 1), len(self._times) - 1)
        before, after = self._times[right - 1], self._times[right]
        start, end = self._places[right - 1], self._places[right]
        share = 0.0 if after <= before else min(max((at - before) / (after - before), 0.0), 1.0)
        return start + (end - start) * share


def _lane(worker: _Worker, scale: _Scale, now: float) -> Lane:
    start = scale.place(worker.began)
    width = scale.place(now if worker.ended is None else worker.ended) - start
    marks = [_mark(span, scale, now) for span in worker.spans]
    if len(marks) > MARKS_MAX:
        bins: dict[int, list[Mark]] = {}
        for mark in marks:
            bins.setdefault(int(mark.start * MARKS_MAX), []).append(mark)
        marks = [_joined(group) for group in bins.values()]
    return Lane(
        worker.epoch,
        worker.attempt,
        worker.agent,
        start,
        max(0.0, width),
        tuple(marks),
        worker.ending,
        worker.crashed,
    )


def _mark(span: _Span, scale: _Scale, now: float) -> Mark:
    start = scale.place(span.began)
    end = scale.place(now if span.ended is None else span.ended)
    return Mark(span.seq, start, max(0.0, end - start), span.result, span.label)


def _joined(group: list[Mark]) -> Mark:
    """Let neighbours share a mark, which shows the worst of them."""
    worst = max(group, key=lambda mark: badness(mark.result))
    end = max(mark.start + mark.width for mark in group)
    start = group[0].start
    return Mark(worst.seq, start, end - start, worst.result, worst.label, len(group))


def badness(result: str) -> int:
    """Return the rank of a result among marks that share a place: the one with the highest is shown."""
    return _WORST_LAST.index(result) if result in _WORST_LAST else len(_WORST_LAST)


# -- in columns of characters, as a terminal shows it --------------------------------------------


@dataclass(frozen=True, slots=True)
class LaneColumns:
    """A lane in columns, counted from 0: its worker lived from `first` to `last`, and `marks` are by column.

    Of marks that share a column the worst one is there.
    """

    lane: Lane
    first: int
    last: int
    marks: dict[int, Mark]


def column_of(place: float, width: int) -> int:
    """Return the column of a place between 0 and 1."""
    return min(width - 1, max(0, int(place * width)))


def lane_columns(lane: Lane, width: int) -> LaneColumns:
    """Return a lane in `width` columns, at least 1."""
    first, last = column_of(lane.start, width), column_of(lane.start + lane.width, width)
    return LaneColumns(lane, first, last, _marks(lane.marks, width))


def _marks(marks: Iterable[Mark], width: int) -> dict[int, Mark]:
    found: dict[int, Mark] = {}
    for mark in marks:
        last = column_of(mark.start + mark.width, width)
        for at in range(column_of(mark.start, width), last + 1):
            there = found.get(at)
            if there is None or badness(mark.result) >= badness(there.result):
                found[at] = mark
    return dict(sorted(found.items()))
