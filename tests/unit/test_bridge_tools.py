"""The tools that a coding agent is offered, and the texts of their answers."""

from clew_shared.wire.answers import ActionOutcome, FailingCheck, Finished, Intervention, Judged
from clew_worker.bridge import tools
from clew_worker.bridge.clis.cli import TOOLS


def test_what_is_offered_has_the_names_that_the_clis_are_told_to_allow():
    assert sorted(tool.name for tool in tools.OFFERED) == sorted(TOOLS)


def test_every_action_has_the_schema_of_the_built_in_tool():
    offered = {tool.name: tool.schema for tool in tools.OFFERED}
    for name, tool in tools.ACTIONS.items():
        assert offered[name] == tools.BY_NAME[tool].parameters


def test_a_failure_has_its_output_number_and_exit_code():
    outcome = ActionOutcome(result="failure", output="no such file", exit_code=1)
    answer = tools.judged_answer(Judged(verdict="allowed", seq=7, outcome=outcome))
    assert answer.text == "no such file\n[#7 failure, exit code 1]"
    assert not answer.refused


def test_a_success_is_its_output_and_nothing_else():
    outcome = ActionOutcome(result="success", output="hello")
    assert tools.judged_answer(Judged(verdict="allowed", outcome=outcome)).text == "hello"


def test_a_refusal_is_the_daemons_own_words_and_says_which_tool_is_meant():
    message = "Refused, a loop: call complete_subtask or finish."
    answer = tools.judged_answer(Judged(verdict="blocked", message=message))
    assert answer.refused
    assert answer.text.startswith(message)
    assert "complete_subtask is clew_done" in answer.text


def test_an_interrupted_action_says_that_its_effect_is_unknown():
    outcome = ActionOutcome(result="interrupted", reason="executor_died")
    answer = tools.judged_answer(Judged(verdict="allowed", seq=3, outcome=outcome))
    assert "effect is unknown: executor_died" in answer.text


def test_an_intervention_and_a_needed_replan_follow_the_output():
    judged = Judged(
        verdict="allowed",
        outcome=ActionOutcome(result="success", output="x"),
        intervention=Intervention(kind="no_progress", message="Nothing is new."),
        escalated_to="task",
    )
    text = tools.judged_answer(judged).text
    assert text.index("x") < text.index("Nothing is new.") < text.index("clew_plan")


def test_a_call_that_takes_long_names_the_call_that_has_its_result():
    assert tools.running_answer(12).text == (
        'still running, #12. Call clew_wait {"seq": 12} for its result.'
    )
    assert "clew_wait {}" in tools.running_answer(0).text


def test_a_goal_that_is_not_completed_names_its_failing_checks_with_their_output():
    failing = FailingCheck(name="tests", cmd="pytest -q", exit_code=1, output="1 failed")
    answer = tools.finished_answer(Finished(accepted=False, failing_checks=(failing,)))
    assert "Check tests fails with exit code 1: pytest -q\n1 failed" in answer.text
    assert "call clew_done again" in answer.text


def test_a_huge_output_is_cut_in_the_middle():
    outcome = ActionOutcome(result="success", output="x" * 1_000_000)
    answer = tools.judged_answer(Judged(verdict="allowed", outcome=outcome))
    assert len(answer.text) <= tools.OUTPUT_CHARS + 200
