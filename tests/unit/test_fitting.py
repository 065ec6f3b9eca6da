"""What an agent is told fits a line of the protocol, however large its goal has become."""

import json

from clew_daemon.record import shrink
from clew_shared.wire.hello import HelloAnswer
from clew_shared.wire.protocol import LINE_BYTES_MAX


def test_everything_at_its_longest_still_fits():
    name = {"description": "d" * 1000, "last_failure": "f" * 2000, "status": "completed"}
    subtasks = [name | {"actions": [], "steps": []} for _ in range(1000)]
    entry = {"name": "run_cmd", "args": {}, "output": "o" * 8000}
    state = {
        "goal": {"tasks": [{"description": "all", "subtasks": subtasks}]},
        "current_task_idx": 0,
        "current_subtask_idx": 0,
        "finished": [{"description": "d" * 1000, "summary": "s" * 2000} for _ in range(1000)],
        "transcript": [{"seq": n, **entry} for n in range(60)],
    }
    said = {"state": state, "notes": "n" * 1_000_000, "feedback": ["f" * 200_000] * 5}
    said |= {"playbook": [], "spec": {"done_when": "w" * 500_000}}
    found = shrink.fitted(HelloAnswer.model_validate(said)).as_json()
    assert len(json.dumps(found, ensure_ascii=False).encode()) < LINE_BYTES_MAX
