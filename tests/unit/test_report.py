"""The report in the outbox."""

import pytest

from clew_daemon.publish.report import render, write
from clew_shared.record import events as ev
from clew_shared.views.publish import HistoryFold, action_view


def report(agent):
    folded = HistoryFold()
    ended = [folded.take(seq, event) for seq, event in agent.take()]
    return render(agent.state, [action_view(e[0]) for e in ended if e], folded.loops)


def test_a_completed_goal_says_so_with_its_tree(played):
    agent = played(["one", "two"])
    agent.complete()
    agent.core.emit(ev.GoalEnded(status="completed", summary="all well"))
    text = report(agent)
    assert "- status: **completed, unverified**" in text
    assert "- progress: 100%" in text
    assert "- summary: all well" in text
    assert "  - [x] one" in text
    assert "answer is needed" not in text


def test_a_blocked_goal_asks_its_question_and_says_how_to_answer(played):
    agent = played(["one"], failure_limit=1, replan_limit=1)
    for level in ("task", "goal"):
        agent.complete(success=False, failure="no disk")
        agent.replan(level, ["another"])
    agent.complete(success=False, failure="no disk")
    text = report(agent)
    assert "## Your answer is needed" in text
    assert text.partition("## Loops")[0].count("no disk") == 1
    assert "clew feedback goal-1" in text
    assert "  - [#] another (1 failed attempt)" in text
    assert "## Replaced by replans" in text
    assert "- 1.1 failed 1 time\n" in text


def completed(agent, **fields):
    agent.core.emit(ev.GoalEnded(status="completed", **fields))
    return report(agent)


def test_keys_and_control_characters_do_not_come_through(agent):
    agent.run("curl -H 'Authorization: Bearer sk-abcdefghijklmnop1234567890'")
    agent.run("printf '\x1b[2J\x07'")
    text = report(agent)
    assert "abcdefghijklmnop1234567890" not in text
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.mark.parametrize("times", [1, 3])
def test_the_file_is_written_whole_and_leaves_no_other(agent, tmp_path, times):
    for n in range(times):
        path = write(tmp_path / "outbox", agent.state, f"text {n}\n")
    assert path.name == "goal-1.md"
    assert path.read_text() == f"text {times - 1}\n"
    assert list(path.parent.iterdir()) == [path]
