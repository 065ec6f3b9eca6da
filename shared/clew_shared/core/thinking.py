"""Commands for what the agent thinks: its thoughts, its turns, and the interventions that they call for."""

from __future__ import annotations

from dataclasses import dataclass

from clew_shared.core.answers import Advice, Feedback
from clew_shared.core.attempts import advances, iterations_used_up
from clew_shared.core.tree import TreeCommands
from clew_shared.gate.words import review
from clew_shared.judge.memory import is_new
from clew_shared.judge.reading import words_of
from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus
from clew_shared.text.shorten import beginning
from clew_shared.text.themes import theme
from clew_shared.text.words import WARNINGS

THOUGHT_CHARS = 2_000


@dataclass(slots=True)
class ThinkingCommands(TreeCommands):
    """The part of the core that takes in thoughts and turns, and intervenes."""

    def think(self, text: str, at: float, *, has_tool_calls: bool) -> Feedback:
        """Record a thought."""
        short = beginning(text.strip(), THOUGHT_CHARS)
        words = words_of(short)
        self.emit(
            ev.Thought(
                at=at,
                text=short,
                theme=theme(text),
                has_tool_calls=has_tool_calls,
                new=is_new(self.state.scope.memory, words),
                words=words,
            )
        )
        return self._review(at)

    def reflect(self, event: ev.Reflected) -> Feedback:
        """Record an iteration record: one turn is over."""
        told = self.state.attention.told_in_turn
        self.emit(event)
        if not event.unfinished:
            self.messages = 0
        if self.hold_to_limits(event.at):
            return Feedback(escalated_to="person")
        at_work = self.state.goal.status == GoalStatus.IN_PROGRESS and self._is_in_progress()
        if at_work and iterations_used_up(self.state, self.attempts):
            return self._bound_attempt(event.at)
        return Feedback() if told else self._review(event.at)

    def _bound_attempt(self, at: float) -> Feedback:
        """End an attempt that has taken all its turns."""
        used = self.state.iteration - self.state.attempt.from_iteration
        reason = f"its {used} turns were used up"
        if self.start_over(reason, at, advancing=advances(self.state)):
            return Feedback()
        return Feedback(escalated_to=self.fail(reason, at))

    def _review(self, at: float) -> Feedback:
        """Intervene if a streak calls for it; ignored interventions are a failure of the subtask.

        A runbook can heed none, nor can an agent whose attempt is over.
        """
        if self.runbook or self.state.attempt.over:
            return Feedback()
        found = review(self.state, self.loops, self.calls)
        if found is None:
            return Feedback()
        seq = self.emit(found.model_copy(update={"at": at}))
        evidence = found.message.partition("\n")[0]
        self.emit(
            ev.LoopDetected(
                at=at, loop=found.intervention, evidence=evidence, of=seq, steps=found.steps or ()
            )
        )
        intervention = Advice(found.intervention, found.message)
        if self.state.ignored_interventions < self.ignored_limit or self.state.replan_required:
            return Feedback(intervention)
        warned = WARNINGS[found.intervention]
        if found.intervention == "nothing_new" and self.start_over(found.intervention, at):
            return Feedback(intervention)
        failure = f"it did not react to {self.ignored_limit} warnings; the last: {warned}"
        return Feedback(intervention, self._fail(failure, at, "ignored_interventions"))
