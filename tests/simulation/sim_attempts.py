"""The watch's own account of the attempts at one goal's subtasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import invariants as hold

from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap

if TYPE_CHECKING:
    from sim_world import Limits

    from clew_shared.record.state import State


@dataclass
class Attempts:
    """`over` is the attempt that has ended and that none has followed yet, 0 for none.

    `unsure`: what changes now counts as the goal's, since an action was cut off and no snapshot was taken since.
    """

    limits: Limits
    over: int = 0
    unsure: bool = False

    def take(self, event: ev.Event, state: State) -> None:
        """Hold the next event against the order of attempts and their limit; `state` is the one before it."""
        match event:
            case ev.WorkerStarted():
                hold.no_worker_in_an_attempt_that_is_over(event, self.over)
            case ev.WorkerExited():
                hold.the_end_of_an_attempt_is_no_crash(event)
            case ev.AttemptEnded():
                hold.attempts_follow_one_another(event, self.over, state.attempt.number)
                self.over = event.attempt
            case ev.AttemptStarted():
                allowed = max(self.limits.attempts, state.spec.attempts or 1)
                hold.attempts_follow_one_another(event, self.over, state.attempt.number)
                hold.attempts_are_no_more_than_allowed(event, allowed)
                self.over = 0
            case ev.SubtaskStarted():
                self.over = 0
            case ev.ActionInterrupted():
                self.unsure = True
            case snap.SnapshotTaken():
                self.unsure = False
            case ev.GoalRequeued() if event.reopen:
                self.over = 0
            case _:
                pass

    def taken(self, event: ev.Event, state: State) -> None:
        """Hold the state after an event against what an attempt begins with."""
        if isinstance(event, ev.AttemptStarted):
            hold.an_attempt_begins_with_nothing_counted(event, state)
