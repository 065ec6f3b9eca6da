"""Config that cannot be read, or that names paths that lead nowhere, is an error for everyone who reads it."""

import signal

import pytest

BROKEN = "[sandbox]\nread = ['~nosuchuser/tools']\n"


def dangling(config):
    config.unlink()
    config.symlink_to("/nowhere/config.toml")


def unknown_user(config):
    config.write_text(BROKEN)


@pytest.mark.parametrize(
    ("damage", "told"), [(dangling, "/nowhere/config.toml"), (unknown_user, "sandbox.read")]
)
def test_it_is_refused_by_reload_config_and_run_and_the_daemon_goes_on(make_clew, damage, told):
    clew = make_clew().start()
    config = clew.home / "config.toml"
    text = config.read_text()
    damage(config)
    assert told in clew.cli("reload", code=1)
    clew.daemon.send_signal(signal.SIGHUP)
    assert told in clew.wait("config.rejected")["reason"]
    assert told in clew.cli("config", code=1)
    config.unlink()
    config.write_text(text)
    goal = clew.submit("# G\n- [ ] a\n  ```sh\n  true\n  ```\n")
    clew.wait("goal.completed", goal=goal)
    clew.stop()
    damage(config)
    clew.start(ready=False)
    assert clew.daemon.wait(60) == 78
    assert told in clew.log.read_text()


def test_reading_commands_warn_of_a_dangling_config(make_clew):
    clew = make_clew()
    dangling(clew.home / "config.toml")
    for command in ("status", "loops", "verify"):
        said = clew.cli(*command.split())
        assert "clew: warning: the config file is broken" in said
        assert "/nowhere/config.toml" in said
    assert "/nowhere/config.toml" in clew.cli("doctor", code=1)
