"""The daemon as a service of a real systemd user manager: install, start, reload, watchdog, stop, journal."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from harness import runbook
from user_manager import in_user_manager

__all__ = ["in_user_manager"]

pytestmark = [pytest.mark.systemd, pytest.mark.long]

PLAYER = Path(__file__).parent / "agents" / "player.py"

CONFIG = """\
[daemon]
settle_s = 0.05
[restart]
stop_grace_s = 60
[sandbox]
mode = "best_effort"
[agents.thorough]
kind = "command"
own_tools = true
command = ["PYTHON", "-I", "-B", "PLAYER", "THOROUGH"]
"""

WAITS = "echo begun >> begun; until test -e go; do sleep 0.05; done; echo done > done"
GOAL = runbook(WAITS, on_interrupt="retry")

THOROUGH_GOAL = """\
---
agent: thorough
---
# Tidy up when told to stop
"""

THOROUGH = """\
import os, signal
signal.signal(signal.SIGTERM, lambda *_: Path("sigterm").touch())
hello()
Path("begun").touch()
notice("stop")
Path("told").touch()
while Path("stay").exists():
    threading.Event().wait(0.05)
Path("tidied").touch()
"""

WORDS = """\
set -eu
unit=clew.service
journal() { journalctl --user-unit $unit --no-pager -q "$@"; }
show() { systemctl --user show -p "$1" --value $unit; }
failed() { echo "$1"; journal -o cat | tail -40; exit 1; }
until_is() { for _ in $(seq 600); do case "$(show "$1")" in $2) return;; esac; sleep 0.1; done
  failed "$1 is $(show "$1"), not $2"; }
until_there() { for _ in $(seq 600); do test -e $1 && return; sleep 0.1; done; failed "no $1"; }
start() { systemctl --user start $unit; }
places() { ws=~/.local/share/clew/workspaces/$1; group=$(CLEW status --json | python3 -c \
  'import json, sys; print(json.load(sys.stdin)["daemon"]["cgroup"]["path"])')
  test -d $group || failed "no control groups"; }
mkdir -p ~/.config/clew ~/.config/systemd/user/$unit.d
cp CONFIG ~/.config/clew/config.toml
CLEW service install | grep "enabled; start it with: clew start"
"""

LIFE = """\
printf '[Service]\\nWatchdogSec=3\\n' > ~/.config/systemd/user/$unit.d/quick.conf
systemctl --user daemon-reload
CLEW start
until_is StatusText "0 goals running*"
CLEW service status | grep "state     active since .*, process $(show MainPID)"
goal=$(CLEW submit GOAL)
places $goal
until_there $ws/begun
until_is StatusText "1 goal running*"

case "$group" in *$(show ControlGroup)/clew-*) ;; *) failed "no groups: $group";; esac
grep -qx "$(show MainPID)" $group/daemon/cgroup.procs
test -n "$(cat $group/worker-$goal-1/executor-2/cgroup.procs)"
walls='import json, sys; said = json.load(sys.stdin); said = said.get("daemon", {}).get("sandbox", said)
print(said["landlock_abi"], said["isolation"], said["messages"])'
inside=$(CLEW status --json | PYTHON -c "$walls")
outside=$(PYTHON -c "from clew_worker.sandbox import probe; print(probe().model_dump_json())" |
  PYTHON -c "$walls")
test "$inside" = "$outside" || failed "the unit weakens the sandbox: $inside, not $outside"
CLEW doctor | grep "one per worker" || failed "the doctor sees no groups"

printf '[loops]\\nrepeat_limit = 5\\n' >> ~/.config/clew/config.toml
systemctl --user reload $unit
echo "nonsense = 1" >> ~/.config/clew/config.toml
if systemctl --user reload $unit; then failed "a rejected reload succeeded"; fi
test "$(show ActiveState)" = active
pid=$(show MainPID)
if CLEW restart; then failed "a daemon that works was stopped for a broken config"; fi
test "$(show MainPID)" = "$pid"
sed -i '$ d' ~/.config/clew/config.toml
systemctl --user reload $unit

rm $ws/begun
kill -STOP "$(show MainPID)"
until_is NRestarts 1
until_there $ws/begun
test ! -e $ws/done
test ! -e $group/worker-$goal-1
kill -KILL "$(show MainPID)"
until_is NRestarts 2
until_is ActiveState active
touch $ws/go
until_there ~/.local/share/clew/outbox/$goal.md
grep "status: .*completed" ~/.local/share/clew/outbox/$goal.md
CLEW stop
test "$(show ActiveState)" = inactive
[ "$(show Result)" = success ]
test ! -e $group
CLEW verify
journal -o cat > LOG
grep -i "watchdog timeout" LOG
grep config.rejected LOG
grep goal.completed LOG | grep $goal
echo "all of it"
"""

STOPPING = """\
echo nonsense >> ~/.config/clew/config.toml
start || true
until_is ActiveState failed
test "$(show ExecMainStatus)" = 78
test "$(show NRestarts)" = 0
sed -i '$ d' ~/.config/clew/config.toml
systemctl --user reset-failed $unit

start
goal=$(CLEW submit THOROUGH_GOAL)
places $goal
until_there $ws/begun
systemctl --user stop $unit
test "$(show Result)" = success
test -e $ws/told -a -e $ws/tidied -a ! -e $ws/sigterm

touch $ws/stay
rm $ws/begun $ws/tidied
printf '[Service]\\nTimeoutStopSec=2\\n' > ~/.config/systemd/user/$unit.d/quick.conf
systemctl --user daemon-reload
start
until_there $ws/begun
systemctl --user stop $unit
test "$(show Result)" = timeout
test ! -e $group
test ! -e $ws/tidied
rm $ws/begun $ws/stay
systemctl --user reset-failed $unit
start
until_there $ws/begun
rm $ws/begun
pid=$(show MainPID)
CLEW restart
test "$(show MainPID)" != "$pid"
until_there $ws/begun
CLEW stop
if CLEW stop; then :; else failed "a stopped service cannot be stopped again"; fi
CLEW run &
run=$!
until CLEW status --json | grep -q '"ready": true'; do sleep 0.1; done
if CLEW start 2> LOG; then failed "a second daemon was started"; fi
grep "is running (process $run), not as the service" LOG
kill $run
wait $run
test "$(show Result)" = success
CLEW verify
echo "all of it"
"""


@pytest.fixture
def say(in_user_manager, tmp_path):
    """A function that runs a conversation with a manager that knows clew's unit; gives the output."""
    words = {
        "CLEW": Path(sys.executable).with_name("clew"),
        "PYTHON": sys.executable,
        "PLAYER": PLAYER,
        "LOG": tmp_path / "journal",
        **{name: tmp_path / name.lower() for name in ("CONFIG", "THOROUGH")},
        **{name: tmp_path / f"{name.lower()}.md" for name in ("GOAL", "THOROUGH_GOAL")},
    }

    named = re.compile(rf"\b({'|'.join(words)})\b(?!=)")
    words["CONFIG"].write_text(named.sub(lambda found: str(words[found[0]]), CONFIG))
    words["THOROUGH"].write_text(THOROUGH)
    words["GOAL"].write_text(GOAL)
    words["THOROUGH_GOAL"].write_text(THOROUGH_GOAL)

    def spoken(script: str) -> str:
        return named.sub(lambda found: shlex.quote(str(words[found[0]])), script)

    return lambda script: in_user_manager(spoken(WORDS + script))


def test_the_real_daemon_lives_under_systemd(say, tmp_path):
    said = say(LIFE)
    assert "enabled; start it with" in said
    assert said.rstrip().endswith("all of it")
    lines = (tmp_path / "journal").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines if line.startswith("{")]
    assert events.count("daemon.ready") == 3
    assert events.count("daemon.recovered") == 2
    assert events.count("goal.completed") == 1
    assert events[-1] == "daemon.stopped"


def test_systemd_gives_agents_their_grace_and_ends_what_overstays_it(say):
    assert say(STOPPING).rstrip().endswith("all of it")
