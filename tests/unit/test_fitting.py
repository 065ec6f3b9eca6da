"""What an agent is told fits a line of the protocol, however large its goal has become."""

import json

import pytest

from clew_daemon.record import shrink
from clew_daemon.record.shrink import fitted_state
from clew_shared.wire.hello import HelloAnswer
from clew_shared.wire.protocol import LINE_BYTES_MAX


def fitted(answer):
    return shrink.fitted(HelloAnswer.model_validate(answer)).as_json()


def action(n, size):
    return {"seq": n, "name": "write_file", "args": {"path": "f", "content": "x" * size}}


def subtask(n, actions=(), **fields):
    base = {"description": f"step {n}", "status": "completed", "last_failure": None}
    return base | {"actions": list(actions), "steps": []} | fields


def told(subtasks, **fields):
    state = {
        "goal": {"tasks": [{"description": "all", "subtasks": subtasks}]},
        "current_task_idx": 0,
        "current_subtask_idx": 0,
        "finished": [],
        "transcript": [],
    }
    said = {"state": state, "notes": "", "feedback": [], "playbook": [], "spec": {"done_when": ""}}
    return said | fields


def size(said):
    return len(json.dumps(said, ensure_ascii=False).encode())


@pytest.mark.parametrize("fit", [fitted, fitted_state])
def test_many_large_actions_are_told_with_short_arguments(fit):
    said = fit(told([subtask(0, [action(n, 60_000) for n in range(20)])]))
    assert size(said) < LINE_BYTES_MAX
    assert len(said["state"]["goal"]["tasks"][0]["subtasks"][0]["actions"]) == 20


def test_everything_at_its_longest_still_fits():
    done = [{"description": "d" * 1000, "summary": "s" * 2000} for _ in range(1000)]
    entries = [{"seq": n, "name": "run_cmd", "args": {}, "output": "o" * 8000} for n in range(60)]
    said = told(
        [subtask(n, description="d" * 1000, last_failure="f" * 2000) for n in range(1000)],
        notes="n" * 1_000_000,
        feedback=["f" * 200_000] * 5,
        spec={"done_when": "w" * 500_000},
    )
    said["state"] |= {"finished": done, "transcript": entries}
    assert size(fitted(said)) < LINE_BYTES_MAX
