"""Section 5: what is published in `.agent_context/`."""

import json

import pytest

ACTION = {
    "seq", "timestamp", "name", "args", "result", "duration_s", "changed", "paths", "task_idx",
    "subtask_idx", "epoch", "attempt", "output",
}  # fmt: skip


@pytest.fixture
def looped(clew):
    clew.agent(
        "loops",
        """
        hello()
        for _ in range(3):
            answer = run("false")
        say([answer["verdict"], answer["reason"]])
        run("touch made; seq 1000")
        notice("stop")
        """,
    )
    goal = clew.start().submit("---\nagent: loops\n---\n# Loop\n")
    assert clew.said(goal) == [["blocked", "repetition"]]
    clew.wait("action.finished", goal=goal, count=3)
    return clew, goal


def test_state_has_the_keys_of_the_contract(looped):
    clew, goal = looped
    state = clew.until(lambda: (s := clew.state(goal))["blocked_actions"] and s)
    assert state["version"] == 1
    assert set(state["goal"]) >= {"description", "status", "tasks"}
    subtask = state["goal"]["tasks"][0]["subtasks"][0]
    assert set(subtask) >= {
        "description", "status", "attempts", "last_failure", "actions_total", "actions",
    }  # fmt: skip
    assert state["blocked_actions"] == ['run_cmd::{"cmd":"false"}']
    assert state["loop_counts"]['run_cmd::{"cmd":"false"}'] >= 2
    assert {"last_probe_state", "iteration", "epoch", "restarts", "seq"} <= set(state)
    assert state["goal_id"] == goal


def test_history_has_each_action_once_with_the_keys_of_the_contract(looped):
    clew, goal = looped
    lines = clew.until(lambda: len(h := clew.history(goal)) == 4 and h)
    assert all(set(line) >= ACTION for line in lines)
    assert [line["result"] for line in lines] == ["failure", "failure", "blocked", "success"]
    assert lines[3]["paths"] == ["made"]
    assert len(lines[3]["output"]) == 1000
    assert len({line["seq"] for line in lines}) == 4


def test_loops_name_kind_signature_and_evidence(looped):
    clew, goal = looped
    folder = clew.workspace(goal) / ".agent_context"
    loops = clew.until(lambda: json.loads((folder / "loops.json").read_text()))
    assert set(loops[0]) >= {
        "timestamp", "kind", "action_signature", "attempt_count", "task_idx", "subtask_idx",
        "evidence", "escalated_to",
    }  # fmt: skip
    assert loops[0]["kind"] == "repetition"
    assert (folder / ".gitignore").read_text().strip() == "*"


def test_what_a_worker_writes_there_changes_nothing(looped):
    clew, goal = looped
    path = clew.workspace(goal) / ".agent_context" / "state.json"
    path.write_text("{}")
    clew.kill()
    clew.start()
    clew.until(lambda: clew.state(goal).get("goal_id") == goal)
    assert clew.goal(goal)["blocked_actions"]
