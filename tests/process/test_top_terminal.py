"""`clew top` in a real terminal of 80 by 24, by keys and the mouse, beside a daemon that is killed and comes back."""

import os
import shutil

import pytest
from tmux import Terminal

GOAL = """\
---
on_interrupt: retry
---
# Wait for a sign
## Do
- [ ] Wait
  ```sh
  until test -e go; do sleep 0.02; done
  ```
"""


@pytest.fixture
def terminal():
    """Made before the home: its server is none of the daemon's processes."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
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
    terminal.press("2")
    shows(f"clew history {goal}", "1.1", "at work", "> running")
    terminal.press("3")
    shows(f"clew context {goal}", "Turn 1 of 1", "Wait for a sign")
    terminal.press("4")
    shows(f"clew diff {goal}", "no changes")
    terminal.click(column=1, row=1)
    shows(f"clew status {goal}")
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
    shows(f"$ clew continue {goal}")
    terminal.press("y")
    clew.wait("goal.started", goal=goal, count=2)
    (clew.workspace(goal) / "go").touch()
    clew.wait("goal.completed", goal=goal)
    shows("completed")
    terminal.press("q")
    clew.until(lambda: not terminal.is_open(), "the end")
