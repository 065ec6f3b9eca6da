"""How models make their calls: what was refused, repeated and malformed in a goal, and in the recent goals of a model.

Pure: a fold over a goal's events, and sums of what the folds of several goals have left in the ledger.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clew_shared.judge.reading import is_wait
from clew_shared.record import events as ev
from clew_shared.record.daemon_events import CallCounts, ModelUsed
from clew_shared.record.visitor import EventFold, takes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clew_shared.record.prompt_facts import CallForms, Prompt

RECENT_GOALS = 20
"""The goals of a model that count: its last ones."""

LOADED_MAX = 2_000
"""How many of the latest records of all models are read."""

_NO_CALLS = ("stopped", "budget", "replan_required")
"""The reasons of refusals that say nothing about the call."""


class ConductFold(EventFold[tuple[ModelUsed, ...]]):
    """Folds a goal's events into what each model did up to each rest.

    A call belongs to the model that its worker reports a turn of; calls of a worker that reported none by then are
    counted for no model.
    """

    def __init__(self, goal: str, after: int = 0) -> None:
        super().__init__(after)
        self._goal = goal
        self._after = after
        self._epoch = 0
        self._counts: dict[int, Counter[str]] = {}
        self._models: dict[int, str] = {}
        self._open: dict[int, tuple[int, str]] = {}
        self._seen: set[tuple[str, str]] = set()
        self._last: Prompt | None = None

    @takes(ev.WorkerStarted)
    def _started(self, _seq: int, event: ev.WorkerStarted) -> None:
        self._epoch = event.epoch

    @takes(ev.ActionAllowed)
    def _allowed(self, seq: int, event: ev.ActionAllowed) -> None:
        self._epoch = event.epoch
        self._of(event.epoch)["calls"] += 1
        if not is_wait(event.tool, event.args):
            self._open[seq] = (event.epoch, event.signature)

    @takes(ev.ActionBlocked)
    def _refused(self, _seq: int, event: ev.ActionBlocked) -> None:
        if event.reason not in _NO_CALLS:
            self._epoch = event.epoch
            self._of(event.epoch).update(("calls", "refused"))

    @takes(ev.ActionFinished)
    def _finished(self, _seq: int, event: ev.ActionFinished) -> None:
        epoch, signature = self._open.pop(event.of, (0, ""))
        if event.changed:
            self._seen.clear()
        elif signature and not event.soft:
            key = (signature, event.outcome)
            self._of(epoch)["repeated"] += key in self._seen
            self._seen.add(key)

    @takes(ev.WorldSeen, ev.SubtaskStarted, ev.AttemptStarted)
    def _another_world(self, _seq: int, _event: ev.Event) -> None:
        self._seen.clear()

    @takes(ev.Reflected)
    def _reflected(self, _seq: int, event: ev.Reflected) -> None:
        if event.prompt is None or not event.prompt.model:
            return
        native, malformed = self._new_forms(event.prompt)
        self._of(self._epoch).update(turns=1, native=native, malformed=malformed)
        self._models[self._epoch] = event.prompt.model

    @takes(*ev.RESTS)
    def _rested(self, _seq: int, event: ev.GoalEnded | ev.GoalBlocked) -> tuple[ModelUsed, ...]:
        completed = isinstance(event, ev.GoalEnded) and event.status == "completed"
        found: dict[str, Counter[str]] = {}
        for epoch, counts in self._counts.items():
            if model := self._models.get(epoch):
                found.setdefault(model, Counter()).update(counts)
        self._counts = {}
        return tuple(
            ModelUsed(
                at=event.at,
                model=model,
                goal=self._goal,
                completed=completed,
                counts=CallCounts(**counts),
            )
            for model, counts in found.items()
        )

    def _of(self, epoch: int) -> Counter[str]:
        return self._counts.setdefault(epoch, Counter())

    def _new_forms(self, now: Prompt) -> tuple[int, int]:
        """Return how many native and malformed answers are new: a report has the counts of the goal so far.

        After a review that this fold did not see, the first report is only where counting begins.
        """
        last, self._last = self._last, now
        if last is None:
            return (0, 0) if self._after else _pair(now.forms)
        before, since = _pair(last.forms), _pair(now.forms)
        goes_on = last.model == now.model and before[0] <= since[0] and before[1] <= since[1]
        return (since[0] - before[0], since[1] - before[1]) if goes_on else since


@dataclass(frozen=True, slots=True)
class ModelConduct:
    """What is known of a model's calls in its last goals, of which some were `completed`."""

    model: str
    goals: int = 0
    completed: int = 0
    counts: CallCounts = field(default_factory=CallCounts)


def conducts(bodies: Iterable[bytes]) -> dict[str, ModelConduct]:
    """Return what is known of each model, from the bodies of events, newest first."""
    by_model: dict[str, dict[str, list[ModelUsed]]] = {}
    for event in map(ModelUsed.model_validate_json, bodies):
        goals = by_model.setdefault(event.model, {})
        if event.goal in goals or len(goals) < RECENT_GOALS:
            goals.setdefault(event.goal, []).append(event)
    return {model: _conduct(model, goals) for model, goals in by_model.items()}


def _conduct(model: str, goals: dict[str, list[ModelUsed]]) -> ModelConduct:
    total, completed = Counter[str](), 0
    for rests in goals.values():
        completed += any(one.completed for one in rests)
        for one in rests:
            total.update(dict(one.counts))
    return ModelConduct(model, len(goals), completed, CallCounts(**total))


def _pair(forms: CallForms) -> tuple[int, int]:
    return forms.native, forms.malformed
