"""`clew top` in a real terminal of 80 by 24, by keys and the mouse, beside a daemon that is killed and comes back."""

import os
import shutil
import time

import pytest
from tmux import Terminal

from clew_daemon.reading.instance import Instance
from clew_daemon.top.app import TopApp
from clew_daemon.top.goal_views import FilesScreen
from clew_daemon.top.screens import TextPage

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


# -- the views of `clew top` beside a real daemon: prompts turn by turn, and what a goal has ch


WITHIN_S = 60.0
HOSTILE = "[bold]x[/] \\x1b[2J"
WRITES = """\
# Write two files
## Do
- [ ] Write
  ```python file=one.py
  print(1)
  ```
- [ ] Write another
  ```sh
  printf '[bold]x[/] \\033[2J\\n' > two.txt
  ```
"""


async def until(pilot, condition):
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        await pilot.pause(0.02)
        if found := condition():
            return found
    raise AssertionError(f"not reached; the screen is {pilot.app.screen}")


def shown(app):
    """All text of the page."""
    return "\n".join(page.render().plain for page in app.screen.query(TextPage))


async def opened(pilot, key, kind):
    """Open a view once the goal is there."""
    await until(pilot, lambda: getattr(pilot.app.screen, "goal", None))
    await pilot.press(key)
    await until(pilot, lambda: isinstance(pilot.app.screen, kind))


async def test_what_a_goal_has_changed_is_shown_file_by_file_and_is_only_text(clew):
    goal = clew.start().completed(WRITES)
    app = TopApp(Instance.of(clew.home, os.environ), goal)
    async with app.run_test(size=(80, 12)) as pilot:
        await opened(pilot, "4", FilesScreen)
        await until(pilot, lambda: "2 files changed: 2 lines added" in shown(app))
        assert f"+{HOSTILE}" in shown(app)
        assert "\x1b" not in shown(app)
