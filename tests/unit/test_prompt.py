"""Prompts: what a model is shown, also in later attempts."""

import itertools
from dataclasses import replace

import pytest
from tests.unit.test_hello import Record

from clew_daemon.reading.prompt_text import prompt_difference
from clew_shared.core.journal import Limits, TurnsLeft, turns_left
from clew_shared.prompt.compact import compact_context
from clew_shared.prompt.layout import lay_out, state_block
from clew_shared.prompt.view import PromptView
from clew_shared.record import events as ev
from clew_shared.record.model import LlmCost
from clew_shared.record.spec import Spec
from clew_shared.record.state import Attempts, AttemptState, State
from clew_shared.wire.hello import Call, FinishedSubtask, HelloAnswer, HelloState, SentProbe


def build(view):
    return lay_out(view).messages


GOAL = "Make hello.txt"
WRITE = Call(3, "write_file", {"path": "hello.txt", "content": "hello"}, "success", "created")


def view_of(goal, subtask=None, later=(), task="", max_tokens=8000, **given):
    """A view of a goal at its first subtask, by default the goal itself; `given` goes where `hello` has it."""
    now = {"description": goal if subtask is None else subtask, "status": "in_progress"}
    now |= {name: given.pop(name) for name in ("attempts", "last_failure") if name in given}
    subtasks = [now, *({"description": name} for name in later)]
    tasks = [{"description": task, "status": "in_progress", "subtasks": subtasks}]
    state = {name: given.pop(name) for name in HelloState.model_fields if name in given}
    state["goal"] = {"description": goal, "tasks": tasks}
    given |= {"state": state, "options": {"context": {"max_tokens": max_tokens}}}
    return PromptView(HelloAnswer.model_validate(given))


def test_system_and_goal_come_first_then_each_native_call_with_its_result():
    system, goal, call, result = build(view_of(GOAL, transcript=(WRITE,)))
    assert (system["role"], goal["role"]) == ("system", "user")
    assert "Goal: Make hello.txt" in goal["content"]
    assert call["tool_calls"][0]["id"] == result["tool_call_id"] == "call00003"
    assert result["content"].startswith("#3 success:\ncreated")


def test_the_state_block_is_last_and_holds_what_changes():
    view = view_of(
        GOAL, later=["Then this"], attempts=1, last_failure="no such file",
        probes={"tests_pass": SentProbe(passed=False, after=4),
                "exists": SentProbe(passed=True, after=9, current=True)},
        blocked_actions=('run_cmd::{"cmd":"ls"}',), feedback=("use tabs",), iteration=7, actions_total=3,
    )  # fmt: skip
    text = build(view)[-1]["content"]
    for part in (
        "attempt 2",
        "no such file",
        "Then this",
        "Checked after #9, nothing changed since: exists ✓",
        "Checked after #4, changed since: tests_pass ✗",
        'run_cmd::{"cmd":"ls"}',
        "A person says: use tabs",
        "[PROGRESS: Iteration 7/30 | 3 tools used]",
    ):
        assert part in text


def test_a_model_hurries_in_the_last_third_before_a_limit_and_more_so_in_the_last_tenth():
    def shown(turns, of=30):
        return state_block(view_of(GOAL, turns_left=TurnsLeft(turns, of, f"the goal's {of} turns")))

    assert "left" not in shown(11)
    assert "[10 turns left]\nThen the goal's 30 turns are used up." in shown(10)
    assert "[4 turns left]" in shown(4, of=10)
    assert "[4 turns left]" in shown(4)
    assert "[EMERGENCY: 3 turns left. Finish NOW.]" in shown(3)
    assert "[EMERGENCY: 1 turn left. Finish NOW.]" in shown(1, of=10)
    assert "left" not in state_block(view_of(GOAL))


def test_over_its_room_the_older_part_is_folded_into_lines():
    calls = tuple(
        Call(n, "run_cmd", {"cmd": f"echo {n}"}, "success", "x" * 900) for n in range(1, 41)
    )
    messages = build(view_of(GOAL, transcript=calls, max_tokens=3000))
    assert "- #30 did run_cmd echo 30 → found xxx" in messages[1]["content"]
    assert "#40 success" in messages[-1]["content"]
    assert len(str(messages)) < 3000 * 4


def test_a_subtask_that_ends_rarely_changes_what_a_server_has_cached_of_those_before():
    done = [FinishedSubtask(description=f"Step {n}", summary="x" * 200) for n in range(60)]
    texts = [build(view_of(GOAL, finished=done[:n]))[1]["content"] for n in range(1, 61)]
    lists = [text.partition("\n\nYour subtask")[0] for text in texts]
    kept = [then.startswith(before) for before, then in itertools.pairwise(lists)]
    assert kept.count(False) < len(kept) / 4
    assert "before: Step 0; Step 1" in lists[-1]


@pytest.fixture
def state():
    record = Record(description="Build the mathx package", notes="Take care of the notes. " * 20)
    record.plan(["Code", "Write code", "Write tests"])
    record.add(ev.SubtaskStarted(task_idx=0, subtask_idx=0))
    record.add(ev.SubtaskFailed(failure="oops"))
    for n in range(5):
        record.act("run_cmd", output=f"<{n}>", cmd=f"echo {n}")
    record.add(ev.ProbesSeen(probes={"exists": True, "tested": False}))
    found = record.state
    found.loops.scope.blocks['run_cmd::{"cmd":"rm -rf build"}'] = {"*": "repetition"}
    found.loops.attention.raised["no_progress"] = 5
    return found


@pytest.mark.parametrize("max_chars", [10, 60, 120, 200, 300, 2000])
def test_goal_subtask_blocks_and_warnings_are_never_dropped(state, max_chars):
    text = compact_context(state, max_chars)
    assert len(text) <= max_chars
    if max_chars >= 60:
        heads = [line[:3] for line in text.splitlines()]
        assert {"GOA", "ACT", "BLO", "WAR"} <= set(heads)


def test_a_very_long_message_is_not_compared_line_by_line():
    long = ("tool", "x\n" * 3_000)
    [found] = prompt_difference([("tool", "y\n" * 3_000)], [long])
    assert (found.change, len(found.lines)) == ("changed", 3_000)


TRIED = ("Attempt 1: run_cmd: failure", "Attempt 1: ended: its 10 turns were used up")


@pytest.mark.parametrize("mode", ["tools", "json"])
def test_the_first_of_several_attempts_has_the_same_prompt_as_the_only_one(mode):
    only = lay_out(replace(view_of(GOAL), mode=mode))
    first = lay_out(replace(view_of(GOAL, attempt={"n": 1, "limit": 3}), mode=mode))
    assert first.messages == only.messages
    assert first.sha == only.sha
    assert [name for name, _ in first.blocks] == [name for name, _ in only.blocks]


def test_a_later_attempt_says_what_was_tried_before_its_own_conversation():
    shown = str(build(view_of(GOAL, attempt={"n": 2, "limit": 3, "tried": TRIED})))
    assert r"Earlier attempts at this goal have failed. Start again from the beginning.\n" in shown
    assert r"- Attempt 1: run_cmd: failure\n- Attempt 1: ended: its 10 turns" in shown
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
