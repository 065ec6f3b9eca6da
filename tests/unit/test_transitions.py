"""Which change of a goal's status may follow which."""

import pytest

from clew_shared import events as ev
from clew_shared.core import Core, WrongState
from clew_shared.model import GoalStatus
from clew_shared.settings import Settings
from clew_shared.state import State
from clew_shared.transitions import refusal

END = 9
EVENTS = {
    "start": ev.GoalStarted(),
    "wait": ev.GoalWaiting(reason="busy"),
    "block": ev.GoalBlocked(reason="no way"),
    "requeue": ev.GoalRequeued(by="resume"),
    "reopen": ev.GoalRequeued(by="retry", after=END),
    "reopen an earlier end": ev.GoalRequeued(by="retry", after=END - 1),
    "complete": ev.GoalEnded(status="completed"),
    "fail": ev.GoalEnded(status="failed"),
    "cancel": ev.GoalEnded(status="cancelled"),
}
OF_ENDED = {"reopen"}
MAY = {
    "queued": {"start", "wait", "block", "cancel"},
    "in_progress": {"wait", "block", "complete", "fail", "cancel"},
    "waiting": {"start", "wait", "block", "requeue", "reopen", "reopen an earlier end", "cancel"},
    "paused": {"wait", "block", "requeue", "reopen", "reopen an earlier end", "cancel"},
    "blocked": {"block", "requeue", "reopen", "reopen an earlier end", "cancel"},
    "completed": OF_ENDED,
    "failed": OF_ENDED,
    "cancelled": OF_ENDED,
}


def at(status):
    state = State(goal_id="g", rested_seq=END, paused=status == "paused")
    state.goal.status = GoalStatus("waiting" if status == "paused" else status)
    return state


@pytest.mark.parametrize("status", MAY)
def test_a_status_allows_these_changes_and_no_others(status):
    allowed = {name for name, event in EVENTS.items() if not refusal(at(status), event)}
    assert allowed == MAY[status]


@pytest.mark.parametrize("status", MAY)
def test_what_changes_no_status_is_always_allowed(status):
    assert refusal(at(status), ev.FeedbackGiven(text="well done")) == ""


def test_a_refused_change_takes_no_number_and_leaves_no_trace():
    numbers = []
    core = Core(at("cancelled"), Settings().loops, lambda: numbers.append(1) or 1)
    with pytest.raises(WrongState, match="the goal is cancelled"):
        core.emit(EVENTS["complete"])
    assert (numbers, core.take(), core.state.goal.status) == ([], [], "cancelled")


def test_a_goal_that_has_ended_is_not_handed_to_a_person():
    core = Core(at("failed"), Settings().loops, lambda: 1)
    core.block_goal("no way", 0.0, question="?")
    assert core.take() == []
