"""Section 10: the log, and that no secret is in it."""

import re

STEP = (
    "---\nchecks: {{made: test -f made}}\n---\n# Do it\n## Part\n- [ ] step\n  ```sh\n  {}\n  ```\n"
)


def test_lines_have_time_level_event_and_the_goals_numbers(clew):
    clew.start().completed(STEP.format("touch made"))
    clew.stop()
    clew.now()
    assert all(
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", e["timestamp"]) for e in clew.events
    )
    assert all({"level", "event"} <= set(e) for e in clew.events)
    names = {e["event"] for e in clew.events}
    assert names >= {
        "daemon.started", "daemon.ready", "goal.accepted", "goal.started", "worker.started",
        "worker.ready", "subtask.started", "action.allowed", "action.finished",
        "subtask.completed", "task.completed", "check.passed", "goal.completed",
        "worker.exited", "daemon.stopping", "daemon.stopped",
    }  # fmt: skip
    (allowed,) = clew.seen("action.allowed")
    assert {"goal", "epoch", "seq"} <= set(allowed)


def test_a_secret_is_in_no_file_that_clew_writes(clew):
    secret = "sk-" + "a1B2" * 10
    clew.start()
    place = clew.folder / "ws"
    place.mkdir()
    (place / "key").write_text(secret)
    step = STEP.format("cat key; touch made").replace("---\n", f"---\nworkspace: {place}\n", 1)
    goal = clew.completed(step)
    clew.report(goal)
    clew.stop()
    own = {clew.home / "state" / "snapshots"}  # of the person's files, for an undo
    found = [
        path
        for path in [clew.log, *clew.home.rglob("*")]
        if path.is_file() and not own & set(path.parents) and secret.encode() in path.read_bytes()
    ]
    assert found == []
