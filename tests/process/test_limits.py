"""A model, and a coding agent's program, that do one thing for ever: the goal's limits hold, whatever it is."""

import pytest
from llm_server import ScriptedLlm, calls, says
from test_attempts import TURN_TOKENS, goal_text

PLAN = {"tasks": [{"description": "All", "subtasks": ["First", "Then"]}]}
ANSWERS = {
    "plans": calls(("plan", PLAN)),
    "completes": calls(("complete_subtask", {"success": True, "summary": "done"})),
    "finishes": calls(("finish", {"summary": "done"})),
    "runs": calls(("run_cmd", {"cmd": "date +%N"})),
    "thinks": says("Let me think about it."),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_model_that_gives_one_answer_for_ever_is_asked_no_more_often_than_its_limit(clew, answer):
    with ScriptedLlm(then=ANSWERS[answer]) as llm:
        clew.model(llm, "thinker")
        goal = clew.start().submit(goal_text("max_iterations: 3"))
        assert "3 iterations" in clew.wait("goal.blocked", goal=goal)["reason"]
        clew.until(lambda: clew.goal(goal)["pid"] is None, "the end of the worker")
        assert len(llm.requests) == 3
    assert clew.goal(goal)["iteration"] == 3
    assert clew.goal(goal)["restarts"] == 0


def test_a_model_that_only_plans_is_stopped_by_tokens_or_turns_and_its_loop_is_shown(clew):
    with ScriptedLlm(then=ANSWERS["plans"]) as llm:
        clew.model(llm, "thinker")
        goal = clew.start().submit(goal_text(f"budget: {{tokens: {5 * TURN_TOKENS}}}"), "tokens.md")
        reason = clew.wait("goal.blocked", goal=goal)["reason"]
        assert reason == f"budget: the budget of {5 * TURN_TOKENS} tokens is used up"
        assert len(llm.requests) == 5
        goal = clew.submit(goal_text(), "default.md")
        clew.wait("goal.blocked", goal=goal)
        assert len(llm.requests) <= 5 + 30
    assert "no_progress" in clew.cli("loops", goal, "--json")


# -- many goals at once: each exactly once, four workers side by side, LLM calls by turns


def test_a_killed_agent_gives_its_llm_slot_back(clew):
    clew.agent(
        "holder",
        """
        hello()
        call("llm_slot", open=True, base_url="http://localhost:9/v1")
        say(epoch)
        if epoch == 1:
            notice("never")
        done()
        """,
    )
    goal = clew.start().submit("---\nagent: holder\n---\nHold\n")
    clew.said(goal)
    clew.kill_agent(goal)
    clew.wait("goal.completed", goal=goal)
