"""The daemon as a service of a real systemd user manager: install, start, reload, watchdog, stop, journal."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2].parent / "shared" / "tools" / "systemd-user.sh"
MANAGER = Path("/lib/systemd/systemd")

pytestmark = pytest.mark.systemd

CONFIG = """\
[daemon]
settle_s = 0.05
[sandbox]
mode = "best_effort"
"""

GOAL = """\
# Wait for a word
## Steps
- [ ] One
  ```sh
  echo begun >> begun; until test -e go; do sleep 0.05; done; echo done > done
  ```
"""

CONVERSATION = """\
set -eu
unit=clew.service
show() { systemctl --user show -p "$1" --value $unit; }
until_is() { for _ in $(seq 600); do case "$(show "$1")" in $2) return;; esac; sleep 0.1; done
  echo "$1 is $(show "$1"), not $2"; journalctl --user-unit $unit --no-pager -o cat | tail -40; exit 1; }
until_there() { for _ in $(seq 600); do test -e $1 && return; sleep 0.1; done
  echo "no $1"; journalctl --user-unit $unit --no-pager -o cat | tail -40; exit 1; }
mkdir -p ~/.config/clew ~/.config/systemd/user/$unit.d
cp CONFIG ~/.config/clew/config.toml
CLEW service install
printf '[Service]\\nWatchdogSec=3\\n' > ~/.config/systemd/user/$unit.d/quick.conf
systemctl --user daemon-reload
systemctl --user start $unit
until_is StatusText "0 goals running*"
goal=$(CLEW submit GOAL)
ws=~/.local/share/clew/workspaces/$goal
until_there $ws/begun
until_is StatusText "1 goals running*"
printf '[loops]\\nrepeat_limit = 5\\n' >> ~/.config/clew/config.toml
systemctl --user reload $unit
until_is StatusText "*reloaded, 1 keys changed*"
test "$(show ActiveState)" = active
rm $ws/begun
kill -STOP "$(show MainPID)"
until_is NRestarts 1
until_there $ws/begun
test ! -e $ws/done
touch $ws/go
until_there ~/.local/share/clew/outbox/$goal.md
grep "status: .*completed" ~/.local/share/clew/outbox/$goal.md
kill -KILL "$(show MainPID)"
until_is NRestarts 2
until_is ActiveState active
systemctl --user stop $unit
until_is ActiveState inactive
[ "$(show Result)" = success ]
CLEW verify
journalctl --user-unit $unit --no-pager -o cat > LOG
grep -i "watchdog timeout" LOG
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


def test_the_real_daemon_lives_under_systemd(in_user_manager, tmp_path):
    (tmp_path / "config.toml").write_text(CONFIG)
    (tmp_path / "goal.md").write_text(GOAL)
    words = {
        "CLEW": Path(sys.executable).with_name("clew"),
        "CONFIG": tmp_path / "config.toml",
        "GOAL": tmp_path / "goal.md",
        "LOG": tmp_path / "journal",
    }
    script = re.sub(r"\b(CLEW|CONFIG|GOAL|LOG)\b", lambda m: str(words[m[0]]), CONVERSATION)
    said = in_user_manager(script)
    assert "enabled; start it now with" in said
    assert said.rstrip().endswith("all of it")
    lines = (tmp_path / "journal").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines if line.startswith("{")]
    assert events.count("daemon.ready") == 3
    assert events.count("daemon.recovered") == 1
    assert events.count("goal.completed") == 1
    assert events[-1] == "daemon.stopped"
