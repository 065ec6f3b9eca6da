"""`clew top` in a real terminal of 80 by 24, by keys alone, beside a daemon that is killed and comes back."""

import os
import shlex
import shutil
import subprocess

import pytest

GOAL = """\
# Wait for a sign
## Do
- [ ] Wait
  ```sh
  until test -e go; do sleep 0.02; done
  ```
"""


class Terminal:
    """A tmux server of its own, with one window."""

    def __init__(self, name):
        self.name = name
        self.run("new-session", "-d", "-x", "80", "-y", "24", "sleep 600")

    def _tmux(self, *args, check):
        command = ["tmux", "-L", self.name, "-f", "/dev/null", *args]
        return subprocess.run(command, capture_output=True, text=True, check=check)

    def run(self, *args):
        return self._tmux(*args, check=True).stdout

    def is_open(self):
        """Whether its program runs: the server ends with its last window."""
        return self._tmux("list-panes", check=False).returncode == 0

    def close(self):
        self._tmux("kill-server", check=False)

    def start(self, argv, env):
        variables = [word for key, value in env.items() for word in ("-e", f"{key}={value}")]
        self.run("respawn-window", "-k", *variables, shlex.join(argv))

    def screen(self):
        return self.run("capture-pane", "-p")

    def press(self, *keys):
        self.run("send-keys", *keys)


@pytest.fixture
def terminal():
    """Made before the home: its server is none of the daemon's processes."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    pytest.importorskip("textual", reason="the extra clew[top] is not installed")
    one = Terminal(f"clew-{os.getpid()}")
    yield one
    one.close()


def test_a_goal_is_paused_by_keys_and_the_end_of_the_daemon_is_said(terminal, make_clew):
    clew = make_clew().start()
    goal = clew.submit(GOAL)
    clew.wait("action.allowed", goal=goal)
    env = {key: clew.environment()[key] for key in ("PATH", "HOME") if key in clew.environment()}
    terminal.start(clew.command("top"), env | {"TERM": "tmux-256color", "LANG": "C.UTF-8"})

    def shows(*texts):
        clew.until(
            lambda: all(text in terminal.screen() for text in texts), f"{texts} on the screen"
        )

    shows("clew status", goal[:20], "in_progress")
    terminal.press("Enter")
    shows(f"clew status {goal}", "until test -e go", "running")
    terminal.press("p")
    shows(f"$ clew pause {goal}")
    terminal.press("y")
    clew.wait("goal.waiting", goal=goal)
    shows("paused")
    clew.kill()
    shows("the daemon has ended")
    clew.start()
    clew.until(lambda: "the daemon has ended" not in terminal.screen(), "the daemon is back")
    terminal.press("r")
    shows(f"$ clew resume {goal}")
    terminal.press("y")
    clew.wait("goal.started", goal=goal, count=2)
    (clew.workspace(goal) / "go").touch()
    clew.wait("goal.completed", goal=goal)
    shows("completed")
    terminal.press("q")
    clew.until(lambda: not terminal.is_open(), "the end")
