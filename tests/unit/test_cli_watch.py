"""What people who watch are told of each event, and how it looks in a pipe and in a window."""

import time

import pytest
from rich.console import Console

from clew_daemon.cli.commands.watch import LiveView, PlainView, entry_line
from clew_daemon.reading.describe import advance
from clew_shared.record import events as ev
from clew_shared.record.state import State
from clew_shared.views.publish import status_view


def told(agent):
    """The entries of all that an agent's core has emitted."""
    state = State(goal_id="goal-1")
    return [entry for seq, event in agent.take() if (entry := advance(state, event, seq))]


def lines(agent):
    return [entry_line(entry) for entry in told(agent)]


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


def window(monkeypatch, columns, rows):
    class Window(Console):
        def __init__(self, **options):
            super().__init__(width=columns, height=rows, force_terminal=True, **options)

    monkeypatch.setattr("rich.console.Console", Window)
    return LiveView(several=True, foot="FOOT")


def fitted(view, agents, note=""):
    goals = [status_view(one.state, time.time()) for one in agents]
    found = view.standing(goals, note, time.time())
    text = "\n".join("".join(text for text, _ in each) for each in found)
    assert len(view._console.render_lines(view._group(found))) <= 20
    assert text.endswith("FOOT")
    assert note in text
    return text


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
