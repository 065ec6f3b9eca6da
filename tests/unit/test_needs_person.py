"""What waits for a person."""

import pytest

from clew_shared.core import questions
from clew_shared.record.identity import Identity
from clew_shared.record.model import Goal, GoalStatus
from clew_shared.record.state import State
from clew_shared.views.publish import status_view

CONTINUE = "clew continue a-1"


def state(status, **values):
    return State(goal_id="a-1", goal=Goal("a-1", status=status), **values)


@pytest.mark.parametrize(
    ("known", "answer"),
    [
        (state(GoalStatus.BLOCKED, question="Which port?"), 'clew feedback a-1 "…"'),
        (state(GoalStatus.BLOCKED, gone=True), CONTINUE),
        (state(GoalStatus.BLOCKED, stranger=Identity(dev=1, ino=2)), CONTINUE),
        (
            state(
                GoalStatus.BLOCKED,
                question=questions.ask(State(goal_id="a-1"), "cannot_start", fault="no model").text,
            ),
            CONTINUE,
        ),
        (state(GoalStatus.WAITING, reason="no endpoint"), CONTINUE),
        (state(GoalStatus.WAITING, paused=True), None),
        (state(GoalStatus.WAITING, wait_until=9.0), None),
        (state(GoalStatus.IN_PROGRESS), None),
        (state(GoalStatus.FAILED), None),
    ],
)
def test_a_goal_that_needs_a_person_names_the_command_that_answers(known, answer):
    view = status_view(known)
    assert (view["needs_person"], view["answer"]) == (answer is not None, answer)
