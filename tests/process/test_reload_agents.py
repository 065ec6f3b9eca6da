"""A reload of `[agents]` and `[limits]`: it applies to goals that start later, and running ones keep theirs."""

HELD = """
import time
hello()
say("up")
while not os.path.exists("go"):
    time.sleep(0.05)
say(act("run_cmd", cmd="yes | head -c 5000")["outcome"]["output"].count("y"))
call("complete_subtask", success=True)
call("finish", success=True, summary="done")
"""
QUICK = """
hello()
call("complete_subtask", success=True)
call("finish", success=True, summary="done")
"""


def goal(agent):
    return f"---\nagent: {agent}\n---\n# Do it with {agent}\n"


def test_an_agent_that_is_added_can_be_used_after_a_reload(clew, tmp_path):
    clew.start()
    clew.agent("fresh", QUICK)
    file = tmp_path / "goal.md"
    file.write_text(goal("fresh"))
    refused = clew.cli("submit", str(file), code=1)
    assert "unknown agent `fresh`" in refused
    assert "if you have just added it: clew reload" in refused
    said = clew.cli("reload")
    assert "agents.fresh.command" in said
    assert "to new goals" in said
    clew.cli("submit", str(file))
    clew.wait("goal.completed")


def test_a_running_goal_keeps_its_agent_and_limits_and_a_later_one_has_the_new_ones(clew):
    clew.agent("player", HELD)
    clew.configure({"limits.output_bytes": 1024})
    first = clew.start().submit(goal("player"), "first.md")
    clew.said(first)
    clew.configure({"limits.output_bytes": 2048})
    changed = clew.ask("reload")["changes"]
    assert [(c["key"], c["applies"]) for c in changed] == [("limits.output_bytes", "to new goals")]
    second = clew.submit(goal("player"), "second.md")
    clew.said(second)
    clew.kill_agent(first)
    clew.wait("worker.ready", goal=first, count=2)
    for one in (first, second):
        (clew.workspace(one) / "go").touch()
    small, large = clew.said(first, count=3)[-1], clew.said(second, count=2)[-1]
    assert small < 700 < large
    for one in (first, second):
        clew.wait("goal.completed", goal=one)


def test_a_key_that_is_not_in_the_environment_of_the_daemon_needs_a_restart(clew, tmp_path):
    clew.env = {"KNOWN_API_KEY": "sk-known-0123456789", "PLAIN": "not-hidden"}
    clew.start()
    keys = {"there": "KNOWN_API_KEY", "missing": "LATER_API_KEY", "open": "PLAIN"}
    for name, variable in keys.items():
        clew.configure({f"agents.{name}.model": "m", f"agents.{name}.api_key_env": variable})
    (tmp_path / "key").write_text("sk-file-0123456789\n")
    (tmp_path / "key").chmod(0o600)
    clew.configure({"agents.file.model": "m", "agents.file.api_key_file": str(tmp_path / "key")})
    clew.ask("reload")
    assert clew.wait("config.reloaded")["restart_needed"] == [
        "agents.missing.api_key_env",
        "agents.open.api_key_env",
    ]
