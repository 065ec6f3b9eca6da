"""The counters of `/metrics`, as a fold of events. Pure; they only ever grow, whatever is purged from the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from clew_daemon.herald.notes import GoalNote
from clew_shared.record import events as ev
from clew_shared.record.events import Event

ACTIONS = "clew_actions_total"
REFUSALS = "clew_refusals_total"
RESTARTS = "clew_worker_restarts_total"
INTERVENTIONS = "clew_interventions_total"
CHECKS = "clew_checks_total"
TOKENS = "clew_llm_tokens_total"

LABELS = {
    ACTIONS: ("verdict", "result"),
    REFUSALS: ("reason",),
    INTERVENTIONS: ("kind",),
    RESTARTS: ("reason",),
    CHECKS: ("result",),
    TOKENS: ("direction", "agent"),
}
HELP = {
    ACTIONS: "Actions that agents proposed, when they ended or were refused.",
    REFUSALS: "Actions that the gate refused.",
    INTERVENTIONS: "Times that an agent was told that it gets no further.",
    RESTARTS: "Workers that died.",
    CHECKS: "Checks that the daemon ran.",
    TOKENS: "Tokens that LLMs read and wrote.",
}
VALUES_MAX = 200
"""Series of one counter; values beyond count as `other`."""
OTHER = "other"


class MetricSeries(NamedTuple):
    """One counter with the values of its labels."""

    name: str
    labels: tuple[str, ...]


def counted(event: Event, note: GoalNote) -> Iterator[tuple[MetricSeries, int]]:
    """Yield what an event adds to which counters; `note` is of its goal."""
    match event:
        case ev.ActionFinished():
            yield MetricSeries(ACTIONS, ("allowed", event.result)), 1
        case ev.ActionInterrupted():
            yield MetricSeries(ACTIONS, ("allowed", "interrupted")), 1
        case ev.ActionBlocked():
            yield MetricSeries(ACTIONS, ("blocked", "blocked")), 1
            yield MetricSeries(REFUSALS, (event.reason,)), 1
        case ev.Intervened():
            yield MetricSeries(INTERVENTIONS, (event.intervention,)), 1
        case ev.WorkerExited(crash=True):
            yield MetricSeries(RESTARTS, (event.reason,)), 1
        case ev.CheckFinished():
            yield MetricSeries(CHECKS, ("passed" if event.passed else "failed",)), 1
        case ev.Reflected():
            yield from _tokens(event, note.agent)
        case _:
            pass


def _tokens(event: ev.Reflected, agent: str) -> Iterator[tuple[MetricSeries, int]]:
    if not (event.tokens_in or event.tokens_out):
        parts = {"unknown": event.tokens}  # an agent that reports a sum only
    else:
        parts = {"input": event.tokens_in, "output": event.tokens_out}
    for direction, count in parts.items():
        if count:
            yield MetricSeries(TOKENS, (direction, agent)), count


class Counters:
    """The counters and their values; `changed` are those that were added to since `take_changed`."""

    def __init__(self, values: dict[MetricSeries, int]) -> None:
        self.values = values
        self._changed: set[MetricSeries] = set()

    def add(self, series: MetricSeries, count: int) -> None:
        """Add to a counter; one with too many series counts new ones as `other`."""
        if series not in self.values and self._size(series.name) >= VALUES_MAX:
            series = MetricSeries(series.name, (OTHER,) * len(series.labels))
        self.values[series] = self.values.get(series, 0) + count
        self._changed.add(series)

    def take_changed(self) -> dict[MetricSeries, int]:
        """Return the counters that have changed since the last call."""
        changed, self._changed = self._changed, set()
        return {series: self.values[series] for series in changed}

    def _size(self, name: str) -> int:
        return sum(series.name == name for series in self.values)
