"""What people who watch are told of each event, and how it looks in a pipe and in a window."""

import time

import pytest
from rich.console import Console

from clew_daemon.cli.commands.watch import LiveView, PlainView, entry_line, entry_lines
from clew_daemon.reading.describe import Entry, advance
from clew_shared.record import events as ev
from clew_shared.record.state import State
from clew_shared.views.publish import status_view

AT = 1_790_000_000.0


def told(agent):
    """The entries of all that an agent's core has emitted."""
    state = State(goal_id="goal-1")
    return [entry for seq, event in agent.take() if (entry := advance(state, event, seq))]


def lines(agent):
    return [entry_line(entry) for entry in told(agent)]


def test_an_action_is_told_when_it_starts_and_when_it_ends_with_the_head_of_its_output(agent):
    agent.run("ls", output="\n\n  first\nsecond")
    first, last = told(agent)[-2:]
    assert (first.begins, first.kind, entry_line(first)) == (True, "action.allowed", "#6 ls")
    assert (last.begins, last.kind, last.of) == (False, "action.finished", first.of)
    assert entry_line(last) == "#6 success, 0.0 s: ls: first"


def test_a_refusal_is_told_in_one_line_with_the_action_and_the_reason(agent, capsys):
    for _ in range(3):
        agent.fail("make")
    refused = told(agent)[-2:]
    PlainView().tell(refused)
    again = "#10 refused: make: 3rd time the same; last: Error: it does not work"
    assert capsys.readouterr().out == f"goal-1: {again}\n"
    assert len([one for entry in refused for one in entry_lines(entry, several=False)]) == 1


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
    evil = Entry(AT, "g", "action.finished", "#1 success", detail="\x1b[31m\x07red", action="x")
    assert "\x1b" not in entry_line(evil)
    assert all("\x1b" not in text for each in entry_lines(evil, several=True) for text, _ in each)


# ---- in a window


def window(monkeypatch, columns, rows):
    class Window(Console):
        def __init__(self, **options):
            super().__init__(width=columns, height=rows, force_terminal=True, **options)

    monkeypatch.setattr("rich.console.Console", Window)
    return LiveView(several=True, foot="FOOT")


def fitted(view, agents, note=""):
    goals = [status_view(one.state, time.time()) for one in agents]
    found = view.fitted(goals, note, time.time())
    text = "\n".join("".join(text for text, _ in each) for each in found)
    assert view.height(found) <= 20
    assert text.endswith("FOOT")
    assert note in text
    return text


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 20])
def test_the_live_part_fits_a_small_window_and_keeps_what_needs_a_person(
    played, monkeypatch, count
):
    view = window(monkeypatch, 60, 20)
    agents = [played() for _ in range(count)]
    for number, one in enumerate(agents):
        one.state.goal_id = f"goal-with-a-rather-long-name-{number:04}"
    agents[-1].core.emit(ev.GoalBlocked(reason="stuck", question="Which way? " * 500))
    text = fitted(view, agents, "the daemon has ended")
    assert f"{count - 1:04}" in text
    assert "question: Which way?" in text
    shown = sum(f"name-{number:04}" in text for number in range(count))
    assert shown == count or f"… and {count - shown} more: clew status" in text


@pytest.mark.parametrize("count", [1, 3, 5, 12])
def test_questions_never_hide_the_goal_that_is_at_work(played, monkeypatch, count):
    view = window(monkeypatch, 60, 20)
    agents = [played() for _ in range(count + 1)]
    for number, one in enumerate(agents):
        one.state.goal_id = f"goal-with-a-rather-long-name-{number:04}"
    for one in agents[1:]:
        one.core.emit(ev.GoalBlocked(reason="stuck " * 50, question="Which way? " * 50))
    text = fitted(view, agents)
    assert "name-0000" in text
    assert "in_progress" in text
    assert text.count("question: ") >= min(count, 2)
