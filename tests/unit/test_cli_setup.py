"""Dropping goal files, the config, the doctor and the service, where no daemon runs."""

import errno
import io
import json
import os
import re
from pathlib import Path

import pytest

from clew_daemon import units
from clew_daemon.cli import run

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture
def clew(capsys, monkeypatch):
    for name in list(os.environ):
        if name.startswith("CLEW_"):
            monkeypatch.delenv(name)

    def call(*args: object) -> tuple[int, str, str]:
        code = run([str(arg) for arg in args])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


# ---- submit


def test_submit_without_a_daemon_drops_the_file_whole_and_exits_zero(clew, tmp_path):
    goal = tmp_path / "my goal.md"
    goal.write_text("# Do it\n")
    code, out, _ = clew("--home", tmp_path / "h", "submit", goal)
    dropped = list((tmp_path / "h" / "inbox").iterdir())
    assert code == 0
    assert "clew run" in out
    assert [path.read_text() for path in dropped] == ["# Do it\n"]
    assert re.fullmatch(r"my goal-[0-9a-f]{6}\.md", dropped[0].name)


def test_a_file_submitted_twice_is_there_twice(clew, tmp_path):
    goal = tmp_path / "g.txt"
    goal.write_text("Do it\n")
    for _ in range(2):
        assert clew("--home", tmp_path / "h", "submit", goal)[0] == 0
    assert len(list((tmp_path / "h" / "inbox").glob("g-*.txt"))) == 2


@pytest.mark.parametrize("command", [["submit"], ["playbook", "import"]])
def test_a_file_that_may_not_be_read_is_no_fault_of_usage(clew, tmp_path, monkeypatch, command):
    def refused(path: Path, *_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    goal = tmp_path / "g.md"
    goal.write_text("Do it\n")
    monkeypatch.setattr(os, "access", lambda path, _: str(path) != str(goal))
    monkeypatch.setattr(Path, "open", refused)
    code, _, err = clew("--home", tmp_path, *command, goal)
    assert (code, "Permission denied" in err) == (1, True)


def test_submit_reads_stdin(clew, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Do it\n")))
    assert clew("--home", tmp_path, "submit", "-")[0] == 0
    assert len(list((tmp_path / "inbox").glob("stdin-*.md"))) == 1


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "empty"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"---\npriority: much\nagent: nobody\n---\n# x\n", "priority"),
        (b"---\nagent: nobody\n---\n# x\n", "nobody"),
        (b"x" * (1024 * 1024 + 1), "bytes"),
    ],
)
def test_a_file_that_cannot_be_a_goal_is_told_at_once_and_not_dropped(clew, tmp_path, raw, told):
    goal = tmp_path / "goal.md"
    goal.write_bytes(raw)
    code, out, err = clew("--home", tmp_path / "h", "submit", goal)
    assert (code, out) == (1, "")
    assert told in err
    assert not (tmp_path / "h").exists()


def test_submit_notes_a_key_that_is_probably_a_slip_and_drops_all_the_same(clew, tmp_path):
    goal = tmp_path / "goal.md"
    goal.write_text("---\npriorty: 3\ntags: [x]\n---\n# x\n")
    code, _, err = clew("--home", tmp_path / "h", "submit", goal)
    assert code == 0
    assert "'priorty'" in err
    assert "did you mean" in err
    assert "'tags'" in err


def test_submit_of_a_file_that_is_not_there_says_so(clew, tmp_path):
    code, _, err = clew("--home", tmp_path, "submit", tmp_path / "absent.md")
    assert code == 1
    assert "absent.md" in err
    assert len(err.splitlines()) == 1


def test_submit_wait_without_a_daemon_drops_nothing(clew, tmp_path):
    goal = tmp_path / "goal.md"
    goal.write_text("# x\n")
    assert clew("--home", tmp_path / "h", "submit", "--wait", goal)[0] == 3
    assert not (tmp_path / "h").exists()


# ---- config, places, doctor


def test_config_says_where_each_value_comes_from(clew, tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text("[daemon]\nmax_workers = 2\n")
    monkeypatch.setenv("CLEW_LOOPS__REPEAT_LIMIT", "4")
    keys = json.loads(clew("--home", tmp_path, "config", "--json")[1])["keys"]
    assert keys["daemon.max_workers"] == {"value": 2, "source": f"{tmp_path}/config.toml:2"}
    assert keys["loops.repeat_limit"] == {"value": 4, "source": "env CLEW_LOOPS__REPEAT_LIMIT"}
    assert keys["daemon.sweep_s"]["source"] == "default"
    assert "config.toml:2" in clew("--home", tmp_path, "config")[1]


def test_config_shows_the_paths_that_are_used_where_none_is_set(clew, tmp_path):
    (tmp_path / "config.toml").write_text(f'[paths]\noutbox = "{tmp_path}/reports"\n')
    keys = json.loads(clew("--home", tmp_path, "config", "--json")[1])["keys"]
    assert {key: one["value"] for key, one in keys.items() if key.startswith("paths.")} == {
        "paths.inbox": str(tmp_path / "inbox"),
        "paths.outbox": str(tmp_path / "reports"),
        "paths.workspaces": str(tmp_path / "workspaces"),
        "paths.state": str(tmp_path / "state"),
        "paths.run": str(tmp_path / "run"),
    }
    assert keys["log.file"]["value"] == str(tmp_path / "state" / "clew.log")
    assert keys["paths.inbox"]["source"] == "default"
    shown = clew("--home", tmp_path, "config")[1]
    assert f'paths.inbox = "{tmp_path}/inbox"  # default\n' in shown
    assert f'paths.outbox = "{tmp_path}/reports"  # {tmp_path}/config.toml:2\n' in shown


def test_config_check_names_all_faults_of_a_file(clew, tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text("[daemon]\nmax_workers = 0\nsettle = 1\n[nope]\n")
    code, out, err = clew("--home", tmp_path, "config", "--check", bad)
    assert (code, out) == (1, "")
    assert all(word in err for word in ("bad.toml:2", "bad.toml:3", "nope"))
    code, out, _ = clew("--home", tmp_path, "config", "--check", bad, "--json")
    assert code == 1
    assert len(json.loads(out)["faults"]) == 3


def test_config_check_of_the_example_finds_nothing(clew, tmp_path):
    code, _, err = clew("--home", tmp_path, "config", "--check", REPO / "config.example.toml")
    assert (code, err) == (0, "")


def test_the_places_are_those_that_the_whole_config_gives(tmp_path, monkeypatch):
    from clew_daemon.cli.where import Where
    from clew_shared.settings import load, places

    text = '[paths]\nstate = "elsewhere"\n[ledger]\nurl = "sqlite:///<state>/x.db"\n'
    (tmp_path / "config.toml").write_text(text)
    env = {"HOME": "/home/x", "CLEW_PATHS__RUN": "/run/y"}
    where = Where.of(tmp_path, env)
    settings = load(text, env, "config.toml").settings
    assert where.places == places(env, tmp_path, settings)
    assert str(where.ledger) == settings.ledger.located(str(where.places.state))[10:]


def test_a_relative_home_is_meant_from_here(tmp_path, monkeypatch):
    from clew_daemon.cli.where import Where

    monkeypatch.chdir(tmp_path)
    assert Where.of(Path("h"), {}).places.state == tmp_path / "h" / "state"
    assert Where.of(None, {"CLEW_HOME": "h"}).places.state == tmp_path / "h" / "state"


def test_doctor_looks_at_everything_and_makes_nothing(clew, tmp_path):
    _, out, _ = clew("--home", tmp_path, "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert {"python", "packages", "config", "inbox", "state", "ledger", "sandbox"} <= set(checks)
    assert checks["python"]["level"] == "ok"
    assert checks["daemon"]["level"] == "warn"
    assert list(tmp_path.iterdir()) == []


def test_doctor_fails_with_what_to_mend(clew, tmp_path):
    (tmp_path / "config.toml").write_text(
        '[agents.far]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\n'
    )
    (tmp_path / "state").write_text("a file where a folder should be")
    code, out, _ = clew("--home", tmp_path, "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert code == 1
    assert checks["state"]["level"] == "fail"
    assert checks["agent far"]["level"] == "fail"
    assert "base_url" in checks["agent far"]["mend"]
    assert clew("--home", tmp_path, "doctor")[0] == 1


def test_service_install_writes_a_unit_for_this_home_and_says_what_is_left(
    clew, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATH", str(tmp_path))  # no systemctl: nothing of this machine is touched
    monkeypatch.setattr(units, "LINGER", tmp_path)
    unit = tmp_path / "config" / "systemd" / "user" / "clew.service"
    code, out, _ = clew("--home", tmp_path / "my home", "service", "install")
    assert code == 1
    assert "systemctl is not installed" in out
    assert "enable-linger" in out
    assert f'--home "{tmp_path}/my home" run' in unit.read_text()
    code, out, _ = clew("--home", tmp_path / "my home", "service", "status", "--json")
    said = json.loads(out)
    assert (code, said["installed"], said["up_to_date"], said["active"]) == (0, True, True, None)
    assert "systemctl is not installed" in said["error"]
    assert "cannot be asked" in clew("--home", tmp_path / "my home", "service", "status")[1]
    code, _, err = clew("start")
    assert (code, "for another home" in err) == (1, True)
    clew("service", "uninstall")
    assert not unit.exists()
    assert "not installed: clew service install" in clew("service", "status")[1]


@pytest.mark.parametrize("command", ["start", "restart"])
def test_a_service_is_not_started_with_a_config_that_cannot_be_used(clew, tmp_path, command):
    (tmp_path / "config.toml").write_text("[nope]\n")
    code, _, err = clew("--home", tmp_path, command)
    assert (code, "nope" in err) == (1, True)


def test_service_install_with_a_broken_config_names_its_faults(clew, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config.toml").write_text("[nope]\n")
    code, _, err = clew("--home", tmp_path, "service", "install")
    assert code == 1
    assert "nope" in err
    assert not (tmp_path / "config").exists()
