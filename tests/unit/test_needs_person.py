"""What waits for a person."""

from clew_shared.record.identity import Identity
from clew_shared.record.model import Goal, GoalStatus
from clew_shared.record.state import State
from clew_shared.views.needs import needs_person


def state(goal, status, **values):
    return State(goal_id=goal, goal=Goal(goal, status=status), **values)


def test_a_blocked_goal_waits_with_its_question_and_the_command_that_answers():
    blocked = state("a-1", GoalStatus.BLOCKED, reason="escalated", question="Which port?")
    [need] = needs_person([blocked, state("b-1", GoalStatus.IN_PROGRESS)])
    assert (need.goal, need.why, need.question) == ("a-1", "escalated", "Which port?")
    assert need.command == 'clew feedback a-1 "…"'


def test_a_replaced_workspace_is_accepted_by_resuming():
    [need] = needs_person([state("a-1", GoalStatus.BLOCKED, gone=True)])
    assert need.command == "clew resume a-1"
    other = state("a-1", GoalStatus.BLOCKED, stranger=Identity(dev=1, ino=2))
    assert needs_person([other])[0].command == "clew resume a-1"


def test_the_longest_wait_comes_first_and_no_other_goal_waits_for_a_person():
    found = needs_person(
        [
            state("a-1", GoalStatus.BLOCKED, updated_at=2.0),
            state("b-1", GoalStatus.BLOCKED, updated_at=1.0),
            state("c-1", GoalStatus.WAITING, paused=True),
            *(state("d-1", s) for s in GoalStatus if s is not GoalStatus.BLOCKED),
        ]
    )
    assert [need.goal for need in found] == ["b-1", "a-1"]
