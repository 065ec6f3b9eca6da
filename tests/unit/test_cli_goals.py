"""Goals as `clew status` and `clew status GOAL` draw them."""

from clew_daemon.reading.goal_list import overview
from clew_daemon.reading.goal_text import goal_lines
from clew_shared.record import events as ev
from clew_shared.record.moment import local
from clew_shared.views.publish import goal_detail, status_view

AT = 1_790_000_000.0


def text(lines):
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def drawn(agent, **known):
    detail = goal_detail(agent.state, AT) | known
    return text(goal_lines(detail, at=AT))


def listed(agent, **known):
    return text(overview([status_view(agent.state, AT) | known], at=AT))


def test_the_tree_tells_how_much_of_each_task_is_done(played):
    agent = played(["one", "two", "three"], ["four"])
    agent.core.complete_subtask(AT, success=True, failure="")
    lines = drawn(agent)
    assert "[>] task 0  33%" in lines
    assert "[ ] task 1  0%" in lines


def test_what_a_goal_waits_for_is_told_in_local_time_with_how_to_go_on_now(agent):
    agent.core.emit(ev.GoalWaiting(at=AT, reason="the endpoint http://x/v1", until=AT + 60))
    lines = drawn(agent)
    assert f"waits for: the endpoint http://x/v1, since {local(AT)}" in lines
    assert f"    until {local(AT + 60)}; now: clew continue {agent.state.goal_id}" in lines
    assert f"waits for the endpoint http://x/v1 (until {local(AT + 60)})" in listed(agent)[1]


def test_a_paused_goal_is_called_paused_everywhere(agent):
    agent.core.emit(ev.GoalWaiting(at=AT, reason="paused", paused=True))
    lines = drawn(agent)
    assert f"paused since {local(AT)}; continue: clew continue {agent.state.goal_id}" in lines
    assert " paused " in listed(agent)[1]
    assert not [line for line in (*lines, *listed(agent)) if "waiting" in line]


def test_a_question_that_says_itself_what_to_do_gets_no_other_advice(agent):
    agent.core.block_goal("gone", AT, question="Put it back, then `clew resume goal-1`.", gone=True)
    assert not [line for line in drawn(agent) if "feedback" in line]
