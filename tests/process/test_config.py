"""The config while a daemon runs: broken on disk, and reloaded with other agents and limits."""

import json
import re
from functools import partial

import pytest

from clew_daemon.reading.client import call

SLEEPER = "---\non_interrupt: retry\n---\n# Sleep\n- [ ] Sleep\n  ```sh\n  sleep 600\n  ```\n"
QUICK = "# Quick\n- [ ] a\n  ```sh\n  true\n  ```\n"


def not_toml(config):
    config.write_text(config.read_text() + "\n[daemon\n")


def wrong_type(config):
    config.write_text(re.sub("^state = .*", "state = 3", config.read_text(), flags=re.MULTILINE))


def folder(config):
    config.unlink()
    config.mkdir()


DAMAGES = {not_toml: "config.toml", folder: "directory"}


@pytest.fixture
def moved(make_clew, tmp_path):
    """A running daemon whose folders are where only its config says."""
    clew = make_clew(
        {f"paths.{name}": str(tmp_path / "elsewhere" / name) for name in ("state", "run", "inbox")}
    )
    clew.ask = partial(call, tmp_path / "elsewhere" / "run" / "control.sock")
    inbox = tmp_path / "elsewhere" / "inbox"
    inbox.mkdir(parents=True)
    (clew.home / "inbox").symlink_to(inbox)
    return clew.start()


def config_error(clew):
    """What status says of the file; on a slow disk it is what was found a moment ago."""
    return json.loads(clew.clew("status", "--json"))["daemon"]["config_error"]


def test_goals_are_inspected_and_stopped_whatever_the_file_on_disk_says(moved, tmp_path):
    config = moved.home / "config.toml"
    text = config.read_text()
    goal = moved.submit(SLEEPER)
    moved.wait("action.allowed", goal=goal)
    for number, (damage, told) in enumerate(DAMAGES.items()):
        damage(config)
        moved.until(lambda told=told: told in (config_error(moved) or ""), f"{damage}")
        view = json.loads(moved.clew("status", "--json"))
        assert [one["id"] for one in view["goals"]] == [goal]
        backup = ("backup", str(tmp_path / f"copy{number}.db"))
        for command in (("loops",), ("playbook", "list"), ("verify",), backup):
            moved.cli(*command)
        for command in ("status", "logs", "history", "context"):
            moved.cli(command, goal)
        moved.cli("feedback", goal, "go on")
        for command in ("pause", "resume", "cancel", "retry"):
            moved.cli(command, goal)
        moved.cli("reload", code=1)
        moved.cli("config", code=1)
        config.rmdir() if config.is_dir() else config.unlink()
        config.write_text(text)
        moved.until(lambda: config_error(moved) is None, "the config is whole")
    moved.cli("cancel", goal)
    moved.stop()


def test_submit_asks_the_running_daemon_which_agents_there_are(moved, tmp_path):
    not_toml(moved.home / "config.toml")
    goal = tmp_path / "quick.md"
    goal.write_text(QUICK)
    moved.clew("submit", str(goal))
    moved.wait("goal.completed")
    goal.write_text("---\nagent: nobody\n---\n" + QUICK)
    assert "nobody" in moved.clew("submit", str(goal), code=1)


def test_without_a_daemon_the_ledger_of_the_last_one_is_shown(moved):
    goal = moved.submit(QUICK)
    moved.wait("goal.completed", goal=goal)
    moved.stop()
    for damage in (not_toml, wrong_type):
        damage(moved.home / "config.toml")
        view = json.loads(moved.clew("status", "--json"))
        assert view["daemon"] is None
        assert [one["id"] for one in view["goals"]] == [goal]


def test_restore_run_and_submit_refuse_a_broken_file_where_no_daemon_runs(moved, tmp_path):
    copy = tmp_path / "copy.db"
    moved.cli("backup", str(copy))
    moved.stop()
    not_toml(moved.home / "config.toml")
    assert "fix" in moved.clew("restore", str(copy), code=1)
    assert "not valid TOML" in moved.clew("run", code=78)
    goal = tmp_path / "quick.md"
    goal.write_text(QUICK)
    assert "not valid TOML" in moved.clew("submit", str(goal), code=1)


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
ENDS = """
hello()
call("complete_subtask", success=True)
call("finish", success=True, summary="done")
"""


def goal(agent):
    return f"---\nagent: {agent}\n---\n# Do it with {agent}\n"


def test_an_agent_that_is_added_can_be_used_after_a_reload(clew, tmp_path):
    clew.start()
    clew.agent("fresh", ENDS)
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
