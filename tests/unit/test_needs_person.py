"""What waits for a person."""

import pytest

from clew_daemon.web.goal_page import goal_row
from clew_shared.core import questions
from clew_shared.record import events as ev
from clew_shared.record.fold import apply
from clew_shared.record.identity import Identity
from clew_shared.record.model import Goal, GoalStatus
from clew_shared.record.spec import Spec
from clew_shared.record.state import State
from clew_shared.views.needs import needs_person
from clew_shared.views.publish import status_view

WAITS = (GoalStatus.BLOCKED, GoalStatus.WAITING)


def state(goal, status, **values):
    return State(goal_id=goal, goal=Goal(goal, status=status), **values)


def test_a_blocked_goal_waits_with_its_question_and_the_command_that_answers():
    blocked = state("a-1", GoalStatus.BLOCKED, reason="escalated", question="Which port?")
    [need] = needs_person([blocked, state("b-1", GoalStatus.IN_PROGRESS)])
    assert (need.goal, need.why, need.question) == ("a-1", "escalated", "Which port?")
    assert need.command == 'clew feedback a-1 "…"'


def test_a_replaced_workspace_is_accepted_by_resuming():
    [need] = needs_person([state("a-1", GoalStatus.BLOCKED, gone=True)])
    assert need.command == "clew continue a-1"
    other = state("a-1", GoalStatus.BLOCKED, stranger=Identity(dev=1, ino=2))
    assert needs_person([other])[0].command == "clew continue a-1"


def test_a_question_that_words_cannot_answer_is_answered_by_continuing():
    question = questions.cannot_start(State(goal_id="a-1"), "no model").text
    [need] = needs_person([state("a-1", GoalStatus.BLOCKED, question=question)])
    assert need.command == "clew continue a-1"


def test_a_wait_without_a_time_needs_a_person_and_is_ended_by_resuming():
    endless = state("a-1", GoalStatus.WAITING, reason="no endpoint", waiting_since=3.0)
    [need] = needs_person([endless])
    assert (need.why, need.command, need.since) == ("no endpoint", "clew continue a-1", 3.0)


@pytest.mark.parametrize(
    "events",
    [
        [ev.GoalBlocked(at=1.0, reason="r", question="?")],
        [ev.GoalWaiting(at=1.0, reason="no endpoint", until=9.0)],
        [ev.GoalWaiting(at=1.0, reason="no endpoint")],
        [ev.GoalWaiting(at=1.0, reason="paused", paused=True)],
        [ev.GoalBlocked(at=1.0, reason="r"), ev.GoalRequeued(at=2.0, cause="resume")],
        [ev.GoalEnded(at=1.0, status="failed")],
    ],
)
def test_the_list_and_the_pages_agree_on_what_needs_a_person(events):
    accepted = ev.GoalAccepted(at=0.0, goal_id="a-1", spec=Spec(description="d"))
    known = State(goal_id="a-1")
    for seq, event in enumerate([accepted, ev.GoalStarted(at=0.5), *events], start=1):
        apply(known, event, seq)
    is_needed = bool(needs_person([known]))
    assert status_view(known)["needs_person"] is is_needed
    assert (goal_row(known, 2.0, running=True).need is not None) is is_needed


def test_the_longest_wait_comes_first_and_no_other_goal_waits_for_a_person():
    found = needs_person(
        [
            state("a-1", GoalStatus.BLOCKED, updated_at=2.0),
            state("b-1", GoalStatus.BLOCKED, updated_at=1.0),
            state("c-1", GoalStatus.WAITING, paused=True),
            state("c-2", GoalStatus.WAITING, wait_until=9.0),
            *(state("d-1", s) for s in GoalStatus if s not in WAITS),
        ]
    )
    assert [need.goal for need in found] == ["b-1", "a-1"]
