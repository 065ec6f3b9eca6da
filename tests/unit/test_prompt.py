from dataclasses import replace

import pytest

from clew_shared import events as ev
from clew_shared.compact import compact_context
from clew_shared.fold import fold
from clew_shared.prompt import build, describe, shortened, state_block
from clew_shared.prompt_tools import offered
from clew_shared.prompt_view import Call, Finished, Said, View, view_from
from clew_shared.state import Raised
from clew_shared.tools import TOOLS

VIEW = View(goal="Make hello.txt", subtask="Make hello.txt")
WRITE = Call(3, "write_file", {"path": "hello.txt", "content": "hello"}, "success", "created")


def tree(*statuses, description="Make hello.txt"):
    subtasks = [
        {
            "description": f"step {n}",
            "status": status,
            "attempts": 0,
            "last_failure": None,
            "actions_total": 0,
            "actions": [],
        }
        for n, status in enumerate(statuses)
    ]
    if not subtasks:
        subtasks = [{"description": description, "status": "in_progress", "actions_total": 0}]
    return {
        "goal": {
            "description": description,
            "tasks": [{"description": "the task", "status": "in_progress", "subtasks": subtasks}],
        },
        "current_task_idx": 0,
        "current_subtask_idx": 0,
    }


def hello(state=None, **fields):
    tools = [
        {"name": t.name, "description": t.description, "parameters": t.parameters} for t in TOOLS
    ]
    return {"state": state or tree(), "tools": tools, **fields}


def names(answer):
    return [tool.name for tool in offered(answer)]


# ---- what is in it


def test_the_first_message_is_the_system_prompt_and_the_second_the_goal():
    messages = build(VIEW)
    assert [m["role"] for m in messages] == ["system", "user"]
    assert "Goal: Make hello.txt" in messages[1]["content"]


def test_checks_notes_and_acceptance_are_part_of_the_goal():
    view = replace(VIEW, notes="be kind", done_when="it is there", checks={"there": "test -f x"})
    text = build(view)[1]["content"]
    assert "be kind" in text
    assert "it is there" in text
    assert "- there: test -f x" in text


def test_a_native_call_and_its_result_are_a_pair_with_one_id():
    call, result = build(replace(VIEW, transcript=(WRITE,)))[2:]
    assert call["tool_calls"][0]["id"] == result["tool_call_id"] == "call00003"
    assert result["content"].startswith("#3 success:\ncreated")


def test_in_json_mode_a_call_is_shown_as_the_model_is_to_write_it():
    view = replace(VIEW, transcript=(WRITE,), mode="json", steady_tools=TOOLS)
    system, _, call, result = build(view)
    assert "- write_file(path, content)" in system["content"]
    assert call["content"].startswith('{"args": {"content": "hello", "path": "hello.txt"}, "tool"')
    assert result["role"] == "user"


def test_a_refusal_is_shown_verbatim():
    refused = Call(4, "run_cmd", {"cmd": "ls"}, "blocked", message="You did that already.")
    text = build(replace(VIEW, transcript=(refused,)))[-1]["content"]
    assert "You did that already." in text


def test_an_interrupted_action_is_said_to_have_an_unknown_effect():
    cut = Call(4, "run_cmd", {"cmd": "ls"}, "interrupted")
    assert "effect is unknown" in build(replace(VIEW, transcript=(cut,)))[-1]["content"]


def test_the_state_block_is_last_and_holds_what_changes():
    view = replace(
        VIEW,
        attempts=1,
        last_failure="no such file",
        next_subtask="Then this",
        probes={"tests_pass": False, "exists": True},
        blocked=('run_cmd::{"cmd":"ls"}',),
        feedback=("use tabs",),
        iteration=7,
        tools_used=3,
    )
    text = build(view)[-1]["content"]
    for part in (
        "attempt 2",
        "no such file",
        "Then this",
        "exists ✓, tests_pass ✗",
        'run_cmd::{"cmd":"ls"}',
        "A person says: use tabs",
        "[PROGRESS: Iteration 7/30 | 3 tools used]",
    ):
        assert part in text


def test_the_progress_marker_begins_where_it_is_set():
    assert "[PROGRESS" not in state_block(replace(VIEW, iteration=4))
    assert "[PROGRESS" in state_block(replace(VIEW, iteration=5))
    assert "last turns" in state_block(replace(VIEW, iteration=28))


def test_a_finished_subtask_is_one_line():
    done = Finished("Write it", "wrote\nit")
    view = replace(VIEW, subtask="Test it", task="T", finished=(done,), open_subtasks=2)
    text = build(view)[1]["content"]
    assert "- [x] Write it: wrote it" in text
    assert 'Your subtask now: Test it (part of "T")' in text


def test_what_is_asked_follows_from_the_last_call():
    def asked(call, **fields):
        return state_block(replace(VIEW, transcript=(call,), **fields))

    assert "call finish" in asked(WRITE)
    assert "call complete_subtask" in asked(WRITE, goal="more")
    assert "it was already so" in asked(replace(WRITE, changed=False))
    assert "did not work" in asked(replace(WRITE, result="error"))
    assert "refused" in asked(replace(WRITE, result="blocked"))
    assert "call plan with exactly one task" in asked(WRITE, replan="task")


def test_work_on_what_exists_begins_with_a_look():
    mend = replace(VIEW, goal="Fix the bug in calc.py", subtask="Fix the bug in calc.py")
    assert "read_file" in state_block(mend)
    assert "read_file" not in state_block(VIEW)


def test_sizes_are_given_for_each_block():
    sizes = describe(replace(VIEW, transcript=(WRITE,)))
    parts = sum(size["chars"] for name, size in sizes.items() if name != "total")
    assert sizes["total"]["chars"] == parts
    assert sizes["transcript"]["tokens"] > 0


def test_long_outputs_keep_their_head_and_tail():
    text = shortened("a" * 500 + "b" * 500, 300)
    assert len(text) == 300
    assert text.startswith("aaa")
    assert text.endswith("bbb")
    assert "characters left out" in text


def test_over_its_room_the_older_part_is_folded_into_lines():
    calls = tuple(
        Call(n, "run_cmd", {"cmd": f"echo {n}"}, "success", "x" * 900) for n in range(1, 41)
    )
    view = replace(VIEW, transcript=calls, max_tokens=3000)
    messages = build(view)
    assert '- #1 run_cmd {"cmd": "echo 1"}: success' in messages[1]["content"]
    assert "#40 success" in messages[-1]["content"]
    assert len(str(messages)) < 3000 * 4 * 1.5


# ---- which tools


def test_a_small_goal_is_offered_neither_plan_nor_complete_subtask():
    found = names(hello())
    assert found[:2] == ["write_file", "read_file"]
    assert "finish" in found
    assert not {"plan", "complete_subtask", "wait", "recall"} & set(found)


def test_a_larger_goal_is_offered_a_plan_until_it_acts():
    answer = hello(notes="line\n" * 10)
    assert "plan" in names(answer)
    answer["state"]["goal"]["tasks"][0]["subtasks"][0]["actions_total"] = 1
    assert "plan" not in names(answer)


def test_a_goal_with_a_plan_is_offered_complete_subtask():
    found = names(hello(tree("in_progress", "pending")))
    assert "complete_subtask" in found
    assert "plan" not in found


def test_while_a_replan_is_required_only_plan_and_finish_are_offered():
    assert names(hello({**tree(), "replan_required": "task"})) == ["plan", "finish"]


def test_the_json_listing_stays_the_same_when_the_offer_changes():
    before = view_from(hello(), mode="json")
    after = view_from(hello({**tree(), "replan_required": "task"}), mode="json")
    assert build(before)[0] == build(after)[0]
    assert "plan(tasks)" in build(after)[-1]["content"]


def test_a_view_reads_mode_and_limits_from_what_hello_says():
    options = {"agent": {"mode": "json"}, "context": {"max_tokens": 500, "progress_from": 2}}
    view = view_from(hello(options=options, spec={"max_iterations": 7}))
    assert (view.mode, view.max_tokens, view.progress_from) == ("json", 500, 2)
    assert view.max_iterations == 7


def test_words_before_a_call_stand_in_the_same_message():
    view = replace(VIEW, transcript=(Said("assistant", "I write it."), WRITE))
    call = build(view)[2]
    assert call["content"] == "I write it."
    assert call["tool_calls"]


# ---- the compact context


@pytest.fixture
def state():
    spec = ev.Spec(description="Build the mathx package", notes="Take care of the notes. " * 20)
    subtasks = tuple(ev.PlannedSubtask(description=d) for d in ("Write code", "Write tests"))
    tasks = (ev.PlannedTask(description="Code", subtasks=subtasks),)
    happened = [ev.GoalAccepted(goal_id="g", spec=spec, tasks=tasks), ev.GoalStarted()]
    happened += [ev.SubtaskStarted(task_idx=0, subtask_idx=0), ev.SubtaskFailed(failure="oops")]
    for n in range(5):
        seq = len(happened) + 1
        args = {"cmd": f"echo {n}"}
        name = f'run_cmd::{{"cmd":"echo {n}"}}'
        happened.append(ev.ActionAllowed(epoch=1, tool="run_cmd", args=args, signature=name))
        finished = ev.ActionFinished(
            of=seq, result="success", outcome=f"success:{n}", head=f"<{n}>"
        )
        happened.append(finished)
    happened.append(ev.ProbesSeen(probes={"exists": True, "tested": False}))
    found = fold((n, event) for n, event in enumerate(happened, start=1))
    found.scope.blocks['run_cmd::{"cmd":"rm -rf build"}'] = {"*": "repetition"}
    found.attention.raised["no_progress"] = Raised("stale", 0, 5)
    return found


def test_the_compact_context_says_where_the_work_stands(state):
    text = compact_context(state)
    for part in (
        "GOAL: Build the mathx package",
        "Status: in_progress",
        "CURRENT TASK: Code",
        "ACTIVE SUBTASK: Write code [in_progress] (attempt 2)",
        "Last failure: oops",
        'RECENT: run_cmd({"cmd": "echo 4"}) → success: <4>',
        "NEXT: Write tests",
        "CURRENT STATE: exists: ✓ tested: ✗",
        'BLOCKED: run_cmd::{"cmd":"rm -rf build"}',
        "WARNING: nothing new",
    ):
        assert part in text
    assert "echo 1" not in text


def test_recent_actions_go_first_and_then_the_notes(state):
    full = compact_context(state)
    shorter = compact_context(state, len(full) - 1)
    assert "echo 2" in full
    assert "echo 2" not in shorter
    assert "NOTES" in shorter
    tight = compact_context(state, 300)
    assert "RECENT" not in tight
    assert "NOTES" not in tight
    assert "NEXT" in tight


@pytest.mark.parametrize("max_chars", [10, 60, 120, 200, 300, 2000])
def test_goal_subtask_blocks_and_warnings_are_never_dropped(state, max_chars):
    text = compact_context(state, max_chars)
    assert len(text) <= max_chars
    if max_chars >= 60:
        heads = [line[:3] for line in text.splitlines()]
        assert {"GOA", "ACT", "BLO", "WAR"} <= set(heads)
