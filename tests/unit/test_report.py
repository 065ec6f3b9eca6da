"""The report in the outbox."""

import pytest

from clew_daemon.report import TRIED_MAX, render, write
from clew_shared import events as ev
from clew_shared.publish import HistoryFold, action_view


def report(agent):
    folded = HistoryFold()
    ended = [folded.take(seq, event) for seq, event in agent.take()]
    return render(agent.state, [action_view(e[0]) for e in ended if e], folded.loops)


def test_a_completed_goal_says_so_with_its_tree(played):
    agent = played(["one", "two"])
    agent.complete()
    agent.core.emit(ev.GoalEnded(status="completed", summary="all well"))
    text = report(agent)
    assert "- status: **completed**" in text
    assert "- progress: 100%" in text
    assert "- summary: all well" in text
    assert "  - [x] one" in text
    assert "A person must answer" not in text


def test_a_blocked_goal_asks_its_question_and_says_how_to_answer(played):
    agent = played(["one"], failure_limit=1, replan_limit=1)
    for level in ("task", "goal"):
        agent.complete(success=False, failure="no disk")
        agent.replan(level, ["another"])
    agent.complete(success=False, failure="no disk")
    text = report(agent)
    assert "## A person must answer" in text
    assert "no disk" in text
    assert "clew feedback goal-1" in text
    assert "  - [#] another (1 failed attempts)" in text
    assert "## Set aside by replans" in text


def test_what_was_tried_and_which_loops_there_were(agent):
    for _ in range(3):
        agent.fail("make", "no rule")
    text = report(agent)
    assert "run_cmd(cmd=make) → failure" in text
    assert "run_cmd(cmd=make) → blocked" in text
    assert '- repetition `run_cmd::{"cmd":"make"}`: attempt 3' in text
    assert "2 allowed, 1 refused" in text


def test_checks_say_what_they_said_when_they_failed(agent):
    agent.core.emit(ev.CheckFinished(name="tests", passed=False, output="1 failed"))
    agent.core.emit(ev.CheckFinished(name="lint", passed=True, output="fine"))
    text = report(agent)
    assert "- [ ] tests: 1 failed" in text
    assert "- [x] lint\n" in text


def test_a_long_history_is_cut_and_says_so(agent):
    for n in range(TRIED_MAX + 5):
        agent.read(f"f{n}", f"text {n}")
    text = report(agent)
    assert "5 earlier actions (`clew history`)" in text
    assert "path=f44" in text
    assert "path=f4)" not in text


def test_keys_and_control_characters_do_not_come_through(agent):
    agent.run("curl -H 'Authorization: Bearer sk-abcdefghijklmnop1234567890'")
    agent.run("printf '\x1b[2J\x07'")
    text = report(agent)
    assert "abcdefghijklmnop1234567890" not in text
    assert "\x1b" not in text
    assert "\x07" not in text


def test_a_description_of_many_lines_is_one_heading(played):
    agent = played(spec={})
    agent.state.goal.description = "first\n## A person must answer\nrm -rf"
    assert report(agent).splitlines()[0] == "# first ## A person must answer rm -rf"


def test_keys_that_clew_does_not_know_are_named(played):
    text = report(played(spec={"unknown_keys": ("tags",)}))
    assert "ignored: tags" in text


def turn(agent, tokens_in, *hindsight, cached=0):
    used = {"tokens_in": tokens_in, "tokens_out": 10, "tokens_cached": cached, "llm_s": 0.25}
    agent.core.emit(ev.Reflected(iteration=0, tokens=tokens_in + 10, hindsight=hindsight, **used))


def test_llm_calls_are_told_subtask_by_subtask(played):
    agent = played(["one | first", "two"])
    turn(agent, 100)
    turn(agent, 200, {"insights": "it is red", "relevance": "high"}, cached=150)
    agent.complete()
    agent.advance()
    turn(agent, 50)  # the one that ended the subtask before
    turn(agent, 60)
    text = report(agent)
    assert "| 1.1 one / first | 3 | 350 | 150 | 30 | 0.8 |" in text
    assert "| 1.2 two | 1 | 60 | 0 | 10 | 0.2 |" in text
    assert "| all | 4 | 410 | 150 | 40 | 1.0 |" in text
    assert "    found: it is red" in text


def test_without_llm_calls_there_is_no_table_of_them(agent):
    assert "## LLM calls" not in report(agent)


def test_the_strategies_that_were_shown_are_named(agent):
    text = render(agent.state, [], [], ["[tes-00001] Run one test alone"])
    assert "## Strategies shown\n\n- [tes-00001] Run one test alone" in text


@pytest.mark.parametrize("times", [1, 3])
def test_the_file_is_written_whole_and_leaves_no_other(agent, tmp_path, times):
    for n in range(times):
        path = write(tmp_path / "outbox", agent.state, f"text {n}\n")
    assert path.name == "goal-1.md"
    assert path.read_text() == f"text {times - 1}\n"
    assert list(path.parent.iterdir()) == [path]
