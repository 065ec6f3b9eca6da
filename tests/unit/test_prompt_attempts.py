"""What a prompt shows of attempts: nothing in the first, what was tried in the next, and turns counted from there."""

import pytest

from clew_shared.core.budgets import Limits, turns_left
from clew_shared.prompt.layout import lay_out
from clew_shared.prompt.view import PromptView
from clew_shared.record.model import LlmCost
from clew_shared.record.spec import Spec
from clew_shared.record.state import Attempts, AttemptState, State
from clew_shared.tools import TOOLS
from clew_shared.wire.hello import HelloAnswer

TRIED = ("Attempt 1: run_cmd: failure", "Attempt 1: ended: its 10 turns were used up")


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
    return "\n".join(m["content"] for m in lay_out(PromptView(answer, mode)).messages)


@pytest.mark.parametrize("mode", ["tools", "json"])
def test_the_first_of_several_attempts_has_the_same_prompt_as_the_only_one(mode):
    only = lay_out(PromptView(hello(3), mode))
    first = lay_out(PromptView(hello(3, n=1, limit=3), mode))
    assert first.messages == only.messages
    assert first.sha == only.sha
    assert [name for name, _ in first.blocks] == [name for name, _ in only.blocks]


def test_a_later_attempt_says_what_was_tried_before_its_own_conversation():
    shown = prompt(hello(n=2, limit=3, tried=TRIED))
    assert "Earlier attempts at this goal have failed. Start again from the beginning.\n" in shown
    assert "- Attempt 1: run_cmd: failure\n- Attempt 1: ended: its 10 turns" in shown
    assert "The files" not in shown


@pytest.mark.parametrize(
    ("state", "attempts", "left"),
    [
        ({"iteration": 12}, 1, (18, 30, "goal's")),
        ({"iteration": 12, "from": 10}, 3, (8, 10, "attempt")),
        ({"iteration": 27, "from": 20}, 3, (3, 30, "goal's")),
        ({"iteration": 12, "from": 10, "own": 15}, 3, (3, 15, "goal's")),
        ({"iteration": 35, "from": 33, "granted": 30}, 3, (8, 10, "attempt")),
        ({"iteration": 11, "from": 0}, 3, (1, 10, "attempt")),
        ({"iteration": 4, "tokens": 8_000, "budget_tokens": 10_000}, 1, (1, 5, "10000 tokens")),
        ({"iteration": 2, "wall": 60, "budget_wall_s": 90}, 1, (1, 3, "90 seconds")),
        ({"iteration": 2, "actions": 500}, 1, (2, 4, "1000 actions")),
        ({"iteration": 0, "budget_tokens": 10_000}, 1, (30, 30, "goal's")),
    ],
)
def test_urgency_counts_down_to_the_limit_that_comes_first(state, attempts, left):
    budgets = {key: state[key] for key in ("budget_tokens", "budget_wall_s") if key in state}
    known = State(
        spec=Spec(description="x", max_iterations=state.get("own"), **budgets),
        iteration=state["iteration"],
        attempts=Attempts(
            iterations_granted=state.get("granted", 0), active_at_turn_s=state.get("wall", 0)
        ),
        attempt=AttemptState(from_iteration=state.get("from", 0)),
        cost=LlmCost(tokens=state.get("tokens", 0)),
        actions_total=state.get("actions", 0),
    )
    found = turns_left(known, Limits(iterations=30, attempts=attempts))
    assert (found.turns, found.of) == left[:2]
    assert left[2] in found.limit
