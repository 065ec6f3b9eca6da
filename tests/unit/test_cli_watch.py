"""What people who watch are told of each event, and how it looks in a pipe and in a window."""

import json
import time
from dataclasses import replace

import pytest
from rich.console import Console

from clew_daemon.cli.commands.watch.feed import FeedEntry, advance, past_entry, status_entry
from clew_daemon.cli.commands.watch.goal_status import GoalMoment, goal_lines
from clew_daemon.cli.commands.watch.live_view import LiveView, PlainView, entry_line, entry_lines
from clew_shared.record import events as ev
from clew_shared.record.state import State

AT = 1_790_000_000.0


def told(agent):
    """The entries of all that an agent's core has emitted."""
    state = State(goal_id="goal-1")
    return [entry for seq, event in agent.take() if (entry := advance(state, event, seq))]


def lines(agent):
    return [entry_line(entry) for entry in told(agent)]


def test_the_beginning_of_a_goal_is_told_step_by_step(agent):
    assert lines(agent) == [
        "accepted: goal",
        "started",
        "worker started",
        "[>] 1.1 goal",
    ]


def test_an_action_is_told_when_it_starts_and_when_it_ends_with_the_head_of_its_output(agent):
    agent.run("ls", output="\n\n  first\nsecond")
    first, last = told(agent)[-2:]
    assert (first.begins, first.event, entry_line(first)) == (
        True,
        "action.allowed",
        "#6 ls",
    )
    assert (last.begins, last.event, last.of) == (False, "action.finished", first.of)
    assert entry_line(last) == "#6 success, 0.0 s: ls: first"
    assert last.output == "first\nsecond"


def test_a_pipe_says_how_an_action_ended_without_saying_again_what_it_was(agent, capsys):
    agent.run("ls", output="a.txt")
    PlainView().tell(told(agent)[-2:])
    assert capsys.readouterr().out.splitlines() == [
        "goal-1: #6 ls",
        "goal-1: #6 success, 0.0 s: a.txt",
    ]


def test_refusals_and_loops_are_told_with_the_action_and_the_reason(agent):
    for _ in range(3):
        agent.fail("make")
    said = lines(agent)
    again = "#10 refused: make: 3rd time the same; last: Error: it does not work"
    assert said[-2:] == [again, "loop: repetition of the same action (3 times)"]


def test_a_claim_of_done_that_is_refused_is_told_with_what_fails(agent):
    agent.core.emit(ev.FinishRefused(failing=("check_1",)))
    assert lines(agent)[-1] == "says it is done: refused, check_1 fails"


def test_a_death_and_the_restart_are_told(agent):
    agent.core.emit(ev.WorkerExited(epoch=1, reason="killed by SIGKILL", crash=True))
    agent.core.emit(ev.WorkerStarted(epoch=2))
    assert lines(agent)[-2:] == [
        "worker died, epoch 1: killed by SIGKILL (signal 9, perhaps out of memory)",
        "worker restarted, epoch 2",
    ]


@pytest.mark.parametrize(
    ("checked", "text"), [(True, "completed 100%"), (False, "completed, unverified 100%")]
)
def test_a_goal_that_ended_without_checks_is_told_as_unverified(played, checked, text):
    agent = played(spec={"checks": {"ok": "true"}} if checked else {})
    if checked:
        agent.core.emit(ev.CheckFinished(name="ok", passed=True))
    agent.core.emit(ev.GoalEnded(status="completed", passed_before=("ok",) if checked else ()))
    before = "; but check ok passed before any work: it proves nothing" if checked else ""
    assert lines(agent)[-1] == text + before


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
        "action": "ls",
        "output": "a.txt",
    }


def test_who_comes_later_is_told_of_past_actions_in_the_very_same_entries(agent):
    state, live, past, began = State(goal_id="goal-1"), [], [], {}
    agent.run("ls", output="a.txt")
    for _ in range(3):
        agent.fail("make")
    agent.core.propose("run_cmd", {"cmd": "sleep 9"}, AT)
    agent.core.interrupt("daemon_died", AT + 5, counts=False)
    for seq, event in agent.take():
        entry = advance(state, event, seq)
        if isinstance(event, ev.ActionAllowed | ev.ActionBlocked):
            began[seq] = event
        if event.kind.startswith("action_"):
            live.append(entry)
            past.append(past_entry("goal-1", seq, event, began.get(getattr(event, "of", 0))))
    assert [one for one in past if one.event != "action.blocked"] == [
        one for one in live if one.event != "action.blocked"
    ]
    assert {one.event for one in live} == {
        "action.allowed",
        "action.finished",
        "action.blocked",
        "action.interrupted",
    }
    assert live[-1].text.endswith("interrupted: the daemon died")


def test_where_a_goal_stands_is_told_with_its_reason_its_question_and_what_it_waits_for(played):
    asked = played()
    asked.core.emit(ev.GoalBlocked(reason="stuck", question="Which way?\nLeft or right?"))
    entry = status_entry(asked.state)
    assert (entry_line(entry), entry.output) == (
        "blocked 0%: stuck",
        "Which way?\nLeft or right?",
    )
    assert entry.as_json()["seq"] is None
    waiting = played()
    waiting.core.emit(ev.GoalWaiting(reason="the endpoint http://llm", until=AT))
    assert entry_line(status_entry(waiting.state)).startswith(
        "waiting 0%: the endpoint http://llm, until 2026-"
    )
    waiting.core.emit(ev.GoalRequeued(by="resume", reopen=True))
    told = entry_line(status_entry(waiting.state, "waits for other-1, which is queued"))
    assert told == "queued 0%: other-1, which is queued"


def test_the_end_of_a_goal_keeps_its_time_when_feedback_comes_later(agent):
    agent.core.emit(ev.GoalEnded(at=AT, status="failed", reason="no disk"))
    agent.core.emit(ev.FeedbackGiven(at=AT + 60, text="there is one now"))
    assert status_entry(agent.state).at == AT
    assert entry_line(status_entry(agent.state)) == "failed 0%: no disk"


def test_a_pipe_has_the_whole_question_on_lines_of_its_own(agent, capsys):
    asked = "The endpoint refused. " * 30 + "Then `clew resume goal-1`.\nOr cancel it."
    state = State(goal_id="goal-1")
    entry = advance(state, ev.GoalBlocked(reason="stuck", question=asked), 1)
    PlainView().tell([entry])
    first, second = asked.splitlines()
    assert capsys.readouterr().out.splitlines() == [
        "goal-1: blocked 0%: stuck",
        f"goal-1: question: {first}",
        f"goal-1: question: {second}",
    ]


def test_what_a_goal_wrote_cannot_move_the_cursor():
    evil = FeedEntry(
        AT, "g", "action.finished", "#1 success, 0.0 s", action="x", output="\x1b[31m\x07red"
    )
    assert "\x1b" not in entry_line(evil)
    assert all("\x1b" not in text for each in entry_lines(evil, several=True) for text, _ in each)


# ---- where a goal stands


def at_work(agent, **told):
    agent.core.emit(ev.WorkerStarted(at=AT, epoch=1))
    return GoalMoment(agent.state, told, AT + 1)


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
    assert drawn(GoalMoment(agent.state), AT + 72)[-1] == "tool running for 1 min 10 s: #7 make"


def test_a_waiting_goal_says_what_for_since_when_and_until_when(agent):
    agent.core.emit(ev.GoalWaiting(at=AT, reason="cannot reach http://llm", until=AT + 60))
    said = drawn(GoalMoment(agent.state), AT + 20)[-1]
    assert said.startswith("waiting for cannot reach http://llm until ")
    assert said.endswith("(in 40 s); for 20 s now")


def test_a_paused_goal_says_how_it_goes_on(agent):
    agent.core.emit(ev.GoalWaiting(at=AT, reason="paused", paused=True))
    assert drawn(GoalMoment(agent.state), AT)[-1] == "paused; to go on: clew continue goal-1"


def test_without_a_daemon_nothing_is_said_to_be_at_work_and_no_time_is_counted(agent, played):
    agent.core.emit(ev.WorkerStarted(at=AT, epoch=1))
    agent.core.propose("run_cmd", {"cmd": "make"}, AT + 2)
    seen = GoalMoment(agent.state, is_away=True)
    assert drawn(seen, AT + 72)[-1] == "stopped; continues when the daemon runs"
    assert drawn(seen, AT + 72) == drawn(seen, AT + 900)
    waiting = played()
    waiting.core.emit(ev.GoalWaiting(at=AT, reason="the endpoint http://llm"))
    seen = GoalMoment(waiting.state, is_away=True)
    assert drawn(seen, AT + 20)[-1] == "waiting for the endpoint http://llm"


def test_a_reason_that_the_question_has_is_not_said_beside_it(agent):
    agent.core.emit(ev.GoalBlocked(reason="no disk", question="There is no disk. Which one?"))
    assert drawn(GoalMoment(agent.state), AT)[-1] == "question: There is no disk. Which one?"
    assert not [said for said in drawn(GoalMoment(agent.state), AT) if said == "no disk"]


# ---- in a window


def window(monkeypatch, columns, rows):
    class Window(Console):
        def __init__(self, **options):
            super().__init__(width=columns, height=rows, force_terminal=True, **options)

    monkeypatch.setattr("rich.console.Console", Window)
    return LiveView(several=True, foot="FOOT")


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
    said, height = fitted(view, [GoalMoment(one.state) for one in agents], "the daemon has ended")
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
    said, _ = fitted(view, [GoalMoment(played(["first", "second"]).state)])
    assert "1.1 first" in said
    assert any(one.startswith("[....................] 0%  in_progress") for one in said)


@pytest.mark.parametrize("count", [1, 3, 5, 12])
def test_questions_never_hide_the_goal_that_is_at_work(played, monkeypatch, count):
    view = window(monkeypatch, 60, 20)
    agents = [played() for _ in range(count + 1)]
    for number, one in enumerate(agents):
        one.state.goal_id = f"goal-with-a-rather-long-name-{number:04}"
    for one in agents[1:]:
        one.core.emit(ev.GoalBlocked(reason="stuck " * 50, question="Which way? " * 50))
    said, height = fitted(view, [GoalMoment(one.state) for one in agents])
    assert height <= 20
    text = "\n".join(said)
    assert "name-0000" in text
    assert "in_progress" in text
    assert text.count("question: ") >= min(count, 2)
