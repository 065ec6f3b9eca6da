"""Interventions: thoughts, iterations without facts, being stuck; `test_judge.py` has what steps bring."""

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


def test_five_iterations_without_a_fact(agent):
    assert [agent.reflect("advancing") for _ in range(5)] == [""] * 4 + ["no_progress"]


def test_iterations_that_bring_facts_are_no_standstill(agent):
    for n in range(20):
        agent.read(f"file {n}", f"text {n}")
        assert agent.reflect("advancing") == ""


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


def test_being_stuck_again_and_again_is_counted_by_turns(agent):
    said = [agent.reflect("stuck") for _ in range(9)]
    assert said[2] == said[5] == "stuck"
    assert agent.state.subtask.attempts == 1


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
    assert words[-1] == "no_progress"
    assert {*words[:-1]} == {"", "nothing_new"}


def test_a_word_is_on_record_before_it_is_said(agent):
    for _ in range(3):
        agent.think("I plan")
    kinds = [e.kind for _, e in agent.take()]
    assert kinds[-3:] == ["thought", "intervened", "loop_detected"]
