"""What a prompt shows of attempts: nothing in the first, what was tried in the next, and turns counted from there."""

import pytest

from clew_shared.prompt.layout import lay_out
from clew_shared.prompt.pace import pace_of
from clew_shared.prompt.view import view_from
from clew_shared.prompt.windows import Window
from clew_shared.tools import TOOLS
from clew_shared.wire.hello import HelloAnswer

TRIED = (
    "Attempt 1: run_cmd: failure",
    "Attempt 1: ended: all 10 iterations of the attempt are used up",
)


def hello(iteration=0, *, own_limit=None, granted=0, actions=0, attempts=0, **attempt):
    goal, subtask = (
        "Write the answer",
        {"description": "Write the answer", "status": "in_progress", "actions_total": actions},
    )
    if attempts:
        subtask |= {"attempts": attempts, "last_failure": "no"}
    task = {"description": goal, "status": "in_progress", "subtasks": [subtask]}
    state = {"goal": {"description": goal, "tasks": [task]}}
    state |= {"iteration": iteration, "iterations_granted": granted, "actions_total": actions}
    tools = [
        {"name": t.name, "description": t.description, "parameters": t.parameters} for t in TOOLS
    ]
    spec = {"max_iterations": own_limit}
    return HelloAnswer.model_validate(
        {"state": state, "tools": tools, "attempt": attempt, "spec": spec}
    )


def prompt(answer, mode="tools"):
    return "\n".join(m["content"] for m in lay_out(view_from(answer, mode=mode)).messages)


def pace(answer):
    return pace_of(answer, iteration=answer.state.iteration)


@pytest.mark.parametrize("mode", ["tools", "json"])
def test_the_first_of_several_attempts_has_the_same_prompt_as_the_only_one(mode):
    only = lay_out(view_from(hello(3), mode=mode))
    first = lay_out(view_from(hello(3, n=1, limit=3, iterations=10), mode=mode))
    assert first.messages == only.messages
    assert first.sha == only.sha
    assert [name for name, _ in first.blocks] == [name for name, _ in only.blocks]


def test_a_later_attempt_says_what_was_tried_before_its_own_conversation():
    shown = prompt(hello(n=2, limit=3, iterations=10, tried=TRIED))
    assert "Earlier attempts at this goal have failed. Start again from the beginning.\n" in shown
    assert "- Attempt 1: run_cmd: failure\n- Attempt 1: ended: all 10 iterations" in shown
    assert "The files" not in shown


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"restored": 2}, "The files are as they were before them."),
        (
            {"kept": "HEAD has moved"},
            "Their files are still there (HEAD has moved): look at them first.",
        ),
    ],
)
def test_a_later_attempt_says_what_has_become_of_the_files(files, text):
    assert text in prompt(hello(n=2, limit=3, iterations=10, tried=TRIED, **files))


def test_what_was_tried_takes_a_bounded_part_of_the_prompt():
    tried = tuple(f"Attempt {n}: {'x' * 5000}" for n in range(10))
    long = lay_out(view_from(hello(n=2, limit=3, iterations=10, tried=tried)))
    assert long.sizes["tried"]["chars"] < 8000 * 3 * 0.2
    assert long.sizes["total"]["tokens"] < 8000


def test_a_failed_last_attempt_is_not_numbered_by_failures():
    shown = prompt(hello(5, attempts=1, n=3, limit=3, iterations=10))
    assert "It failed with: no" in shown
    assert "This is attempt" not in shown
    assert "This is attempt 2. It failed with: no" in prompt(hello(5, attempts=1))


@pytest.mark.parametrize(
    ("answer", "iteration", "limit"),
    [
        (hello(12), 12, 30),
        (hello(12, own_limit=15), 12, 15),
        (hello(12, n=2, limit=3, iterations=10, from_iteration=10), 2, 10),
        (hello(12, own_limit=15, n=2, limit=3, iterations=10, from_iteration=10), 2, 5),
        (hello(35, granted=30, n=2, limit=3, iterations=10, from_iteration=33), 2, 10),
        (hello(3, own_limit=6, n=1, limit=3, iterations=10), 3, 6),
    ],
)
def test_turns_count_from_the_attempt_up_to_what_it_can_really_take(answer, iteration, limit):
    found = pace(answer)
    assert (found.iteration, found.max_iterations) == (iteration, limit)


def test_the_windows_count_from_the_start_of_the_attempt():
    late = {"n": 2, "limit": 3, "iterations": 30, "from_iteration": 25}
    assert view_from(hello(26, **late, own_limit=60)).window is Window.FULL
    assert view_from(hello(25 + 20, **late, own_limit=60)).window is Window.EMERGENCY
    assert view_from(hello(26)).window is Window.EMERGENCY


def test_the_windows_shrink_with_an_attempt_that_the_goal_cuts_short():
    cut = {"n": 3, "limit": 3, "iterations": 30, "from_iteration": 15}
    assert view_from(hello(15 + 9, **cut)).window is Window.AGGRESSIVE
    assert view_from(hello(15 + 10, **cut)).window is Window.EMERGENCY


def test_the_progress_marker_counts_over_all_attempts_and_grants():
    second = {"n": 2, "limit": 3, "iterations": 10, "from_iteration": 10, "from_actions": 7}
    answer = hello(16, actions=9, **second)
    assert "[PROGRESS: Iteration 16/30 | 9 tools used]" in prompt(answer)
    assert "[PROGRESS" not in prompt(hello(14, actions=9, **second))
    assert "[PROGRESS: Iteration 36/45 | 0 tools used]" in prompt(
        hello(36, own_limit=15, granted=30)
    )
