"""The service manager: the unit and where it is put, and what it hears on a real datagram socket."""

import configparser
import os
import socket
import time
from pathlib import Path

import pytest

from clew_daemon.host import units
from clew_daemon.host.own_process import Notifier
from clew_daemon.host.units import DAEMON_UNIT, HERALD_UNIT, WEB_UNIT, ServiceError, unit_path

CHECKED_IN = Path(__file__).parents[2] / "systemd" / "clew.service"
SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$CALLS"
if [ "$3" = show ]; then echo "UnitFileState=enabled"; echo "ActiveState=active"; echo "MainPID=41"; fi
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


def own(home, env):
    return units.OwnUnit(home=home, env=env)


def calls(env: dict[str, str]) -> list[str]:
    return Path(env["CALLS"]).read_text().splitlines()


def values(text: str) -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read_string(text)
    return {key: value for section in parser.sections() for key, value in parser.items(section)}


def unit_text(exec_path="%h/.local/bin/clew", home=None, **more):
    return units.unit_text(DAEMON_UNIT, exec_path, home, **more)


def test_the_unit_keeps_the_promises_of_the_contract():
    assert CHECKED_IN.read_text() == unit_text()
    promised = {"ExecStart": "%h/.local/bin/clew run", "Restart": "always", "RestartSec": "1",
                "RestartPreventExitStatus": "78", "WatchdogSec": "30", "KillMode": "mixed",
                "Delegate": "yes", "NotifyAccess": "main", "WantedBy": "default.target"}  # fmt: skip
    assert promised.items() <= values(unit_text()).items()


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


@pytest.mark.parametrize("unit", [DAEMON_UNIT, WEB_UNIT, HERALD_UNIT])
def test_each_unit_runs_its_command_and_a_rejected_reload_is_a_command_that_fails(unit):
    found = values(units.unit_text(unit, "/usr/bin/clew", Path("/data/mine")))
    assert found["ExecStart"] == f"/usr/bin/clew --home /data/mine {unit.command}"
    assert (found["Restart"], found["NoNewPrivileges"]) == ("always", "yes")
    if unit is DAEMON_UNIT:
        assert found["Type"] == "notify-reload"  # the last one that the manager knows counts
        assert found["ExecReload"] == "/usr/bin/clew --home /data/mine reload"


@pytest.mark.parametrize(
    ("theirs", "ours"), [(Path('/data/100% "my" $x\\'), None), (None, Path("/data"))]
)
def test_the_service_of_another_home_is_neither_replaced_nor_removed(env, theirs, ours):
    own(theirs, env).install("/usr/bin/clew")
    text, asked = unit_path(env).read_text(), len(calls(env))
    for act in (
        lambda: own(ours, env).install("/usr/bin/clew"),
        lambda: own(ours, env).uninstall(),
    ):
        with pytest.raises(ServiceError, match="for another home"):
            act()
    assert unit_path(env).read_text() == text
    assert len(calls(env)) == asked
    assert own(ours, env).look(text).other_home == (str(theirs) if theirs else "the default one")
    assert own(theirs, env).look(text).other_home is None
    assert own(theirs, env).uninstall().faults == []


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
def test_the_service_of_this_home_is_started_stopped_and_restarted_by_systemd(env, verb):
    mine = own(Path("/data/mine"), env)
    mine.install("/usr/bin/clew")
    found = mine.look()
    assert (found.enabled, found.active, found.pid, found.error) == (True, "active", 41, None)
    mine.control(verb)
    assert calls(env)[-1] == f"--user --no-pager {verb} clew.service"


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path: Path):
    """A listening manager, and the address that it puts in NOTIFY_SOCKET."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        path = f"/tmp/clew-{os.getpid()}-{time.monotonic_ns()}"
        address = path if request.param == "path" else f"@{path}"
        listener.bind(address.replace("@", "\0"))
        listener.settimeout(10)
        yield listener, address
    Path(path).unlink(missing_ok=True)


def test_a_status_is_one_line_and_forges_no_state(manager):
    listener, address = manager
    Notifier(address).tell(status="goal a\nWATCHDOG=1\nb \udcff " + "x" * 9999)
    heard = listener.recv(1 << 16).decode()
    assert heard.startswith("STATUS=goal a WATCHDOG=1 b ? x")
    assert "\n" not in heard
    assert len(heard) < 600


def test_a_manager_that_does_not_listen_holds_nothing_up(manager):
    listener, address = manager
    notifier = Notifier(address)
    for _ in range(10_000):
        notifier.tell("WATCHDOG=1")
    listener.close()
    notifier.tell("WATCHDOG=1")


@pytest.mark.parametrize(
    ("env", "interval_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_fed_twice_in_its_time_if_it_watches_us(env, interval_s):
    assert Notifier.from_env(env).watchdog_interval_s == interval_s
