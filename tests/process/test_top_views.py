"""The views of `clew top` beside a real daemon: prompts turn by turn, and what a goal has changed."""

import os
import time

from clew_daemon.reading.instance import Instance
from clew_daemon.top.app import TopApp
from clew_daemon.top.files_screen import FilesScreen
from clew_daemon.top.tables import TextPage

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
    goal = clew.start().submit(WRITES)
    clew.wait("goal.completed", goal=goal)
    app = TopApp(Instance.of(clew.home, os.environ), goal)
    async with app.run_test(size=(80, 12)) as pilot:
        await opened(pilot, "4", FilesScreen)
        await until(pilot, lambda: "2 files changed: 2 lines added" in shown(app))
        assert f"+{HOSTILE}" in shown(app)
        assert "\x1b" not in shown(app)
