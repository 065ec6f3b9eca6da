"""Which change of a goal's status may follow which."""

import pytest

from clew_shared.record import events as ev
from clew_shared.record.fold import fold
from clew_shared.record.life_events import FOLLOW_UP
from clew_shared.record.model import GoalStatus
from clew_shared.record.spec import Spec
from clew_shared.record.state import State

END = 9
EVENTS = {
    "start": ev.GoalStarted(),
    "wait": ev.GoalWaiting(reason="busy"),
    "block": ev.GoalBlocked(reason="no way"),
    "requeue": ev.GoalRequeued(by="resume"),
    "reopen": ev.GoalRequeued(by="retry", after=END),
    "reopen for the feedback": ev.GoalRequeued(by="retry", after=END, subtask="also in German"),
    "reopen an earlier end": ev.GoalRequeued(by="retry", after=END - 1),
    "complete": ev.GoalEnded(status="completed"),
    "fail": ev.GoalEnded(status="failed"),
    "cancel": ev.GoalEnded(status="cancelled"),
}
OF_ENDED = {"reopen", "reopen for the feedback"}
REQUEUE = {"requeue", "reopen", "reopen for the feedback", "reopen an earlier end"}
MAY = {
    "queued": {"start", "wait", "block", "cancel"},
    "in_progress": {"wait", "block", "complete", "fail", "cancel"},
    "waiting": {"start", "wait", "block", *REQUEUE, "cancel"},
    "paused": {"wait", "block", *REQUEUE, "cancel"},
    "blocked": {"block", *REQUEUE, "cancel"},
    "completed": set(),
    "completed, with feedback since": {"reopen for the feedback"},
    "failed": OF_ENDED,
    "cancelled": OF_ENDED,
}


def at(status):
    status, _, told = status.partition(", ")
    state = State(goal_id="g", rested_seq=END, paused=status == "paused")
    state.goal.status = GoalStatus("waiting" if status == "paused" else status)
    state.guidance.feedback_seq = END + 1 if told else END - 1
    return state


@pytest.mark.parametrize("status", MAY)
def test_a_status_allows_these_changes_and_no_others(status):
    allowed = {name for name, event in EVENTS.items() if event.may_follow(at(status))}
    assert allowed == MAY[status]
    assert ev.FeedbackGiven(text="well done").may_follow(at(status))  # nor any that changes none


def test_feedback_after_the_end_makes_a_subtask_of_its_first_line_and_each_later_one_another():
    spec = Spec(description="Greet", checks={})
    events = [
        ev.GoalAccepted(goal_id="g", spec=spec),
        ev.FeedbackGiven(text="before the end"),
        ev.GoalStarted(),
        ev.GoalEnded(status="completed"),
    ]
    state = fold(enumerate(events, start=1))
    assert state.follow_up == ""
    for n, text in enumerate(("\n  also in German\nand politely", "x" * 300), start=1):
        fold([(10 * n, ev.FeedbackGiven(text=text))], state)
        asked = state.follow_up
        event = ev.GoalRequeued(by="retry", reopen=True, after=state.rested_seq, subtask=asked)
        assert event.may_follow(state)
        fold([(10 * n + 1, event)], state)
        assert (state.goal.status, state.verified) == ("queued", None)
        assert state.next_pending() == (1, n - 1)
        done = [ev.GoalStarted(), ev.GoalEnded(status="completed")]
        fold(enumerate(done, 10 * n + 2), state)
    assert [task.description for task in state.goal.tasks] == ["Greet", FOLLOW_UP]
    first, second = state.goal.tasks[1].subtasks
    assert first.description == "also in German"
    assert len(second.description) == 200
