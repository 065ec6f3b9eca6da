"""What people who watch are told of each event, and how it looks in a pipe and in a window."""

import json
import time
from dataclasses import replace

import pytest
from rich.console import Console

from clew_daemon.cli import liveview
from clew_daemon.cli.happenings import Entry, of_action, take
from clew_daemon.cli.liveview import Plain, Seen, entry_lines, goal_lines, line
from clew_shared import events as ev
from clew_shared.state import State

AT = 1_790_000_000.0


def told(agent):
    """The entries of all that an agent's core has emitted."""
    state = State(goal_id="goal-1")
    return [entry for seq, event in agent.take() if (entry := take(state, event, seq))]


def lines(agent):
    return [line(entry) for entry in told(agent)]


def test_the_beginning_of_a_goal_is_told_step_by_step(agent):
    assert lines(agent) == [
        "accepted: goal",
        "in_progress 0%",
        "worker started",
        "[>] 1.1 goal",
    ]


def test_an_action_is_told_when_it_starts_and_when_it_ends_with_the_head_of_its_output(agent):
    agent.run("ls", output="\n\n  first\nsecond")
    first, last = told(agent)[-2:]
    assert (first.begins, first.event, line(first)) == (
        True,
        "action.allowed",
        '#6 run_cmd {"cmd":"ls"}',
    )
    assert (last.begins, last.event, last.of) == (False, "action.finished", first.of)
    assert line(last) == '#6 success, 0.0 s: run_cmd {"cmd":"ls"}: first'
    assert last.output == "first\nsecond"


def test_a_pipe_says_how_an_action_ended_without_saying_again_what_it_was(agent, capsys):
    agent.run("ls", output="a.txt")
    Plain().tell(told(agent)[-2:])
    assert capsys.readouterr().out.splitlines() == [
        'goal-1: #6 run_cmd {"cmd":"ls"}',
        "goal-1: #6 success, 0.0 s: a.txt",
    ]


def test_refusals_and_loops_are_told_with_the_action_and_the_reason(agent):
    for _ in range(3):
        agent.fail("make")
    said = lines(agent)
    assert any(one.startswith("#10 refused (repetition): run_cmd") for one in said)
    assert any(one.startswith("loop detected: repetition, 3 attempts") for one in said)


def test_a_death_and_the_restart_are_told(agent):
    agent.core.emit(ev.WorkerExited(epoch=1, reason="killed by SIGKILL", crash=True))
    agent.core.emit(ev.WorkerStarted(epoch=2))
    assert lines(agent)[-2:] == [
        "worker died: killed by SIGKILL (epoch 1)",
        "worker restarted, epoch 2",
    ]


@pytest.mark.parametrize(
    ("checked", "text"), [(True, "completed 100%"), (False, "completed, unverified 100%")]
)
def test_a_goal_that_ended_without_checks_is_told_as_unverified(played, checked, text):
    agent = played(spec={"checks": {"ok": "true"}} if checked else {})
    if checked:
        agent.core.emit(ev.CheckFinished(name="ok", passed=True))
    agent.core.emit(ev.GoalEnded(status="completed"))
    assert lines(agent)[-1] == text


def test_a_suggested_check_is_told_when_it_is_proposed_and_when_it_ran(agent):
    agent.core.emit(ev.CheckProposed(name="greeted", cmd="grep -q hello greeting"))
    agent.core.emit(ev.CheckFinished(name="greeted", passed=False, output="no", suggested=True))
    assert lines(agent)[-2:] == [
        "check suggested by the agent: greeted: grep -q hello greeting",
        "suggested check greeted: failed: no",
    ]


def test_a_wait_says_what_for_and_until_when(agent):
    agent.core.emit(ev.GoalWaiting(reason="cannot reach http://llm", until=AT))
    assert lines(agent)[-1].startswith("waiting: cannot reach http://llm, until 2026-")


def test_a_json_line_has_the_name_that_the_event_has_in_the_log(agent):
    agent.run("ls", output="a.txt")
    said = told(agent)[-1].as_json()
    assert json.loads(json.dumps(said)) == said
    assert said == {
        "timestamp": "1970-01-01T00:00:00.000000+00:00",
        "goal": "goal-1",
        "seq": 7,
        "event": "action.finished",
        "text": "#6 success, 0.0 s",
        "of": 6,
        "action": 'run_cmd {"cmd":"ls"}',
        "output": "a.txt",
    }


def test_who_comes_later_is_told_of_the_last_actions_in_the_same_words():
    action = {
        "seq": 6,
        "timestamp": "2026-09-21T14:13:20+00:00",
        "name": "run_cmd",
        "args": {"cmd": "ls"},
        "result": "failure",
        "duration_s": 2.5,
        "output": "no such file",
    }
    assert (
        line(of_action("goal-1", action))
        == '#6 failure, 2.5 s: run_cmd {"cmd": "ls"}: no such file'
    )


def test_what_a_goal_wrote_cannot_move_the_cursor():
    evil = Entry(
        AT, "g", "action.finished", "#1 success, 0.0 s", action="x", output="\x1b[31m\x07red"
    )
    assert "\x1b" not in line(evil)
    assert all("\x1b" not in text for each in entry_lines(evil, several=True) for text, _ in each)


# ---- where a goal stands


def at_work(agent, **told):
    agent.core.emit(ev.WorkerStarted(at=AT, epoch=1))
    return Seen(agent.state, told, AT + 1)


def drawn(seen, at):
    return ["".join(text for text, _ in each) for each in goal_lines(seen, at)]


def test_a_slow_llm_call_is_shown_as_thinking_for_its_time(agent):
    now = {"doing": "thinking", "since": "2026-09-21T14:13:21+00:00", "what": "LLM call"}
    assert drawn(at_work(agent, now=now), AT + 13)[-1] == "thinking for 12 s (LLM call)"


def test_an_answer_of_the_daemon_that_is_older_than_the_record_does_not_count(agent):
    now = {"doing": "checks", "since": "2026-09-21T14:13:21+00:00", "what": "check slow"}
    seen = at_work(agent, now=now)
    assert drawn(seen, AT + 13)[-1] == "checks running for 12 s: check slow"
    assert drawn(replace(seen, asked_at=AT - 1), AT + 13)[-1] == "thinking for 13 s"


def test_a_running_tool_is_shown_with_its_time_from_the_record_alone(agent):
    agent.core.emit(ev.WorkerStarted(at=AT, epoch=1))
    agent.core.propose("run_cmd", {"cmd": "make"}, AT + 2)
    assert (
        drawn(Seen(agent.state), AT + 72)[-1]
        == 'tool running for 1 min 10 s: #7 run_cmd {"cmd":"make"}'
    )


def test_a_waiting_goal_says_what_for_since_when_and_until_when(agent):
    agent.core.emit(ev.GoalWaiting(at=AT, reason="cannot reach http://llm", until=AT + 60))
    said = drawn(Seen(agent.state), AT + 20)[-1]
    assert said.startswith("waiting for cannot reach http://llm until ")
    assert said.endswith("(in 40 s); for 20 s now")


def test_a_paused_goal_says_how_it_goes_on(agent):
    agent.core.emit(ev.GoalWaiting(at=AT, reason="paused", paused=True))
    assert drawn(Seen(agent.state), AT)[-1] == "paused; to resume: clew resume goal-1"


# ---- in a window


def window(monkeypatch, columns, rows):
    class Window(Console):
        def __init__(self, **options):
            super().__init__(width=columns, height=rows, force_terminal=True, **options)

    monkeypatch.setattr("rich.console.Console", Window)
    return liveview._Terminal(several=True, foot="FOOT")


def fitted(view, seen, note=""):
    found = view._fitted(seen, note, time.time())
    height = view._height(found)
    return ["".join(text for text, _ in each) for each in found], height


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 20])
def test_the_live_part_fits_a_small_window_and_keeps_what_needs_a_person(
    played, monkeypatch, count
):
    view = window(monkeypatch, 60, 20)
    agents = [played() for _ in range(count)]
    for number, one in enumerate(agents):
        one.state.goal_id = f"goal-with-a-rather-long-name-{number:04}"
    agents[-1].core.emit(ev.GoalBlocked(reason="stuck", question="Which way? " * 500))
    said, height = fitted(view, [Seen(one.state) for one in agents], "the daemon has ended")
    assert height <= 20
    text = "\n".join(said)
    assert f"{count - 1:04}" in text
    assert "blocked" in text
    assert "question: Which way?" in text
    assert "the daemon has ended" in text
    assert text.endswith("FOOT")
    shown = sum(f"name-{number:04}" in text for number in range(count))
    assert shown == count or f"… and {count - shown} more: clew status" in text


def test_with_room_a_goal_is_shown_in_full(played, monkeypatch):
    view = window(monkeypatch, 120, 40)
    said, _ = fitted(view, [Seen(played(["first", "second"]).state)])
    assert "1.1 first" in said
    assert any(one.startswith("[....................] 0%  in_progress") for one in said)
