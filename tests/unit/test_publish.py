"""The shapes that people and programs are shown."""

import json

import pytest

from clew_daemon.publish.standing import standing
from clew_shared.record import events as ev
from clew_shared.record.fold import fold
from clew_shared.record.moment import iso
from clew_shared.record.prompt_facts import Prompt
from clew_shared.record.spec import Spec
from clew_shared.views.publish import (
    HistoryFold,
    goal_detail,
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
STATUS_KEYS = {
    "id", "description", "status", "progress", "task", "subtask", "epoch", "pid", "restarts",
    "blocked_actions", "blocked_total", "iteration", "reason", "updated_at",
    "name", "agent", "attempt", "verified", "passed_before", "proof", "tokens", "age_s",
    "accepted_at", "paused",
    "since_gain", "debt", "needs_person",
    "question",
    "answer",
    "now", "waiting",
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


def test_a_state_says_what_is_blocked_and_how_often_things_were_done(agent):
    for _ in range(3):
        agent.fail("make")
    view = state_view(agent.state)
    assert view["blocked_actions"] == ['run_cmd::{"cmd":"make"}']
    assert view["loop_counts"] == {'run_cmd::{"cmd":"make"}': 3}


def test_a_status_has_the_keys_of_the_contract(played):
    agent = played(["one", "two"])
    agent.complete()
    view = status_view(agent.state)
    assert set(view) == STATUS_KEYS
    assert (view["progress"], view["status"], view["pid"]) == (0.5, "in_progress", None)
    assert set(goal_detail(agent.state)) >= STATUS_KEYS


def test_a_goal_in_detail_says_what_its_calls_have_cost_and_what_was_put_aside(played):
    agent = played(["one"], failure_limit=1, replan_limit=2)
    prompt = Prompt(sha="0123456789abcdef", chars=900, kept=800)
    for tokens in (100, 300):
        used = {"tokens": tokens, "tokens_in": tokens, "tokens_cached": tokens // 2, "llm_s": 1.5}
        agent.core.emit(ev.Reflected(iteration=0, prompt=prompt, **used))
    detail = goal_detail(agent.state)
    assert json.loads(json.dumps(detail)) == detail
    assert detail["cost"] == {
        "calls": 2, "tokens": 400, "tokens_in": 400, "tokens_out": 0, "tokens_cached": 200,
        "llm_s": 3.0, "active_s": 0.0,
    }  # fmt: skip
    (subtask,) = detail["subtask_details"]
    assert (subtask["task_idx"], subtask["subtask_idx"]) == (0, 0)
    assert (subtask["cost"]["calls"], subtask["summary"], subtask["insights"]) == (2, None, [])
    agent.complete(success=False, failure="no way")
    agent.replan("task", ["another"])
    assert "one" in goal_detail(agent.state)["set_aside"][0]


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


def test_a_refused_record_is_one_line_with_its_true_result(agent):
    for _ in range(3):
        agent.record("test", {}, "failure", "no")
    actions, loops = history(agent)
    assert [a.result for a in actions] == ["failure"] * 3
    assert [loop["kind"] for loop in loops] == ["repetition"]


def test_a_loop_has_the_keys_of_the_contract_and_its_place(played):
    agent = played(["one", "two"])
    agent.complete()
    agent.advance()
    for _ in range(3):
        agent.fail("make")
    _, (loop,) = history(agent)
    assert set(loop) == LOOP_KEYS
    assert (loop["task_idx"], loop["subtask_idx"], loop["attempt_count"]) == (0, 1, 3)


def test_actions_stay_with_the_subtask_that_they_began_in(played):
    agent = played(["one", "two"])
    seq = agent.core.propose("t", {}, 0.0).seq
    agent.complete()
    agent.advance()
    agent.core.interrupt("killed", 0.0, counts=True, only=seq)
    (action,), _ = history(agent)
    assert action.subtask_idx == 0
    assert [s.actions_total for s in agent.state.task.subtasks] == [1, 0]


def test_an_outcome_of_nothing_known_is_no_line():
    assert HistoryFold().take(4, ev.ActionFinished(of=1, result="success", outcome="")) is None


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


def test_a_goal_that_a_person_paused_is_called_paused(agent):
    agent.core.emit(ev.GoalWaiting(reason="paused", paused=True))
    assert standing(status_view(agent.state)) == "paused"
    agent.core.emit(ev.GoalWaiting(reason="the endpoint is down", until=5.0))
    assert standing(status_view(agent.state)) == "waiting"


def test_an_agent_that_waits_for_the_reason_paused_is_not_called_paused(agent):
    agent.core.emit(ev.GoalWaiting(reason="paused", until=5.0))
    view = status_view(agent.state)
    assert (standing(view), view["paused"], view["waiting"]["for"]) == ("waiting", False, "paused")


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


def test_a_goal_that_retried_does_not_tell_when_it_was_to_begin():
    spec = Spec(description="x", workspace="/w", not_before=1e12)
    waiting = ev.GoalWaiting(at=2.0, reason="busy", until=4.0)
    state = fold([(1, ev.GoalAccepted(goal_id="x-1111", spec=spec)), (2, waiting)])
    assert status_view(state, 3.0)["waiting"]["until"] == iso(4.0)
    fold([(3, ev.GoalWaiting(at=3.0, reason="paused", paused=True))], state)
    assert status_view(state, 3.0)["waiting"]["until"] is None
