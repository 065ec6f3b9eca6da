"""The systemd user unit, and where it is put."""

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from clew_daemon import cli
from clew_daemon.host import units
from clew_daemon.host.unit_file import DAEMON_UNIT, HERALD_UNIT, UNITS, WEB_UNIT, unit_path
from clew_daemon.host.unit_file import unit_text as text_of
from clew_daemon.host.units import (
    ServiceError,
    control,
    install,
    is_delegated,
    look,
    manager_version,
    uninstall,
)

CHECKED_IN = Path(__file__).parents[2] / "systemd" / "clew.service"
SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$CALLS"
if [ -n "$NO_MANAGER" ]; then echo "Failed to connect to bus: No medium found" >&2; exit 1; fi
if [ "$FAILS" = "$3" ]; then echo "Job for clew.service failed." >&2; exit 1; fi
if [ "$2" = show ]; then echo "UnitFileState=enabled"; echo "ActiveState=${ACTIVE:-active}"; echo "MainPID=41"; fi
"""


SHOWN = """#!/bin/sh
echo Delegate=$DELEGATE
echo ControlGroup=/user.slice/app.slice/clew.service
"""


@pytest.fixture
def env(tmp_path: Path, monkeypatch) -> dict[str, str]:
    """A user's environment, with a systemctl that writes down what it was asked."""
    monkeypatch.setattr(units, "LINGER", tmp_path / "linger")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "systemctl").write_text(SYSTEMCTL)
    (tmp_path / "bin" / "systemctl").chmod(0o755)
    return {
        "HOME": str(tmp_path / "home"),
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
    }


def calls(env: dict[str, str]) -> list[str]:
    return Path(env["CALLS"]).read_text().splitlines()


def values(text: str) -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read_string(text)
    return {key: value for section in parser.sections() for key, value in parser.items(section)}


def unit_text(exec_path="%h/.local/bin/clew", home=None, **more):
    return text_of(DAEMON_UNIT, exec_path, home, **more)


@pytest.mark.parametrize("unit", [HERALD_UNIT, WEB_UNIT])
def test_the_unit_of_a_view_is_installed_and_removed_beside_that_of_the_daemon(env, unit):
    assert CHECKED_IN.with_name(unit.name).read_text() == text_of(unit)
    install("/usr/bin/clew", env=env)
    done = install("/usr/bin/clew", env=env, unit=unit, now=True)
    assert not done.faults
    path = unit_path(env, unit)
    assert values(path.read_text())["ExecStart"] == f"/usr/bin/clew {unit.command}"
    assert look(text_of(unit, "/usr/bin/clew"), env=env, unit=unit).up_to_date
    assert f"--user --no-pager restart {unit.name}" in calls(env)
    assert uninstall(env=env, unit=unit).faults == ()
    assert not path.exists()
    assert unit_path(env).exists()


def test_the_unit_keeps_the_promises_of_the_contract():
    assert CHECKED_IN.read_text() == unit_text()
    unit = values(unit_text())
    assert unit["ExecStart"] == "%h/.local/bin/clew run"
    assert unit["Restart"] == "always"
    assert unit["RestartSec"] == "1"
    assert unit["RestartPreventExitStatus"] == "78"
    assert unit["WatchdogSec"] == "30"
    assert unit["KillMode"] == "mixed"
    assert unit["Delegate"] == "yes"
    assert unit["NotifyAccess"] == "main"
    assert unit["WantedBy"] == "default.target"


def test_the_unit_leaves_the_workers_what_their_sandboxes_are_made_of():
    unit = values(unit_text())
    assert unit["NoNewPrivileges"] == "yes"
    assert unit["RestrictNamespaces"].split() == ["user", "pid", "mnt", "ipc", "net"]
    refused = unit["SystemCallFilter"]
    assert refused.startswith("~")
    assert not {"@mount", "@sandbox", "@privileged", "@resources"} & set(refused[1:].split())
    assert unit["SystemCallErrorNumber"] == "EPERM"  # a refused call ends no program
    for name in ("MemoryDenyWriteExecute", "ProtectControlGroups", "PrivateUsers"):
        assert name not in unit


def test_a_reload_is_a_command_that_fails_where_the_config_is_rejected():
    """The unit sent a signal, so that `systemctl reload` of a rejected config succeeded."""
    unit = values(unit_text("/usr/bin/clew", Path("/data/mine")))
    assert unit["Type"] == "notify-reload"  # the last one that the manager knows counts
    assert values(unit_text(version=252))["Type"] == "notify"
    assert unit["ExecReload"] == "/usr/bin/clew --home /data/mine reload"


def test_the_manager_waits_longer_than_the_agents_are_given():
    assert values(unit_text(stop_grace_s=10))["TimeoutStopSec"] == "30"
    assert values(unit_text(stop_grace_s=90))["TimeoutStopSec"] == "110"


@pytest.mark.parametrize(
    ("exec_path", "home"),
    [
        ("%h/.local/bin/clew", None),
        ("/opt/my clew/bin/clew", Path("/data/100% mine/$HOME")),
    ],
)
def test_systemd_finds_no_fault_in_the_unit(tmp_path, exec_path, home):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    program = tmp_path / "my clew%h$"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    if exec_path.startswith("/"):
        exec_path = str(program)
    else:
        # The user's own clew need not be installed where the tests run.
        (tmp_path / ".local" / "bin").mkdir(parents=True)
        shutil.copy(program, tmp_path / ".local" / "bin" / "clew")
    version = manager_version(os.environ)
    (tmp_path / "clew.service").write_text(unit_text(exec_path, home, version=version))
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", "--recursive-errors=no", "clew.service"],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0


def test_what_is_special_to_systemd_is_taken_literally():
    unit = values(unit_text("/opt/my clew", Path("/data/100% $mine")))
    assert unit["ExecStart"] == '"/opt/my clew" --home "/data/100%% $$mine" run'


def test_a_new_line_cannot_smuggle_a_setting_in():
    with pytest.raises(ValueError, match="control character"):
        unit_text("/bin/clew", Path("/tmp/x\nExecStartPre=/bin/evil"))


def test_installing_writes_the_unit_and_enables_it(env):
    done = install("/usr/bin/clew", env={**env, "ACTIVE": "inactive"})
    path = Path(env["HOME"]) / ".config/systemd/user/clew.service"
    assert path.read_text() == unit_text("/usr/bin/clew")
    assert [call for call in calls(env) if " show " not in call] == [
        "--version",
        "--user --no-pager daemon-reload",
        "--user --no-pager enable clew.service",
    ]
    assert not done.faults
    assert str(path) in done.messages[0]
    assert "loginctl enable-linger" in done.messages[-1]
    assert [entry.name for entry in path.parent.iterdir()] == ["clew.service"]


def test_installing_without_a_manager_says_what_is_left_to_do(env):
    done = install("/usr/bin/clew", env={**env, "NO_MANAGER": "1"})
    assert done.faults
    assert unit_path(env).exists()
    assert "Failed to connect to bus" in done.faults[0]
    assert "systemctl --user enable --now clew.service" in done.faults[1]


def test_a_running_service_is_restarted_for_a_changed_unit_and_for_no_other(env):
    """`start` of an active unit does nothing, and was called "enabled and started"."""
    install("/usr/bin/clew", env=env)
    same = install("/usr/bin/clew", env=env, now=True)
    assert "enabled; it is running" in same.messages
    assert not any(call.endswith("start clew.service") for call in calls(env))
    later = install("/opt/clew", env=env)
    assert "enabled; it is running; the new unit applies after `clew restart`" in later.messages
    assert not any(call.endswith("start clew.service") for call in calls(env))
    changed = install("/usr/bin/clew", env=env, now=True)
    assert "enabled and restarted" in changed.messages
    assert calls(env)[-1] == "--user --no-pager restart clew.service"
    failed = install("/opt/clew", env={**env, "FAILS": "restart"}, now=True)
    assert "not restarted: systemctl --user restart: Job for" in failed.faults[0]


@pytest.mark.parametrize(
    ("theirs", "ours", "told"),
    [
        (
            Path('/data/100% "my" $x\\'),
            None,
            """clew --home '/data/100% "my" $x\\' service uninstall""",
        ),
        (Path("/data/mine"), Path("/data"), "clew --home /data/mine service uninstall"),
        (None, Path("/data"), "to remove it: env -u CLEW_HOME clew service uninstall"),
    ],
)
def test_the_service_of_another_home_is_neither_replaced_nor_removed(env, theirs, ours, told):
    env["CLEW_HOME"] = "/data"
    install("/usr/bin/clew", home=theirs, env=env)
    text, asked = unit_path(env).read_text(), len(calls(env))
    for act in (
        lambda: install("/usr/bin/clew", home=ours, env=env),
        lambda: uninstall(ours, env=env),
    ):
        with pytest.raises(ServiceError, match="for another home") as refused:
            act()
        assert told in str(refused.value)
    assert unit_path(env).read_text() == text
    assert len(calls(env)) == asked
    assert look(text, home=ours, env=env).other_home == (
        str(theirs) if theirs else "the default one"
    )
    assert look(text, home=theirs, env=env).other_home is None
    assert uninstall(theirs, env=env).faults == ()


def test_a_unit_that_clew_did_not_write_is_left_to_its_owner(env):
    path = unit_path(env)
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\nExecStart=/usr/bin/true\n")
    with pytest.raises(ServiceError, match="not one that `clew service install` wrote"):
        uninstall(env=env)
    assert path.exists()


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
def test_the_service_of_this_home_is_started_stopped_and_restarted_by_systemd(env, verb):
    install("/usr/bin/clew", home=Path("/data/mine"), env=env)
    control(verb, Path("/data/mine"), env=env)
    assert calls(env)[-1] == f"--user --no-pager {verb} clew.service"


@pytest.mark.parametrize(
    ("installed", "home", "more", "told"),
    [
        (None, None, {}, "not installed.*clew service install"),
        (None, Path("/data/mine"), {}, "clew --home /data/mine service install"),
        (Path("/data/mine"), None, {}, "for another home"),
        (Path("/data/mine"), Path("/data"), {}, "for another home"),
        (Path("/"), Path("/"), {"NO_MANAGER": "1"}, "cannot be asked .*bus.*login session"),
        (Path("/"), Path("/"), {"FAILS": "start"}, "Job for clew.service failed.*clew doctor"),
        (Path("/"), Path("/"), {"PATH": "/nowhere"}, "systemctl is not installed"),
    ],
)
def test_a_service_that_cannot_be_started_says_why_and_what_to_do(env, installed, home, more, told):
    if installed:
        install("/usr/bin/clew", home=installed, env=env)
    with pytest.raises(ServiceError, match=told):
        control("start", home, env={**env, **more})


def test_the_service_is_looked_at_with_and_without_a_manager(env):
    text = unit_text("/usr/bin/clew")
    absent = look(text, env=env)
    assert (absent.installed, absent.up_to_date) == (False, None)
    install("/usr/bin/clew", env=env)
    there = look(text, env=env)
    assert (there.installed, there.up_to_date, there.enabled) == (True, True, True)
    assert (there.active, there.pid, there.error) == ("active", 41, None)
    assert not look(unit_text("/opt/other/clew"), env=env).up_to_date
    unknown = look(text, env={**env, "NO_MANAGER": "1"})
    assert (unknown.installed, unknown.enabled, unknown.active) == (True, None, None)
    assert "Failed to connect to bus" in (unknown.error or "")


def test_uninstalling_takes_everything_away_also_without_a_manager(env):
    for more in ({}, {"NO_MANAGER": "1"}):
        install("/usr/bin/clew", env=env)
        wants = unit_path(env).parent / "default.target.wants"
        wants.mkdir(exist_ok=True)
        (wants / "clew.service").symlink_to(unit_path(env))
        done = uninstall(env={**env, **more})
        assert bool(done.faults) is bool(more)
        assert not unit_path(env).exists()
        assert list(wants.iterdir()) == []
    assert "--user --no-pager disable --now clew.service" in calls(env)


def test_uninstalling_all_removes_every_unit_of_this_home_and_says_what_remains(
    env, tmp_path, monkeypatch, capsys
):
    home = tmp_path / "data"
    (home / "state").mkdir(parents=True)
    for name, value in {**env, "CLEW_HOME": str(home)}.items():
        monkeypatch.setenv(name, value)
    for unit in UNITS.values():
        install("/usr/bin/clew", home=home, env=env, unit=unit)
    assert cli.run(["service", "uninstall", "--all"]) == 0
    assert [unit for unit in UNITS.values() if unit_path(env, unit).exists()] == []
    told = capsys.readouterr().out
    assert f"  {home}/state\n" in told
    install("/usr/bin/clew", home=tmp_path, env=env, unit=WEB_UNIT)
    assert cli.run(["service", "uninstall", "--all"]) == 1
    told = capsys.readouterr()
    assert "another home" in told.err
    assert unit_path(env, WEB_UNIT).exists()


@pytest.mark.parametrize(
    ("group", "delegate", "expected"),
    [
        ("/sys/fs/cgroup/user.slice/app.slice/clew.service", "yes", True),
        ("/sys/fs/cgroup/user.slice/app.slice/clew.service", "no", False),
        ("/sys/fs/cgroup/elsewhere/clew.service", "yes", False),
        ("/sys/fs/cgroup/user.slice/app.slice", "yes", False),
    ],
)
def test_the_manager_says_whether_a_control_group_is_delegated(
    env, monkeypatch, group, delegate, expected
):
    systemctl = Path(env["PATH"].split(":")[0]) / "systemctl"
    systemctl.write_text(SHOWN)
    monkeypatch.setenv("PATH", env["PATH"])
    monkeypatch.setenv("DELEGATE", delegate)
    assert is_delegated(Path(group)) is expected
