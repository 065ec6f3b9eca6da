"""What an agent is told fits a line of the protocol, however large its goal has become."""

import json

from clew_daemon.record import shrink
from clew_shared.wire.hello import HelloAnswer
from clew_shared.wire.protocol import LINE_BYTES_MAX


def fitted(answer):
    return shrink.fitted(HelloAnswer.model_validate(answer)).as_json()


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
