"""The shapes that people and programs are shown."""

import json

import pytest

from clew_daemon.publish.standing import standing
from clew_shared.record import events as ev
from clew_shared.record.fold import fold
from clew_shared.record.moment import iso
from clew_shared.record.spec import Spec
from clew_shared.views.publish import (
    HistoryFold,
    history_view,
    state_view,
    status_view,
)

STATE_KEYS = {
    "version", "goal_id", "goal", "current_task_idx", "current_subtask_idx", "loop_counts",
    "blocked_actions", "last_probe_state", "iteration", "epoch", "restarts", "attempt",
    "seq",
}  # fmt: skip
ACTION_KEYS = {
    "seq", "timestamp", "name", "args", "result", "duration_s", "changed", "paths", "judges", "task_idx",
    "subtask_idx", "epoch", "attempt",
}  # fmt: skip
LOOP_KEYS = {
    "timestamp", "kind", "action_signature", "attempt_count", "task_idx", "subtask_idx", "evidence",
    "escalated_to",
}  # fmt: skip


def history(agent):
    """Give the history's lines and the loops of all that was recorded."""
    folded = HistoryFold()
    ended = [folded.take(seq, event) for seq, event in agent.take()]
    return [found[0] for found in ended if found], folded.loops


def test_a_state_has_the_keys_of_the_contract_and_is_json(agent):
    agent.read("a")
    view = state_view(agent.state)
    assert set(view) == STATE_KEYS
    subtask = view["goal"]["tasks"][0]["subtasks"][0]
    assert set(subtask) == {
        "description", "status", "attempts", "last_failure", "actions_total", "actions",
    }  # fmt: skip
    assert set(subtask["actions"][0]) == ACTION_KEYS
    assert json.loads(json.dumps(view)) == view


def test_the_history_has_each_action_once_in_order(agent):
    agent.read("a")
    for _ in range(3):
        agent.fail("make")
    agent.die("run_cmd", {"cmd": "other"})
    agent.record("done", {}, "success", "x")
    actions, _ = history(agent)
    assert [a.result for a in actions] == [
        "success", "failure", "failure", "blocked", "interrupted", "success",
    ]  # fmt: skip
    assert [a.seq for a in actions] == sorted({a.seq for a in actions})


def test_the_history_agrees_with_the_state(agent):
    for n in range(5):
        agent.write("a", str(n % 2))
        agent.fail("make")
        agent.record("sync", {"n": n}, output="ok", changed=True)
    actions, _ = history(agent)
    assert actions == agent.state.subtask.actions


def test_a_line_of_history_has_the_keys_of_the_contract_and_a_bounded_output(agent):
    agent.read("a")
    (action,), _ = history(agent)
    line = history_view(action, "x" * 5000)
    assert set(line) == ACTION_KEYS | {"output"}
    assert len(line["output"]) == 1000


def test_a_loop_has_the_keys_of_the_contract_and_its_place(played):
    agent = played(["one", "two"])
    agent.complete()
    agent.advance()
    for _ in range(3):
        agent.fail("make")
    _, (loop,) = history(agent)
    assert set(loop) == LOOP_KEYS
    assert (loop["task_idx"], loop["subtask_idx"], loop["attempt_count"]) == (0, 1, 3)


@pytest.mark.parametrize(
    ("status", "verified", "said"),
    [
        ("completed", True, "completed"),
        ("completed", False, "completed, unverified"),
        ("failed", None, "failed"),
        ("in_progress", None, "in_progress"),
    ],
)
def test_a_goal_completed_without_checks_is_called_unverified(status, verified, said):
    assert standing(status, verified) == said
    assert standing({"status": status, "verified": verified, "waiting": None}) == said


@pytest.mark.parametrize(
    ("now", "waits", "shown"),
    [
        (5.0, f"waits until {iso(9.0)}", True),
        (5.0, "", True),
        (5.0, "waits for tea-1111, which is queued", False),
        (9.0, "waits for a worker", False),
        (9.0, "", False),
    ],
)
def test_until_is_a_time_to_come_that_alone_holds_the_goal_up(now, waits, shown):
    spec = Spec(description="x", workspace="/w", not_before=9.0)
    state = fold([(1, ev.GoalAccepted(goal_id="x-1111", spec=spec))])
    assert status_view(state, now, waits)["waiting"]["until"] == (iso(9.0) if shown else None)
