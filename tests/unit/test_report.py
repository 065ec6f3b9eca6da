"""The report in the outbox."""

import time

import pytest

from clew_daemon.publish.report import HOW_TO_CHECK, TRIED_MAX, render, write
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


def test_what_was_tried_and_which_loops_there_were(agent):
    for _ in range(3):
        agent.fail("make", "no rule")
    text = report(agent)
    assert "`make` → failed" in text
    assert "`make` → was refused" in text
    assert '- repetition of the same action `run_cmd::{"cmd":"make"}`, 3 times' in text
    assert "2 allowed, 1 refused" in text


def test_checks_say_what_they_said_when_they_failed(agent):
    agent.core.emit(ev.CheckFinished(name="tests", passed=False, output="1 failed"))
    agent.core.emit(ev.CheckFinished(name="lint", passed=True, output="fine"))
    text = report(agent)
    assert "- [ ] tests: failed: 1 failed" in text
    assert "- [x] lint: passed\n" in text


def completed(agent, **fields):
    agent.core.emit(ev.GoalEnded(status="completed", **fields))
    return report(agent)


def test_a_goal_without_checks_is_completed_unverified_and_told_how_to_add_some(agent):
    text = completed(agent)
    assert "- status: **completed, unverified**" in text
    assert HOW_TO_CHECK in text
    assert "    ---\n    checks:\n      tests: pytest -q\n    ---\n" in text


def test_a_goal_whose_checks_passed_is_completed_and_told_no_more(played):
    agent = played(spec={"checks": {"tests": "pytest -q"}})
    agent.core.emit(ev.CheckFinished(name="tests", passed=True))
    text = completed(agent)
    assert "- status: **completed**" in text
    assert "agent's word" not in text


def test_what_a_goal_stands_at_is_said_once(agent):
    agent.core.finish_failed("the disk is full", 1.0)
    assert report(agent).count("the disk is full") == 1
    assert "- status: **failed**" in report(agent)


def test_feedback_is_offered_only_where_it_can_help(played):
    agent = played(["one"], spec={"max_iterations": 3})
    for _ in range(3):
        agent.reflect()
    text = report(agent)
    assert "clew feedback" not in text
    assert "`clew continue goal-1`" in text
    assert text.count("the budget of 3 iterations is used up") == 1


def test_times_are_local_and_without_fractions(agent, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    agent.state.accepted_at = 1_800_000_000.123
    try:
        assert "- accepted: 2027-01-15 17:00:00\n" in report(agent)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_long_history_is_cut_and_says_so(agent):
    for n in range(TRIED_MAX + 5):
        agent.read(f"f{n}", f"text {n}")
    text = report(agent)
    assert "5 earlier actions (`clew history goal-1`)" in text
    assert "`read_file f44`" in text
    assert "`read_file f4`" not in text


def test_keys_and_control_characters_do_not_come_through(agent):
    agent.run("curl -H 'Authorization: Bearer sk-abcdefghijklmnop1234567890'")
    agent.run("printf '\x1b[2J\x07'")
    text = report(agent)
    assert "abcdefghijklmnop1234567890" not in text
    assert "\x1b" not in text
    assert "\x07" not in text


def test_a_description_of_many_lines_is_one_heading(played):
    agent = played(spec={})
    agent.state.goal.description = "first\n## Your answer is needed\nrm -rf"
    assert report(agent).splitlines()[0] == "# first ## Your answer is needed rm -rf"


def test_keys_that_clew_does_not_know_are_named(played):
    text = report(played(spec={"unknown_keys": ("tags",)}))
    assert "(ignored): tags" in text


@pytest.mark.parametrize("times", [1, 3])
def test_the_file_is_written_whole_and_leaves_no_other(agent, tmp_path, times):
    for n in range(times):
        path = write(tmp_path / "outbox", agent.state, f"text {n}\n")
    assert path.name == "goal-1.md"
    assert path.read_text() == f"text {times - 1}\n"
    assert list(path.parent.iterdir()) == [path]
