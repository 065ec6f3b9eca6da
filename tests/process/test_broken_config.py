"""A config file that is broken on disk: the running daemon has its own settings, and can still be seen and stopped."""

import json

import pytest

SLEEPER = "# Sleep\n- [ ] Sleep\n  ```sh\n  sleep 600\n  ```\n"
QUICK = "# Quick\n- [ ] a\n  ```sh\n  true\n  ```\n"


def not_toml(config):
    config.write_text(config.read_text() + "\n[daemon\n")


def wrong_type(config):
    lines = [
        "state = 3" if line.startswith("state = ") else line
        for line in config.read_text().splitlines()
    ]
    config.write_text("\n".join(lines))


def folder(config):
    config.unlink()
    config.mkdir()


DAMAGES = {not_toml: "config.toml", folder: "directory"}


def restored(config, text):
    if config.is_dir() and not config.is_symlink():
        config.rmdir()
    else:
        config.unlink()
    config.write_text(text)


@pytest.fixture
def moved(make_clew, tmp_path):
    """A running daemon whose folders are where only its config says."""
    clew = make_clew(
        {f"paths.{name}": str(tmp_path / "elsewhere" / name) for name in ("state", "run", "inbox")}
    )
    clew.ask = lambda method, **params: _call(
        tmp_path / "elsewhere" / "run" / "control.sock", method, **params
    )
    inbox = tmp_path / "elsewhere" / "inbox"
    inbox.mkdir(parents=True)
    (clew.home / "inbox").symlink_to(inbox)
    return clew.start()


def config_error(clew):
    """What status says of the file; on a slow disk it is what was found a moment ago."""
    return json.loads(clew.clew("status", "--json"))["daemon"]["config_error"]


def _call(at, method, **params):
    from clew_daemon.reading.client import call

    return call(at, method, **params)


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
        for command in (
            ("status", goal),
            ("logs", goal),
            ("history", goal),
            ("loops",),
            ("context", goal),
            ("playbook", "list"),
            ("verify",),
            ("backup", str(tmp_path / f"copy{number}.db")),
            ("feedback", goal, "go on"),
            ("pause", goal),
            ("resume", goal),
            ("cancel", goal),
            ("retry", goal),
        ):
            moved.cli(*command)
        moved.cli("reload", code=1)
        moved.cli("config", code=1)
        restored(config, text)
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
