"""The prompts of a coding agent: built from the goal and its record."""

from clew_shared.wire.hello import (
    AttemptTerms,
    Call,
    GoalTerms,
    HelloAnswer,
    HelloState,
    SentGoal,
    SentSubtask,
    SentTask,
)
from clew_worker.bridge import prompts


def hello(*subtasks, **fields):
    subtasks = subtasks or (SentSubtask(description="Write a.txt", status="in_progress"),)
    task = SentTask(description="Files", status="in_progress", subtasks=subtasks)
    state = HelloState(
        goal=SentGoal(description="Write files", tasks=(task,)), **fields.pop("state", {})
    )
    return HelloAnswer(state=state, spec=GoalTerms(workspace="/w"), **fields)


def test_the_first_prompt_has_rules_goal_checks_and_the_current_subtask_last():
    text = prompts.first_prompt(hello(checks={"there": "test -f a.txt"}, notes="Mind the case."))
    for part in ("clew_done", "/w", "# Goal\nWrite files", "Mind the case.", "`test -f a.txt`"):
        assert part in text
    assert text.endswith("Current subtask: Write a.txt")


def test_a_large_goal_without_a_plan_may_be_split_first():
    alone = SentSubtask(description="Write files", status="in_progress")
    assert "clew_plan" in prompts.first_prompt(hello(alone)).rpartition("Current subtask")[2]
    assert "clew_plan" not in prompts.first_prompt(hello())


def test_finished_subtasks_are_marked():
    done = SentSubtask(description="Make a folder", status="completed")
    now = SentSubtask(description="Write a.txt", status="in_progress")
    text = prompts.first_prompt(hello(done, now, state={"current_subtask_idx": 1}))
    assert "- [x] Make a folder\n- [>] Write a.txt" in text


def test_another_attempt_is_shown_what_was_tried():
    attempt = AttemptTerms(n=2, limit=3, reason="no progress", tried=("Attempt 1: pip failed",))
    text = prompts.first_prompt(hello(attempt=attempt))
    assert "attempt 2 of 3" in text
    assert "- Attempt 1: pip failed" in text


def test_after_an_interruption_the_latest_actions_come_from_the_record():
    call = Call(seq=9, name="run_cmd", args={"cmd": "make"}, result="interrupted")
    text = prompts.resume_prompt(hello(state={"transcript": (call,)}))
    assert "You were interrupted" in text
    assert "#9 run_cmd(cmd='make'): interrupted" in text


def test_a_turn_without_a_call_is_told_so():
    assert "without a call" in prompts.next_prompt(hello(), acted=False)
    assert "without a call" not in prompts.next_prompt(hello(), acted=True)


def test_feedback_that_came_meanwhile_is_in_the_next_prompt():
    assert "- Use tabs." in prompts.next_prompt(hello(), acted=True, news=["Use tabs."])


def test_a_blocked_subtask_asks_for_a_plan():
    text = prompts.next_prompt(hello(state={"replan_required": "task"}), acted=True)
    assert "clew_plan" in text


def test_no_prompt_is_longer_than_an_argument_of_a_command_line_may_be():
    many = [SentSubtask(description="ü" * 2_000, status="pending") for _ in range(100)]
    text = prompts.first_prompt(hello(*many, notes="ü" * 500_000))
    assert len(text.encode()) < 128 * 1024
