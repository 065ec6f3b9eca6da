"""Section 4: the command line."""

import json

import pytest

STEP = "# Do it\n## Part\n- [ ] step\n  ```sh\n  {}\n  ```\n"
COMMANDS = [
    "run", "demo", "submit", "watch", "show", "diff", "undo", "top", "web", "herald", "status",
    "logs", "history", "loops", "context", "feedback", "continue", "unblock", "pause",
    "resume", "cancel", "retry", "edit", "rm", "reload", "playbook", "verify", "doctor",
    "service", "start", "stop", "restart", "backup", "restore", "config", "metrics",
]  # fmt: skip
GOAL_KEYS = {
    "id", "description", "status", "progress", "task", "subtask", "epoch", "pid", "restarts",
    "blocked_actions", "iteration", "reason", "updated_at", "agent", "attempt", "verified",
    "tokens", "age_s", "waiting",
}  # fmt: skip


@pytest.fixture
def ended(clew):
    """A daemon with a goal that is completed."""
    goal = clew.start().completed(
        "---\nchecks: {made: test -f made}\n---\n" + STEP.format("touch made; echo hi")
    )
    clew.wait("worker.exited", goal=goal)
    clew.until(lambda: clew.history(goal))
    return clew, goal


def test_clew_alone_prints_help_with_all_commands(clew):
    said = clew.clew()
    assert not [name for name in COMMANDS if f" {name}" not in said]


def test_each_command_has_help(clew):
    assert [name for name in COMMANDS if "Usage" not in clew.cli(name, "--help")] == []


def test_wrong_usage_is_2_and_no_traceback(clew):
    assert "Traceback" not in clew.clew("status", "--no-such-option", code=2)
    assert "Traceback" not in clew.clew("no-such-command", code=2)


def test_commands_that_need_a_daemon_end_with_3_without_one(clew):
    for command in (["reload"], ["cancel", "x"], ["feedback", "x", "y"]):
        assert len(clew.clew(*command, code=3).strip().splitlines()) <= 2


def test_status_has_the_keys_of_the_contract(ended):
    clew, goal = ended
    clew.until(lambda: clew.goal(goal)["pid"] is None)
    status = json.loads(clew.cli("status", "--json"))
    assert {"pid", "version", "uptime_s", "ready", "config_error"} <= set(status["daemon"])
    assert status["inbox"] == []
    (entry,) = status["goals"]
    assert set(entry) >= GOAL_KEYS
    assert (entry["status"], entry["progress"], entry["pid"]) == ("completed", 1.0, None)
    assert (entry["verified"], entry["restarts"], entry["waiting"]) == (True, 0, None)


def test_reading_commands_print_one_json_document(ended):
    clew, goal = ended
    for command in (
        ["status", "--json"],
        ["status", goal, "--json"],
        ["history", goal, "--json"],
        ["loops", "--json"],
        ["context", goal, "--json"],
        ["verify", "--json"],
        ["config", "--json"],
        ["playbook", "list", "--json"],
        ["diff", goal, "--json"],
        ["show", goal, str(clew.history(goal)[0]["seq"]), "--json"],
    ):
        json.loads(clew.cli(*command))


def test_without_a_daemon_the_ledger_is_read(ended):
    clew, goal = ended
    clew.stop()
    assert json.loads(clew.cli("status", "--json"))["daemon"] is None
    for command in (["history", goal], ["loops"], ["context", goal], ["verify"]):
        clew.cli(*command)


def test_show_has_arguments_output_and_what_changed(ended):
    clew, goal = ended
    said = clew.cli("show", goal, str(clew.history(goal)[0]["seq"]))
    for part in ("touch made; echo hi", "hi", "made", "allowed"):
        assert part in said


def test_a_beginning_of_an_id_is_enough_and_an_unknown_goal_is_1(ended):
    clew, goal = ended
    assert goal in clew.cli("status", goal[:-2])
    assert "Traceback" not in clew.cli("status", "nothing-like-it", code=1)


def test_submit_takes_text_files_and_standard_input(clew):
    clew.start()
    file = clew.folder / "goal.md"
    file.write_text(STEP.format("true"))
    clew.cli("submit", str(file), "--workspace", str(clew.folder / "a"))
    clew.clew("submit", "-", "--workspace", str(clew.folder / "b"), given=STEP.format("true"))
    clew.wait("goal.completed", count=2)
    clew.cli("submit", "no-such-file.md", code=1)


def test_submit_wait_ends_with_the_goal(clew):
    clew.start()
    clew.clew("submit", "--wait", "-", given=STEP.format("true"))
    clew.clew("submit", "--wait", "-", given=STEP.format("false"), code=1)


def test_pause_resume_cancel_retry_and_rm(clew):
    clew.agent("idle", "hello()\nnotice('stop')\n")
    goal = clew.start().submit("---\nagent: idle\n---\n# Wait\n")
    clew.wait("worker.ready", goal=goal)
    clew.cli("pause", goal)
    clew.until(lambda: clew.goal(goal)["pid"] is None)
    clew.cli("resume", goal)
    clew.wait("worker.ready", goal=goal, count=2)
    clew.cli("cancel", goal)
    clew.until(lambda: clew.goal(goal)["status"] == "cancelled")
    clew.cli("retry", goal)
    clew.wait("worker.ready", goal=goal, count=3)
    clew.cli("cancel", "--all")
    clew.until(lambda: clew.goal(goal)["status"] == "cancelled")
    clew.cli("rm", goal)
    assert clew.goals() == {}


def test_feedback_resumes_a_blocked_goal_and_reaches_the_agent(clew):
    clew.agent(
        "asks",
        """
        heard = hello()["feedback"]
        say(heard)
        if not heard:
            call("ask", question="which colour?")
            notice("stop")
        else:
            done()
        """,
    )
    goal = clew.start().submit("---\nagent: asks\n---\n# Paint\n")
    clew.wait("goal.blocked", goal=goal)
    assert "which colour?" in clew.goal(goal)["reason"]
    clew.cli("feedback", goal, "green", "please")
    clew.wait("goal.completed", goal=goal)
    assert clew.said(goal, count=2)[-1] == ["green please"]


def test_continue_goes_on_with_a_blocked_goal(clew):
    goal = clew.start().submit(STEP.format("test -e now"))
    clew.wait("goal.blocked", goal=goal)
    (clew.workspace(goal) / "now").touch()
    clew.cli("continue", goal)
    clew.wait("goal.completed", goal=goal)


def test_diff_and_undo_of_a_goal(ended):
    clew, goal = ended
    assert "made" in clew.cli("diff", goal)
    clew.cli("undo", goal, "--yes")
    assert not (clew.workspace(goal) / "made").exists()


def test_undo_is_refused_while_the_goal_runs(clew):
    clew.agent("idle", "hello()\nrun('touch x')\nnotice('stop')\n")
    goal = clew.start().submit("---\nagent: idle\n---\n# Wait\n")
    clew.wait("action.finished", goal=goal)
    clew.cli("undo", goal, "--yes", code=1)


def test_verify_names_the_first_fault(ended):
    import sqlite3

    clew, _goal = ended
    assert clew.verified()
    clew.stop()
    with sqlite3.connect(clew.home / "state" / "ledger.db") as con:
        con.execute("UPDATE events SET body = CAST('x' AS BLOB) WHERE seq = 4")
    con.close()
    assert "event 4" in clew.clew("verify", code=1)


def test_backup_and_restore(ended):
    clew, goal = ended
    copy = clew.folder / "copy.db"
    clew.cli("backup", str(copy))
    clew.stop()
    for path in (clew.home / "state").glob("ledger.db*"):
        path.unlink()
    clew.clew("restore", str(copy))
    assert goal in clew.cli("status")


def test_doctor_says_what_works_and_how_to_fix_what_does_not(clew):
    report = json.loads(clew.clew("doctor", "--json", code=None))
    text = json.dumps(report).lower()
    for part in ("python", "sandbox", "systemd", "inbox"):
        assert part in text


def test_the_demo_is_killed_several_times_and_completes(clew):
    said = clew.clew("demo", "--chaos")
    assert "completed" in said


def test_logs_of_one_goal(ended):
    clew, goal = ended
    assert "goal.completed" in clew.cli("logs", goal)
    assert "goal.completed" not in clew.cli("logs", "-n", "1")
