"""Interventions: thoughts, streaks without progress, the same error, being stuck."""

import pytest


def test_three_thoughts_of_one_theme(agent):
    assert [agent.think(t) for t in ("I plan", "the strategy is", "my approach")] == [
        "",
        "",
        "theme",
    ]


def test_a_planet_is_no_plan(agent):
    assert [agent.think(f"the planet {n}", tools=True) for n in range(5)] == [""] * 5


def test_thoughts_that_turn_on_nothing_known_are_no_theme_but_need_an_act(agent):
    assert [agent.think(f"hm {n}") for n in range(3)] == ["", "", "repeated_planning"]


def test_thoughts_that_come_with_tool_calls_are_no_planning(agent):
    assert [agent.think("hm", tools=True) for _ in range(6)] == [""] * 6


def test_an_action_ends_the_row_of_thoughts(agent):
    for n in range(6):
        assert agent.think(f"hm {n}") == agent.think(f"well {n}") == ""
        agent.read(f"file {n}", f"text {n}")


def test_searches_that_find_something_new_are_no_theme(agent):
    for n in range(10):
        assert agent.think("I search for the place", tools=True) == ""
        assert agent.act("search", {"pattern": str(n)}, output=f"found {n}").word == ""


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [({"theme_window": 2}, "theme"), ({"thoughts_without_tools": 2}, "repeated_planning")],
)
def test_the_windows_can_be_set(played, numbers, kind):
    agent = played(**numbers)
    text = "I plan" if kind == "theme" else "hm"
    assert [agent.think(text) for _ in range(2)] == ["", kind]


def test_five_actions_without_progress(agent):
    words = [
        agent.act("search", {"pattern": str(n)}, output="nothing found").word for n in range(6)
    ]
    assert words == [""] * 5 + ["no_progress"]


def test_progress_ends_the_row(agent):
    for n in range(30):
        output = f"found {n}" if n % 4 == 0 else "nothing found"
        assert agent.act("search", {"pattern": str(n)}, output=output).word == ""


def test_five_iterations_without_a_fact(agent):
    assert [agent.reflect("advancing") for _ in range(5)] == [""] * 4 + ["no_progress"]


def test_iterations_that_bring_facts_are_no_standstill(agent):
    for n in range(20):
        agent.read(f"file {n}", f"text {n}")
        assert agent.reflect("advancing") == ""


def test_one_missing_path_three_times(agent):
    words = [
        agent.act("read_file", {"path": f"src/{n}.py"}, "error", f"no such file: src/{n}.py").word
        for n in range(3)
    ]
    assert words == ["", "", "same_error"]


@pytest.mark.parametrize("fault", ["HTTP 429 Too Many Requests", "connection refused"])
def test_a_temporary_fault_is_not_the_same_error(agent, fault):
    words = [agent.fail(f"curl example.org/{n}", fault).word for n in range(4)]
    assert "same_error" not in words


def test_errors_in_other_words_are_not_the_same(agent):
    for n in range(20):
        agent.write("a", str(n))
        assert agent.fail("pytest", f"{30 - n} failed").word == ""


def test_a_success_ends_the_row_of_errors(agent):
    for n in range(6):
        agent.fail(f"bad {n}", "unknown option")
        agent.fail(f"worse {n}", "unknown option")
        assert agent.run(f"good {n}", output=str(n)).word == ""


def test_calling_oneself_stuck_three_times(agent):
    assert [agent.reflect("stuck"), agent.reflect("regressing"), agent.reflect("stuck")] == [
        "",
        "",
        "stuck",
    ]


def test_advancing_ends_the_row_of_being_stuck(agent):
    said = [agent.reflect(a) for a in ("stuck", "stuck", "advancing", "stuck")]
    assert said == [""] * 4


def ignore(agent, *, more):
    """Go on in the same way after a word; give the levels and the words."""
    return [agent.act("search", {"pattern": f"x{n}"}, output="nothing found") for n in range(more)]


def test_a_word_is_said_once_and_again_three_steps_later(agent):
    words = [a.word for a in ignore(agent, more=12)]
    assert [n for n, word in enumerate(words) if word] == [5, 8, 11]


def test_two_ignored_words_are_a_failure_of_the_subtask(agent):
    ignore(agent, more=11)
    assert agent.state.subtask.attempts == 0
    ignore(agent, more=1)
    assert agent.state.subtask.attempts == 1
    assert "did not react" in agent.state.subtask.last_failure
    assert agent.state.subtask.status == "in_progress"


def test_words_ignored_long_enough_escalate(agent):
    levels = [a.escalated_to for a in ignore(agent, more=30)]
    assert "task" in levels


def test_a_word_that_was_heeded_is_not_held_against_the_agent(agent):
    ignore(agent, more=6)
    agent.write("a", "x")
    ignore(agent, more=4)
    assert agent.state.ignored_interventions == 0


def test_being_stuck_again_and_again_is_counted_by_turns(agent):
    said = [agent.reflect("stuck") for _ in range(9)]
    assert said[2] == said[5] == "stuck"
    assert agent.state.subtask.attempts == 1


def test_the_same_failing_test_after_ever_new_edits_gets_a_word_and_is_never_refused(agent):
    words = []
    for n in range(60):
        assert agent.write("a.py", f"version {n}").allowed
        assert agent.read("a.py", f"version {n}").allowed
        answer = agent.fail("pytest", "1 failed: test_a")
        assert answer.allowed
        words.append(answer.word)
    assert words[:5] == ["", "", "", "", "same_error"]
    assert agent.state.subtask.attempts == 0


def test_feedback_starts_the_streaks_anew(agent):
    agent.think("I plan")
    agent.think("I plan")
    ignore(agent, more=5)
    agent.feedback()
    assert agent.think("I plan") == ""
    assert ignore(agent, more=1)[0].word == ""


def test_turns_that_only_complete_subtasks_or_recall_bring_nothing_new(played):
    agent = played([f"{n}" for n in range(9)])
    agent.write("a", "1")
    words = [agent.reflect()]
    for n in range(5):
        agent.complete()
        agent.advance()
        found = agent.act("recall", {"seq": n}, output=f"text {n}")
        words.append(agent.reflect() or found.word)
    assert words == [""] * 5 + ["no_progress"]


def test_a_refusal_is_no_progress(agent):
    for _ in range(3):
        agent.fail("make")
    stale = agent.state.attention.stale
    agent.fail("make")
    assert agent.state.attention.stale == stale + 1


def test_a_word_is_on_record_before_it_is_said(agent):
    for _ in range(3):
        agent.think("I plan")
    kinds = [e.kind for _, e in agent.take()]
    assert kinds[-3:] == ["thought", "intervened", "loop_detected"]
