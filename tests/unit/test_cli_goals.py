"""Goals as `clew status` and `clew status GOAL` draw them."""

from clew_daemon.reading.goal_list import (
    daemon_lines,
    in_view,
    needs_lines,
    overview,
)
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


# ---- what a goal waits for, does, and has come to


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


def test_the_output_of_a_failed_check_is_shown_whole_on_lines_of_its_own(agent):
    output = "expected  [1]\n" + "but got\n" * 40 + "the end"
    agent.core.emit(ev.CheckFinished(name="slug", passed=False, output=output))
    agent.core.emit(ev.CheckFinished(name="silent", passed=False, output=""))
    lines = drawn(agent)
    at = lines.index("check slug: failed")
    assert lines[at + 1 : at + 43] == [f"    {line}" for line in output.splitlines()]
    assert lines[lines.index("check silent: failed") :][:1] == ["check silent: failed"]
    assert not [line for line in lines if line.endswith(":") and "silent" in line]


# ---- a text is said once, and whole


LONG = "the disk [sda] is full because " + "of many [x] reasons, " * 60


def test_a_reason_a_question_and_a_failure_that_say_the_same_are_shown_once(agent):
    agent.complete(success=False, failure=LONG)
    question = f"It is blocked. Last failure: {LONG}. What should be done?"
    agent.core.block_goal(f"It is blocked: {LONG}", AT, question=question)
    shown = "\n".join(drawn(agent))
    assert shown.count(LONG.strip()) == 1
    assert shown.count("It is blocked") == 1
    assert "failed 1 time" in shown


def test_a_reason_that_the_question_does_not_say_is_shown_whole(agent):
    agent.core.block_goal(LONG, AT, question="Which disk?")
    lines = drawn(agent)
    assert f"reason: {LONG.strip()}" in lines
    assert lines[-2:] == [
        "question: Which disk?",
        f'answer with: clew feedback {agent.state.goal_id} "your answer"',
    ]


def test_a_question_that_says_itself_what_to_do_gets_no_other_advice(agent):
    agent.core.block_goal("gone", AT, question="Put it back, then `clew resume goal-1`.", gone=True)
    assert not [line for line in drawn(agent) if "feedback" in line]


# ---- the list, and what stands above it


def test_below_the_list_stands_which_goals_need_a_person(agent):
    view = status_view(agent.state, AT)
    assert needs_lines([view]) == []
    agent.core.block_goal("r", AT, question="Which disk?")
    assert text(needs_lines([view, status_view(agent.state, AT)])) == [
        f"1 goal needs you: {agent.state.goal_id}; `clew status {agent.state.goal_id}` shows what to answer"
    ]
    many = [{"id": f"g{n}", "needs_person": True} for n in range(9)]
    assert text(needs_lines(many)) == [
        "9 goals need you: g0, g1, g2, g3, g4, …; `clew status g0` shows what to answer"
    ]


def test_a_list_begins_with_what_needs_a_person_and_ends_with_the_last_that_ended():
    goals = [
        {"id": status, "status": status, "needs_person": status == "blocked"}
        for status in ("completed", "failed", "in_progress", "blocked", "queued", "cancelled")
    ]
    shown = [goal["id"] for goal in in_view(goals)]
    assert shown == ["blocked", "in_progress", "queued", "cancelled", "failed", "completed"]


def test_a_config_file_that_would_be_rejected_is_told_with_what_the_daemon_does():
    daemon = {"version": "0", "pid": 1, "uptime_s": 61.2, "config_error": "line 1: no [x]\nline 2"}
    lines = text(daemon_lines(daemon))
    assert lines[0] == "daemon 0, pid 1, running for 1 min 1 s"
    assert lines[1:3] == ["the config file has an error: line 1: no [x]", "    line 2"]
    assert "`clew config` names every error" in lines[3]
    assert len(text(daemon_lines(daemon | {"config_error": None}))) == 1
