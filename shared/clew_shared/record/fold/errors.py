"""The fold of errors: how often in a row a tool, or an action, failed in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record.fold.eviction import count
from clew_shared.record.model import Result
from clew_shared.record.state import ErrorStreak, InFlight, State

if TYPE_CHECKING:
    from clew_shared.record import events as ev


def count_errors(state: State, flight: InFlight, e: ev.ActionFinished, before: str) -> None:
    """Count an error for its tool, for its action, and in the whole scope if it is one of the tool itself."""
    scope, tool = state.scope, flight.action.name
    error = "" if e.soft else e.error_class
    for streaks, key in ((scope.tool_errors, tool), (scope.action_errors, flight.signature)):
        if error:
            streaks[key] = _continued(
                streaks.pop(key, ErrorStreak()), error, state.world, before, e.outcome
            )
        else:
            streaks.pop(key, None)
    if error and e.result == Result.ERROR:
        count(scope.misuses, f"{tool}:{error}")


def _continued(
    streak: ErrorStreak, error: str, world: str, before: str, outcome: str
) -> ErrorStreak:
    """Return a streak with one more error.

    After a change it is the answer to a new attempt: it continues the streak only if it is the same to the letter.
    """
    tried = streak.world != before
    if streak.what != error or (tried and streak.outcome != outcome):
        return ErrorStreak(error, 1, 0, outcome, world)
    return ErrorStreak(error, streak.count + 1, streak.tries + tried, outcome, world)
