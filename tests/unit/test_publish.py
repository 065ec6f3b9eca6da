"""The shapes that people and programs are shown."""

import json

from clew_shared.views.publish import HistoryFold, history_view, state_view

STATE_KEYS = {
    "version", "goal_id", "goal", "current_task_idx", "current_subtask_idx", "loop_counts",
    "blocked_actions", "last_probe_state", "iteration", "epoch", "restarts", "attempt",
    "seq",
}  # fmt: skip
ACTION_KEYS = {
    "seq", "timestamp", "name", "args", "result", "duration_s", "changed", "paths", "judges", "task_idx",
    "subtask_idx", "epoch", "attempt",
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


def test_a_line_of_history_has_the_keys_of_the_contract_and_a_bounded_output(agent):
    agent.read("a")
    (action,), _ = history(agent)
    line = history_view(action, "x" * 5000)
    assert set(line) == ACTION_KEYS | {"output"}
    assert len(line["output"]) == 1000
