"""The unit and the notices in a real systemd user manager.

The daemon's own conversation (start, reload, watchdog, stop, journal) belongs here too, by
`in_user_manager`; what stands here needs only `units` and `service`, with a stand-in daemon.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2].parent / "shared" / "tools" / "systemd-user.sh"
MANAGER = Path("/lib/systemd/systemd")

pytestmark = pytest.mark.systemd

STAND_IN = """\
#!{python}
import os, signal, time
from clew_daemon.service import Notifier
notifier = Notifier.from_env(os.environ)
fed = True
def reload(*_):
    notifier.reloading()
    notifier.ready("reloaded")
def stop(*_):
    notifier.stopping()
    raise SystemExit(0)
def hang(*_):
    global fed
    fed = False
signal.signal(signal.SIGHUP, reload)
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGUSR1, hang)
notifier.ready("2 goals running")
while True:
    time.sleep(notifier.watchdog_interval_s / 2)
    if fed:
        notifier.watchdog()
"""

INSTALL = """\
import os, sys
from clew_daemon.units import install
print(*install(sys.argv[1]).messages, sep="\\n")
"""

CONVERSATION = """\
set -eu
unit=clew.service
show() {{ systemctl --user show -p "$1" --value $unit; }}
until_is() {{ for _ in $(seq 300); do [ "$(show "$1")" = "$2" ] && return; sleep 0.1; done
  echo "$1 is $(show "$1"), not $2"; journalctl --user-unit $unit --no-pager -o cat; exit 1; }}
{python} {folder}/install.py {folder}/stand-in
mkdir -p ~/.config/systemd/user/$unit.d
printf '[Service]\\nWatchdogSec=2\\n' > ~/.config/systemd/user/$unit.d/quick.conf
systemctl --user daemon-reload
systemctl --user start $unit
until_is StatusText "2 goals running"
systemctl --user reload $unit
until_is StatusText "reloaded"
kill -USR1 "$(show MainPID)"
until_is NRestarts 1
until_is ActiveState active
journalctl --user-unit $unit --no-pager -o cat | grep -i "watchdog timeout"
kill -KILL "$(show MainPID)"
until_is NRestarts 2
until_is ActiveState active
systemctl --user stop $unit
until_is ActiveState inactive
[ "$(show Result)" = success ]
echo "all of it"
"""


def reason_to_skip() -> str:
    if os.geteuid() != 0:
        return "a throw-away systemd user manager needs root"
    if not TOOL.exists() or not MANAGER.exists():
        return "systemd, or the script that starts a throw-away manager, is not here"
    if not any(
        line.split()[2] == "cgroup2" for line in Path("/proc/mounts").read_text().splitlines()
    ):
        return "cgroup2 is mounted nowhere"
    return ""


@pytest.fixture
def in_user_manager():
    """A function that runs a bash script where `systemctl --user` works, and gives its output."""
    if reason := reason_to_skip():
        pytest.skip(reason)

    def run(script: str, timeout_s: float = 100) -> str:
        done = subprocess.run(
            [TOOL, "bash", "-c", script],
            env={**os.environ, "SD_UID": "0"},  # the environment of the tests may be root's alone
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


def test_the_installed_unit_starts_reloads_restarts_and_stops(in_user_manager, tmp_path):
    (tmp_path / "stand-in").write_text(STAND_IN.format(python=sys.executable))
    (tmp_path / "stand-in").chmod(0o755)
    (tmp_path / "install.py").write_text(INSTALL)
    script = CONVERSATION.format(python=sys.executable, folder=tmp_path)
    said = in_user_manager(textwrap.dedent(script))
    assert "enabled; start it now with" in said
    assert said.rstrip().endswith("all of it")
